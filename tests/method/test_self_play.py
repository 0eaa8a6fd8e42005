"""Self-play: each prompt is made once, and the result of a step is a tree with rewards on its leaves."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from concurrent.futures import Future
from dataclasses import replace
from itertools import chain
from pathlib import Path

import pytest

from redqueen.base.futures import finished
from redqueen.base.request_stream import Follow
from redqueen.config import Config, GameConfig, SandboxConfig
from redqueen.errors import UserError
from redqueen.method.judging import ask
from redqueen.method.matchmaking import Match
from redqueen.method.planting import plant_seeds, refuse_lost, seed_tasks
from redqueen.method.played_step import score_step
from redqueen.method.rewards import solve_rate, teacher_reward
from redqueen.method.seeds import SeedError
from redqueen.method.self_play import SelfPlay
from redqueen.method.verifier import LocalVerifier
from redqueen.records import (
    Attempted,
    Completion,
    Kind,
    Pair,
    Prompt,
    Proposed,
    Request,
    SamplingParams,
    Task,
    Verdict,
)
from redqueen.tasks.kinds import task_on
from redqueen.tasks.python import IDENTITY, NAMES, PYTHON, reserved
from tests import toy

MATCHES = [Match(id="3.0", teacher="T0", student="S1"), Match(id="3.1", teacher="T1", student="S0")]


class Writer:
    """A sampler that writes the bytes it was given in turn, and ends the last request first."""

    def __init__(self, texts: str) -> None:
        self.texts = texts
        self.requests: list[Request] = []

    def sample(
        self, requests: Sequence[Request], on_completion: Callable[[int, Completion], None] | None = None
    ) -> list[Completion]:
        self.requests += requests
        completions = [
            Completion(
                member=request.member, version=1, prompt_ids=(), token_ids=(), logprobs=(),
                text=self.texts[i % len(self.texts)], finish_reason="stop",
            )
            for i, request in enumerate(requests)
        ]  # fmt: skip
        for index in reversed(range(len(requests))):
            if on_completion is not None:
                on_completion(index, completions[index])
        return completions


class CountingPrompts(toy.ToyPrompts):
    """Counts the prompts of tasks, and keeps their worked examples."""

    def __init__(self) -> None:
        self.posed: list[str] = []
        self.examples: list[Sequence[Task]] = []

    def attempt(self, task: Task, examples: Sequence[Task]) -> Prompt:
        self.posed.append(task.id)
        self.examples.append(examples)
        return super().attempt(task, examples)


def self_play(texts: str, verifier: LocalVerifier, **game: object) -> SelfPlay:
    config = Config(game=GameConfig(kinds=("code_o",), proposals=2, attempts=3, references=0).model_copy(update=game))
    made = SelfPlay(config.play_settings, Writer(texts), verifier)
    made.prompts = CountingPrompts()
    return made


def test_the_bank_starts_with_as_many_seeds_as_asked_for(verifier: LocalVerifier) -> None:
    few = self_play("a", verifier, seed_tasks=5)
    assert plant_seeds(few).programs == 5
    numbers = [int(entry.task.id.split("-")[1]) for entry in few.task_bank.entries()]
    assert numbers == sorted(numbers)
    again = self_play("a", verifier, seed_tasks=5)
    plant_seeds(again)
    assert again.task_bank.entries() == few.task_bank.entries()


def test_seeds_of_ones_own_are_checked_before_the_run(verifier: LocalVerifier, tmp_path: Path) -> None:
    file = tmp_path / "own.txt"
    file.write_text("# twice\ndef f(x):\n    return [x, x]\nf(1)\n\n# the first\ndef f(x):\n    return x[0]\nf('ab')\n")
    play = self_play("a", verifier, seeds=str(file))
    assert plant_seeds(play).programs == 2
    again = tmp_path / "again.txt"
    again.write_text(file.read_text() + "\n# the first again\ndef f(x):\n    return x[0]\nf('cd')\n")
    assert plant_seeds(self_play("a", verifier, seeds=str(again))).programs == 2
    assert [entry.task.pairs[0].output for entry in play.task_bank.entries()] == ["[1, 1]", "'a'"]
    file.write_text(file.read_text().replace("'ab'", "''"))
    with pytest.raises(SeedError, match=r"1 of 2 programs of .* give no outputs in the sandbox, first '# the first'"):
        plant_seeds(self_play("a", verifier, seeds=str(file)))
    file.write_text("# none\ndef f(x):\n    y = x\n    return y\nf(1)\n")
    with pytest.raises(SeedError, match=r"no seed program has at most game\.seed_lines=2 lines"):
        plant_seeds(self_play("a", verifier, seeds=str(file), seed_lines=2))


def test_seeds_of_ones_own_that_are_held_out_are_left_out(verifier: LocalVerifier, tmp_path: Path) -> None:
    held_out = f"# held out\n{reserved()[0].program}\nf({reserved()[0].inputs[0]})\n"
    file = tmp_path / "own.txt"
    file.write_text(f"{held_out}\n# the first\ndef f(x):\n    return x[0]\nf('ab')\n")
    play = self_play("a", verifier, seeds=str(file))
    assert plant_seeds(play).programs == 1
    assert [entry.task.id for entry in play.task_bank.entries()] == ["seed-1-code_o"]
    file.write_text(held_out)
    with pytest.raises(SeedError, match=r"all programs of .* are similar to held-out ones"):
        plant_seeds(self_play("a", verifier, seeds=str(file)))


def test_the_seeds_that_the_bank_starts_with_may_be_limited_to_short_ones(verifier: LocalVerifier) -> None:
    play = self_play("a", verifier, seed_tasks=12, seed_lines=2)
    assert plant_seeds(play).programs == 12
    assert {len(entry.task.program.splitlines()) for entry in play.task_bank.entries()} == {2}


def test_without_seeds_the_bank_starts_with_the_identity(verifier: LocalVerifier) -> None:
    play = self_play("a", verifier, seed_tasks=0, kinds=NAMES)
    assert plant_seeds(play).programs == 1
    entries = play.task_bank.entries()
    assert [entry.task.kind for entry in entries] == list(NAMES)
    assert {entry.task.program for entry in entries} == {IDENTITY.program}
    assert all(pair.input == pair.output for entry in entries for pair in entry.task.pairs)


def test_a_seed_with_few_inputs_is_no_task_with_hidden_ones(verifier: LocalVerifier, tmp_path: Path) -> None:
    program = "# first\ndef f(x):\n    return x[0]\n"
    # "abc" is given twice, in two spellings.
    calls = ["f('abc')\n", "f('abc')\nf(\"abc\")\n", "f('a')\nf('b')\nf('c')\n", "f('a')\nf('b')\nf('c')\nf('d')\n"]
    file = tmp_path / "own.txt"
    file.write_text("\n".join(program.replace("x", "xyzw"[number]) + each for number, each in enumerate(calls)))
    play = self_play("a", verifier, seeds=str(file), kinds=("code_o", "code_f"), min_inputs=4)
    plant_seeds(play)
    tasks = [entry.task for entry in play.task_bank.entries()]
    assert [task.id for task in tasks if task.kind == "code_f"] == ["seed-3-code_f"]
    (whole,) = seed_tasks(verifier, PYTHON, [0])
    for pairs in (whole.pairs[:1], (whole.pairs[0], whole.pairs[0])):
        assert task_on(replace(whole, pairs=pairs), "code_f") is None


def test_seeds_that_the_machine_lost_or_that_do_not_fit_end_the_run_before_it_begins(
    verifier: LocalVerifier, tmp_path: Path
) -> None:
    with pytest.raises(UserError, match="the sandbox lost 1 of 2 programs"):
        refuse_lost([Verdict("valid"), Verdict("infra_error")])
    with pytest.raises(SeedError, match=r"there are more than game\.bank_size=16 seeds of a kind"):
        plant_seeds(self_play("a", verifier, seed_tasks=17, bank_size=16))
    file = tmp_path / "own.txt"
    file.write_text("# the first\ndef f(x):\n    return x[0]\nf('ab')\n")
    with pytest.raises(SeedError, match="is of one language"):
        plant_seeds(self_play("a", verifier, seeds=str(file), kinds=("code_o", "expr_o")))


def test_seeds_are_planted_though_a_proposal_would_need_more_inputs() -> None:
    with LocalVerifier(SandboxConfig(), min_inputs=64) as strict:
        assert len(seed_tasks(strict, PYTHON, [0, 7])) == 2


def silent(done: int, total: int) -> None:
    del done, total


def nothing() -> None:
    pass


def test_asking_keeps_the_order_of_the_requests_and_reports_progress() -> None:
    params = SamplingParams(max_tokens=1)
    requests = [Request(member="T0", prompt=Prompt("", ()), sampling=params, seed=(i,)) for i in range(4)]
    seen: list[tuple[int, int]] = []

    def submit(index: int, completion: Completion) -> Future[str]:
        return finished(f"{index}{completion.text}")

    answers = ask(Writer("abcd"), requests, submit, lambda done, total: seen.append((done, total)))
    assert [(completion.text, verdict) for completion, verdict in answers] == [
        ("a", "0a"), ("b", "1b"), ("c", "2c"), ("d", "3d"),
    ]  # fmt: skip
    assert seen == [(1, 4), (2, 4), (3, 4), (4, 4)]


def test_an_error_of_the_judge_ends_the_asking() -> None:
    requests = [Request(member="T0", prompt=Prompt("", ()), sampling=SamplingParams(max_tokens=1), seed=(0,))]
    failed: Future[Verdict] = Future()
    failed.set_exception(OSError("no space left"))
    with pytest.raises(OSError, match="no space left"):
        ask(Writer("a"), requests, lambda index, completion: failed)


def test_a_prompt_is_built_once_for_each_task(verifier: LocalVerifier) -> None:
    play = self_play("b", verifier)
    _, attempted = play.play(3, MATCHES, silent, nothing)
    assert isinstance(play.prompts, CountingPrompts)
    assert play.prompts.posed == ["3.0.code_o.0", "3.0.code_o.1", "3.1.code_o.0", "3.1.code_o.1"]
    assert len(attempted) == 4 * 3
    assert isinstance(play.sampler, Writer)
    seeds = [request.seed for request in play.sampler.requests[4:7]]
    assert seeds == [(0, "attempt", "3.0.code_o.0", n) for n in range(3)]


class Streaming(Writer):
    """Writes the last request that it knows first, so that attempts overtake proposals."""

    def stream(self, requests: Sequence[Request], follow: Follow, most: int) -> list[Completion]:
        known = list(requests)
        waiting = list(range(len(known)))
        written: dict[int, Completion] = {}
        while waiting:
            index = waiting.pop()
            (written[index],) = self.sample([known[index]])
            further = follow(index, written[index])
            if further is not None:
                new = further.result()
                waiting += range(len(known), len(known) + len(new))
                known += new
        assert len(known) <= len(requests) + most
        return [written[index] for index in range(len(known))]


def test_in_one_stream_a_step_is_the_same_as_in_rounds(verifier: LocalVerifier) -> None:
    rounds, streaming = self_play("b", verifier), self_play("b", verifier)
    streaming.sampler = Streaming("b")

    def played(play: SelfPlay) -> tuple[list[Proposed | Attempted], list[tuple[int, int] | str]]:
        """Returns what was played, without times, and what was shown meanwhile."""
        seen: list[tuple[int, int] | str] = []
        both = play.play(3, MATCHES, lambda done, total: seen.append((done, total)), lambda: seen.append("proposed"))
        return [replace(one, verdict=replace(one.verdict, cpu_ms=0.0)) for one in chain(*both)], seen

    in_rounds, shown = played(rounds)
    in_stream, shown_in_stream = played(streaming)
    assert in_rounds == in_stream
    assert len(in_stream) == 4 + 12
    # Progress counts proposals until all have been written, then the attempts that are known.
    proposing = [*((n, 4) for n in range(1, 5)), "proposed"]
    assert shown == [*proposing, *((n, 12) for n in range(1, 13))]
    assert shown_in_stream[:5] == proposing
    assert shown_in_stream[-1] == (12, 12)


@pytest.mark.parametrize("shots", [0, 2])
def test_worked_examples_are_other_programs_than_the_one_asked_about(
    shots: int, verifier: LocalVerifier, seed_tasks: dict[Kind, list[Task]]
) -> None:
    play = self_play("b", verifier, shots=shots)
    for task in seed_tasks["code_o"][:3]:
        play.task_bank.add(task, None)
    asked = seed_tasks["code_o"][0]
    play.attempt([("S0", asked)], 1)
    assert isinstance(play.prompts, CountingPrompts)
    (examples,) = play.prompts.examples
    assert len(examples) == shots
    assert asked.program not in {task.program for task in examples}


def test_a_step_is_a_tree_with_rewards_on_its_leaves(verifier: LocalVerifier) -> None:
    # The first proposal of each match is valid, the second cannot be read; "b" solves its task, "c" does not.
    play = self_play("bc", verifier)
    proposed, attempted = play.play(3, MATCHES, silent, nothing)
    step = score_step(3, MATCHES, proposed, attempted, play.task_bank, play.game)
    assert [played.match for played in step.matches] == MATCHES
    for played in step.matches:
        valid, unread = played.proposals
        assert [p.proposed.match for p in played.proposals] == [played.match.id] * 2
        assert (unread.proposed.verdict.status, unread.attempts, unread.solve_rate) == ("malformed", (), None)
        assert unread.reward == -1.0
        assert not unread.novel
        verdicts = [attempt.attempted.verdict for attempt in valid.attempts]
        assert len(verdicts) == 3
        assert valid.solve_rate == solve_rate(verdicts)
        assert valid.reward == teacher_reward(valid.proposed, valid.solve_rate, valid.novel, play.game)
        assert {a.attempted.rollout.member for a in valid.attempts} == {played.match.student}
        for attempt in valid.attempts:
            assert attempt.reward == (1.0 if attempt.attempted.verdict.status == "correct" else -0.5)
    # Both matches propose the same program: only the first is new.
    assert [p.novel for p in step.proposals] == [True, False, False, False]
    graded = step.graded()
    assert len(graded) == len(step.proposals) + len(step.attempts) == 4 + 6
    assert [g.rollout.role for g in graded] == ["teacher"] * 4 + ["student"] * 6


def test_what_the_machine_lost_is_not_paid(verifier: LocalVerifier) -> None:
    play = self_play("b", verifier)
    proposed, _ = play.play(3, MATCHES[:1], silent, nothing)
    assert score_step(3, MATCHES[:1], proposed, [], play.task_bank, play.game).graded() == []


def test_a_task_that_does_not_repeat_its_output_is_withdrawn(verifier: LocalVerifier) -> None:
    # Both proposals of each match are valid; the output of the very first is recorded wrongly.
    play = self_play("b", verifier, kinds=("code_i",))
    (first, *others), attempted = play.play(3, MATCHES, silent, nothing)
    assert first.task is not None
    unstable = replace(first.task, pairs=(Pair(first.task.pairs[0].input, "2"),))
    proposed = [replace(first, task=unstable), *others]
    attempted = [*play.attempt([(first.student, unstable)], 3), *attempted[3:]]
    # One attempt is lost to the machine, which stays what it was.
    attempted[1] = replace(attempted[1], verdict=Verdict("infra_error"))
    step = score_step(3, MATCHES, proposed, attempted, play.task_bank, play.game)
    withdrawn = step.proposals[0]
    assert (withdrawn.proposed.verdict.status, withdrawn.proposed.task) == ("nondeterministic", None)
    assert withdrawn.proposed.verdict.detail == "while it was played: the recorded input now gives another output"
    assert (withdrawn.reward, withdrawn.solve_rate, withdrawn.novel) == (-1.0, None, False)
    assert [attempt.attempted.verdict.status for attempt in withdrawn.attempts] == [
        "nondeterministic", "infra_error", "nondeterministic"
    ]  # fmt: skip
    assert [attempt.reward for attempt in withdrawn.attempts] == [None] * 3
    # The other proposals hold the same program: they were played, and the program leaves the bank all the same.
    assert [proposal.solve_rate for proposal in step.proposals[1:]] == [1.0] * 3
    assert len(play.task_bank) == 0
    assert len(step.graded()) == 4 + 9


def test_attempts_at_a_withdrawn_task_say_what_they_were_judged_before(verifier: LocalVerifier) -> None:
    play = self_play("b", verifier, kinds=("code_i",))
    proposed, attempted = play.play(3, MATCHES[:1], silent, nothing)
    broken = replace(attempted[2], verdict=Verdict("nondeterministic", detail="two outputs"))
    step = score_step(3, MATCHES[:1], proposed, [*attempted[:2], broken], play.task_bank, play.game)
    details = [attempt.attempted.verdict.detail for attempt in step.proposals[0].attempts]
    assert details == ["the task was withdrawn; judged correct before"] * 2 + ["two outputs"]
