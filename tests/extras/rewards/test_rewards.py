"""Rewards for other trainers, called as those call them, with the real jail."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from redqueen.errors import UserError
from redqueen.extras.rewards import pay_attempts, pay_programs, task_of, task_rows
from redqueen.extras.rewards import verl as verl_module
from redqueen.extras.rewards.trl import JailEnvironment, passes_tests, solved
from redqueen.extras.rewards.verl import MachineFaultError, compute_score, verl_rows
from redqueen.jail import Call, Outcome, Script
from redqueen.records import Verdict
from redqueen.tasks.python import reserved
from redqueen.tasks.tested.tests import test_of as read_test
from tests.cli.archived import archived, archived_tests

ADD = "def f(x):\n    return x + 3"
TASKS = [
    {"kind": "code_o", "program": ADD, "inputs": ["1"], "outputs": ["4"]},
    {"kind": "code_i", "program": ADD, "inputs": ["1"], "outputs": ["4"]},
    {
        "kind": "code_f",
        "program": ADD,
        "inputs": ["1", "2", "3", "4"],
        "outputs": ["4", "5", "6", "7"],
        "message": "add three",
    },
]


@pytest.fixture(scope="module")
def exported(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A file as `redqueen tasks export` writes it, as far as it is read."""
    file = tmp_path_factory.mktemp("rewards") / "tasks.jsonl"
    file.write_text("".join(f"{json.dumps(task)}\n" for task in TASKS))
    return file


def columns(rows: list[dict[str, Any]]) -> dict[str, list[Any]]:
    return {name: [row[name] for row in rows] for name in rows[0] if name != "prompt"}


def fenced(name: str, body: str) -> str:
    return f"<think>so</think><answer>\n```{name}\n{body}\n```\n</answer> and more"


def said(text: str) -> list[dict[str, str]]:
    return [{"role": "assistant", "content": text}]


def test_trl_gets_the_games_rewards_for_conversations(exported: Path) -> None:
    rows = task_rows(exported)
    assert rows[0]["prompt"][0]["role"] == "user"
    assert ADD in rows[0]["prompt"][0]["content"]
    assert ADD not in rows[2]["prompt"][0]["content"]
    logged: list[tuple[str, float]] = []
    right = [
        said(fenced("output", "4")),
        said(fenced("input", "1")),
        said(fenced("python", "def f(y):\n    return y+3")),
    ]
    rewards = solved(right, **columns(rows), trainer_state=None, log_metric=lambda *each: logged.append(each))
    assert rewards == [1.0, 1.0, 1.0]
    assert logged == [("jail/correct", 1.0)]
    wrong = [said(fenced("output", "5")), said("1"), said(fenced("python", "import os"))]
    assert solved(wrong, **columns(rows)) == [-0.5, -1.0, -0.5]


def test_tasks_with_tests_are_posed_and_judged_in_every_form(tmp_path: Path) -> None:
    run = archived_tests(tmp_path / "run")
    right = ["def f(x):\n    return x - 1", ADDS, "print(2 * int(input()))"]
    rows = task_rows(run)
    assert {row["kind"] for row in rows} == {"code_t"}
    assert "Add two numbers.\nThey are whole." in rows[1]["prompt"][0]["content"]
    assert "add(0, 9)" not in rows[1]["prompt"][0]["content"]
    answers = [fenced("python", program) for program in right]
    assert solved([said(text) for text in answers], **columns(rows)) == [1.0, 1.0, 1.0]
    assert solved([said(text) for text in (*answers[1:], answers[0])], **columns(rows)) == [-0.5, -0.5, -0.5]
    texts = task_rows(run, "completion")
    assert texts[1]["prompt"].endswith("def add(")
    written = [program.removeprefix(row["opening"]) for row, program in zip(texts, right, strict=True)]
    assert solved([f"{text}\n\n# more" for text in written], **columns(texts)) == [1.0, 1.0, 1.0]
    for row, answer in zip(verl_rows(run), answers, strict=True):
        truth = row["reward_model"]["ground_truth"]
        assert compute_score(row["data_source"], answer, truth) == {"score": 1.0, "acc": True}
        assert compute_score(row["data_source"], "nothing", truth)["score"] < 0


def test_the_answer_is_the_last_one_of_a_text_that_speaks_of_its_form(exported: Path) -> None:
    rows = task_rows(exported)[:1]
    thought = "<think>It goes between <answer> and </answer>.</think>"
    five, four = (f"<answer>\n```output\n{value}\n```\n</answer>" for value in "54")
    texts = [f"{thought}{four}", f"{five} Wait. {four}", f"{four} Wait. {five}", f"{thought} It is 4."]
    for text, reward in zip(texts, [1.0, 1.0, -0.5, -1.0], strict=True):
        assert solved([said(text)], **columns(rows)) == [reward]
        truth = verl_rows(exported)[0]["reward_model"]["ground_truth"]
        assert compute_score("redqueen", text, truth)["score"] == reward


def test_trl_gets_the_games_rewards_for_texts_that_go_on_after_the_answer(exported: Path) -> None:
    rows = task_rows(exported, "completion")
    assert rows[2]["prompt"].endswith("def f(")
    texts = [" 4\n\n# Puzzle: another", "1)\nassert", "x):\n    return x + 3\n\n# Puzzle: another\ndef f(x): 1"]
    assert solved(texts, **columns(rows)) == [1.0, 1.0, 1.0]


def test_programs_are_paid_by_the_tests_of_their_rows() -> None:
    completions = ["Here:\n```python\ndef add(a, b):\n    return a + b\n```", said("print(input())"), "def (", "1"]
    tests = [
        ["assert add(1, 2) == 3", {"function": "add", "arguments": [1, 2], "expected": 3, "stdout": None}],
        [{"stdin": "a", "stdout": "a"}],
        ["assert f() == 1"],
        [{"stdout": "1"}],
    ]
    assert passes_tests(completions, tests=tests, prompts=[]) == [1.0, 1.0, 0.0, 0.0]
    assert read_test({"stdin": None, "stdout": "1"}) == Script("", "1")
    assert read_test({"function": "f", "arguments": None, "expected": None}) == Call("f", (), None, json=True)
    with pytest.raises(ValueError, match="is no test"):
        passes_tests(["x"], tests=[[{"input": 1}]])


FENCE = "```"
ADDS = "def add(a, b):\n    return a + b\n"
DOCUMENTED = f'def add(a, b):\n    """Adds.\n\n    {FENCE}\n    add(1, 2)\n    {FENCE}\n    """\n    return a + b\n'
MESSAGES = {
    "usage after": f"{FENCE}python\n{ADDS}{FENCE}\nUse it:\n{FENCE}python\nprint(add(1, 2))\n{FENCE}",
    "output after": f"{FENCE}python\n{ADDS}{FENCE}\nIt prints\n{FENCE}\n3\n{FENCE}",
    "shell after": f"{FENCE}py\n{ADDS}{FENCE}\n{FENCE}bash\npython add.py\n{FENCE}",
    "in a list": f"1. Code:\n\n   {FENCE}python\n   def add(a, b):\n       return a + b\n   {FENCE}",
    "text before": f"Answer: {FENCE}python\n{ADDS}{FENCE}",
    "glued": f"{FENCE}python\n{ADDS.rstrip()}{FENCE}",
    "tildes": f"~~~python\n{ADDS}~~~",
    "four ticks": f"````python\n{ADDS}````\n",
    "in a docstring": f"{FENCE}python\n{DOCUMENTED}{FENCE}",
    "a mark of encoding": f"{FENCE}python\n\ufeff{ADDS}{FENCE}",
    "a mark of encoding alone": f"\ufeff{ADDS}",
}


@pytest.mark.parametrize("text", MESSAGES.values(), ids=MESSAGES.keys())
def test_the_program_is_found_in_a_message(text: str) -> None:
    assert passes_tests([text], tests=[["assert add(1, 2) == 3"]]) == [1.0]


def test_a_message_may_come_in_parts() -> None:
    parts = [{"type": "text", "text": ADDS[:10]}, {"type": "image", "text": None}, {"type": "text", "text": ADDS[10:]}]
    for content in (parts, [ADDS], ADDS):
        completion = [{"role": "assistant", "content": content}]
        assert passes_tests([completion], tests=[["assert add(1, 2) == 3"]]) == [1.0]


@pytest.mark.parametrize(
    "completion", [3, None, ["x"], [{"role": "assistant", "content": 3}], [{"role": "assistant", "content": [3]}]]
)
def test_what_is_no_completion_is_an_error(completion: Any) -> None:
    with pytest.raises(ValueError, match="must be a"):
        passes_tests([completion], tests=[["assert add(1, 2) == 3"]])


def test_a_fault_of_the_machine_is_no_reward() -> None:
    assert pay_attempts([Verdict("infra_error"), Verdict("nondeterministic"), Verdict("wrong")]) == [None, None, -0.5]
    assert pay_programs([Outcome(status="infra_error"), Outcome(status="timeout")]) == [None, 0.0]


def test_the_tool_says_what_a_program_printed_and_how_it_failed() -> None:
    jail = JailEnvironment()
    assert jail.reset(prompt="p", kind="code_o") is None
    assert jail.run("print(int(input()) + 1)", "41") == "42\n"
    assert jail.run("print(1)\n1 / 0").startswith("1\n\n[standard error]\nTraceback")
    assert jail.run("pass") == "[nothing was printed, exit code 0]"
    assert jail.run("x = [0] * (1 << 40)").startswith("[memory")
    assert "signs left out" in jail.run("print('x' * 10_000)")


def test_verl_gets_scores_for_tasks_and_for_tests(exported: Path) -> None:
    rows = verl_rows(exported)
    assert [set(row) for row in rows] == [{"data_source", "prompt", "ability", "reward_model", "extra_info"}] * 3
    row = rows[0]
    assert compute_score("redqueen", fenced("output", "4"), row["reward_model"]["ground_truth"], row["extra_info"]) == {
        "score": 1.0,
        "acc": True,
    }
    assert compute_score("x", fenced("output", "5"), row["reward_model"]["ground_truth"])["score"] == -0.5
    tests = json.dumps({"tests": [{"stdin": "", "stdout": "1"}]})
    assert compute_score("x", "```python\nprint(1)\n```", tests, None, n=3)["score"] == 1.0


@pytest.mark.parametrize("truth", ["4", "[", '{"kind": "code_o"}'])
def test_verl_is_told_what_a_ground_truth_must_be(truth: str) -> None:
    with pytest.raises(UserError, match=r"ground_truth|a row is no task"):
        compute_score("x", "4", truth)


def test_verl_stops_when_the_machine_fails_again_and_again(monkeypatch: pytest.MonkeyPatch) -> None:
    asked: list[object] = []

    def fails(texts: object, tests: object) -> list[Outcome]:
        asked.append(texts)
        return [Outcome(status="infra_error")]

    monkeypatch.setattr(verl_module, "program_outcomes", fails)
    with pytest.raises(MachineFaultError):
        compute_score("x", "", '{"tests": []}')
    assert len(asked) == 3


def test_rows_that_are_no_tasks_and_other_styles_are_refused(exported: Path) -> None:
    with pytest.raises(UserError, match="2 inputs and 1 outputs"):
        task_of({"kind": "code_o", "program": "", "inputs": ["1", "2"], "outputs": ["1"]})
    with pytest.raises(UserError, match="choose chat or completion"):
        task_rows(exported, "talk")  # type: ignore[arg-type]


def test_tasks_on_reserved_programs_are_not_posed(tmp_path: Path) -> None:
    run = archived(tmp_path / "run")
    assert [row["id"] for row in task_rows(run)] == ["1.0.a", "1.0.b", "2.0.a", "2.0.b"]
    file = tmp_path / "reserved.jsonl"
    row = {"kind": "code_o", "program": reserved()[0].program, "inputs": ["[1]"], "outputs": ["1"]}
    file.write_text(json.dumps(row) + "\n")
    with pytest.raises(UserError, match="similar to a reserved program"):
        task_rows(file)
