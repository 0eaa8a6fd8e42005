"""The views of settings, the machine, operators, a task's way and the comparison, on a real run."""

from __future__ import annotations

import json
import shutil
import sqlite3
from functools import partial
from pathlib import Path
from typing import Any

import pytest
from starlette.testclient import TestClient

from redqueen.extras.page import comparison, tasks, views
from redqueen.extras.page.live_run import LiveRun
from tests.cli.archived import archived_tests
from tests.cli.running import redqueen
from tests.extras.page import drawn_run
from tests.extras.page.conftest import page
from tests.extras.page.test_app import ask

pytestmark = pytest.mark.integration


def test_settings_say_what_was_chosen_and_where_it_ran(client: TestClient) -> None:
    found = ask(client, "settings")
    rows = {row["key"]: row for row in found["settings"]}
    assert rows["run.steps"]["value"] == "3"
    assert rows["run.steps"]["chosen"]
    assert rows["run.steps"]["text"]
    chosen = [row for row in rows.values() if row["chosen"]]
    assert all(row["value"] != row["recipe"] for row in chosen)
    assert len(chosen) < len(rows)


def test_what_was_left_to_the_machine_was_chosen_by_nobody(client: TestClient) -> None:
    rows = {row["key"]: row for row in ask(client, "settings")["settings"]}
    assert (rows["model.dtype"]["recipe"], rows["model.dtype"]["chosen"]) == ("auto", False)
    assert rows["model.dtype"]["value"] != "auto"


def test_a_run_shows_its_own_held_out_scores_before_it_is_evaluated(tmp_path: Path) -> None:
    own = ask(page(drawn_run.write(tmp_path / "run", 20)), "evaluation")["own"]
    assert (own["step"], own["problems"], own["start"]) == (20, drawn_run.PROBLEMS, 0.24)
    assert {student["name"] for student in own["students"]} >= {"S0"}


def test_a_fixed_task_is_nobodys_and_examples_are_counted_from_one(watched: Path, tmp_path: Path) -> None:
    run = Path(shutil.copytree(watched / "first", tmp_path / "run"))
    archive = sqlite3.connect(run / "run.sqlite")
    (name, other) = (row[0] for row in archive.execute("SELECT id FROM tasks WHERE kind = 'code_o' LIMIT 2"))
    with archive:
        archive.execute("UPDATE proposals SET teacher = 'bank', kind = 'code_f', reward = NULL WHERE id = ?", [name])
        archive.execute("UPDATE attempts SET detail = 'output 0 differs'")
    archive.close()
    fixed = ask(page(run), "task", id=name)
    assert fixed["proposal"]["why"] == "A fixed task: no teacher wrote it, so no teacher is paid for it."
    assert fixed["fixed"]
    assert {attempt["detail"] for attempt in fixed["attempts"]} == {"hidden example 1 differs"}
    assert {attempt["detail"] for attempt in ask(page(run), "task", id=other)["attempts"]} == {"the output differs"}


def test_the_example_shows_the_work_of_an_answer_apart_from_it(watched: Path, tmp_path: Path) -> None:
    run = Path(shutil.copytree(watched / "first", tmp_path / "run"))
    config = json.loads((run / "config.json").read_text())
    config["model"]["prompts"] = "work"
    (run / "config.json").write_text(json.dumps(config))
    archive = sqlite3.connect(run / "run.sqlite")
    with archive:
        archive.execute("UPDATE tasks SET author = 'own'")
        archive.execute("UPDATE attempts SET text = ?", ["\nx = 1\nreturn x + 3 -> 4"])
    archive.close()
    example = ask(page(run), "overview")["example"]
    assert example["author"] == "yours"
    assert {(each["work"], each["text"]) for each in example["answers"]} == {("x = 1\nreturn x + 3", "4")}


def test_a_right_answer_is_among_those_of_the_example(watched: Path, tmp_path: Path) -> None:
    run = Path(shutil.copytree(watched / "first", tmp_path / "run"))
    archive = sqlite3.connect(run / "run.sqlite")
    with archive:
        (last,) = archive.execute("SELECT max(number) FROM attempts").fetchone()
        assert last >= tasks.MOST_ANSWERS
        archive.execute("UPDATE attempts SET text = ' ' || number, status = 'wrong'")
        archive.execute("UPDATE attempts SET status = 'correct' WHERE number = ?", [last])
    archive.close()
    example = ask(page(run), "overview")["example"]
    assert [each["status"] for each in example["answers"]] == ["wrong", "wrong", "correct"]
    assert example["more"] == last + 1 - tasks.MOST_ANSWERS


def test_your_tasks_are_called_yours_wherever_a_task_is_shown(tmp_path: Path) -> None:
    run = LiveRun(archived_tests(tmp_path / "run"))
    assert [(view["fixed"], view["author"]) for view in map(partial(tasks.task_view, run), ("1.0.a", "1.1.a"))] == [
        (False, "T0"),
        (True, "yours"),
    ]
    listed = tasks.browse(run, {"sort": "step"})["tasks"]
    assert [(line["id"], line["author"]) for line in listed] == [
        ("1.0.a", "T0"),
        ("1.1.a", "yours"),
        ("1.1.b", "yours"),
    ]
    shown = tasks.example(run)
    assert (shown["id"], shown["fixed"], shown["author"]) == ("1.1.a", True, "yours")
    said = redqueen("show", str(run.directory.path)).stdout
    assert "step 1  code_t yours for S1  (1.1.a)" in said
    assert "step 1  code_t by T0 for S1  (1.0.a)" in said
    assert "solved 1 of 2; no teacher is paid" in said


def test_a_resumed_run_has_a_session_more(watched: Path, tmp_path: Path) -> None:
    run = Path(shutil.copytree(watched / "first", tmp_path / "run"))
    text = '{"gpu": null, "libraries": {"torch": "1"}, "resumed": [{"device": "cpu"}, 3]}'
    (run / "environment.json").write_text(text)
    assert ask(page(run), "settings")["sessions"] == [
        [["gpu", "none"], ["libraries.torch", "1"]],
        [["device", "cpu"]],
    ]


def test_the_machine_view_has_speed_and_time_by_phase(client: TestClient) -> None:
    found = ask(client, "machine")
    panels = {panel["key"]: panel for panel in found["panels"]}
    assert {"machine-sampled-per-second", "machine-host-gib", "machine-step-seconds"} <= set(panels)
    # No GPU, and a processor's peak is not known.
    assert "machine-device-gib" not in panels
    assert {"propose", "solve", "learn"} <= {row["phase"] for row in found["phases"]}
    assert 0.9 < sum(row["share"] for row in found["phases"]) < 1.1


def test_a_phase_costs_what_it_takes_in_a_step_on_average(watched: Path, tmp_path: Path) -> None:
    run = Path(shutil.copytree(watched / "first", tmp_path / "run"))
    lines = [json.loads(line) for line in (run / "metrics.jsonl").read_text().splitlines()]
    steps = [{**lines[0], "step": step, "seconds": {"total": 10.0, "solve": 4.0}} for step in range(1, 17)]
    steps[-1]["seconds"] = {"total": 18.0, "solve": 4.0, "evaluate": 8.0}
    (run / "metrics.jsonl").write_text("".join(f"{json.dumps(line)}\n" for line in steps))
    rows = {row["phase"]: row for row in ask(page(run), "machine")["phases"]}
    assert rows["solve"]["seconds"] == 4
    assert rows["evaluate"]["seconds"] == 2
    assert rows["evaluate"]["share"] == pytest.approx(8 / 48)


def test_operators_are_judged_by_their_children(tmp_path: Path) -> None:
    client = page(drawn_run.write(tmp_path / "run", 40))
    rows = ask(client, "operators")["rows"]
    born = [member for member in ask(client, "league")["members"] if member["parents"]]
    assert sum(len(row["children"]) for row in rows) == len(born)
    by_name = {member["name"]: member for member in born}
    children = [(row, child) for row in rows for child in row["children"]]
    for row, child in children:
        member = by_name[child["name"]]
        assert member["operator"] == row["operator"]
        if child["change"] is not None:
            assert child["change"] == pytest.approx(member["last"] - member["parent_fitness"][0])
    for row in rows:
        known = [child["change"] for child in row["children"] if child["change"] is not None]
        assert row["change"] is None or row["change"]["mean"] == pytest.approx(sum(known) / len(known))
    assert [row["role"] for row in rows] == sorted((row["role"] for row in rows), reverse=True)


def test_the_controls_are_those_of_the_operators() -> None:
    from redqueen.method.operators import CONTROLS

    assert set(views.CONTROLS) == set(CONTROLS)


def test_a_task_leads_to_the_tasks_whose_teachers_were_shown_it(watched: Path, tmp_path: Path) -> None:
    run = Path(shutil.copytree(watched / "first", tmp_path / "run"))
    archive = sqlite3.connect(run / "run.sqlite")
    (first,) = archive.execute("SELECT id FROM tasks WHERE step = 1").fetchone()
    (second,) = archive.execute("SELECT id FROM tasks WHERE step = 3").fetchone()
    with archive:
        archive.execute("UPDATE proposals SET reference_ids = '[]'")
        archive.execute("UPDATE proposals SET reference_ids = ? WHERE id = ?", [f'["{first}", "a-seed"]', second])
    archive.close()
    client = page(run)
    before = ask(client, "task", id=first)
    assert [task["id"] for task in before["led_to"]["tasks"]] == [second]
    assert before["led_to"]["complete"]
    assert before["came_from"] == []
    after = ask(client, "task", id=second)
    assert [task["id"] for task in after["came_from"]] == [first]
    assert after["led_to"]["tasks"] == []


def test_texts_are_searched_in_tasks_and_in_answers(client: TestClient, watched: Path) -> None:
    everything = ask(client, "tasks", status="any")["total"]
    found = ask(client, "tasks", text="DEF F", status="any")
    assert 0 < found["total"] <= everything
    assert found["searched"] == {"first": 1, "last": 3, "complete": True}
    assert ask(client, "tasks", text="def f", status="any", kind="code_i")["total"] < found["total"]
    assert ask(client, "tasks", text="def f", before=2)["searched"]["last"] == 2
    assert ask(client, "tasks", text="%")["total"] == sum_of(watched, "program LIKE '%\\%%' ESCAPE '\\'")
    assert ask(client, "tasks", text="no such words")["total"] == 0
    answers = ask(client, "tasks", text="window.pwned", **{"in": "answers"})
    assert answers["total"] == 1


def sum_of(watched: Path, where: str) -> int:
    archive = sqlite3.connect(watched / "first" / "run.sqlite")
    ((number,),) = archive.execute(f"SELECT COUNT(*) FROM tasks WHERE {where}")
    archive.close()
    return int(number)


def compare(client: TestClient, *names: str) -> Any:
    answer = client.get("/api/compare", params=[("with", name) for name in names])
    assert answer.status_code == 200, answer.text
    return answer.json()


def test_runs_are_compared_by_settings_results_and_curves(watched: Path, tmp_path: Path) -> None:
    folder = Path(shutil.copytree(watched, tmp_path / "runs"))
    drawn_run.write(folder / "long", 20)
    client = page(folder)
    found = compare(client, "first", "long")
    assert [run["title"] for run in found["runs"]] == ["first", "long"]
    differ = {row["key"]: row["values"] for row in found["differ"]}
    assert differ["run.steps"] == ["3", "20"]
    assert "run.seed" not in differ
    # A run has one colour in all charts, also where the other one has no curve.
    hues = {(curve["label"], curve["hue"]) for panel in found["panels"] for curve in panel["curves"]}
    assert hues == {("first", 0), ("long", 1)}
    assert {curve["hue"] for curve in found["first"][0]["curves"]} == {1}
    held_out = [panel for panel in (*found["first"], *found["panels"]) if panel["key"].startswith("held-out")]
    assert len(held_out) > 1
    assert all(panel["plain"] and panel["joined"] for panel in held_out)
    # Only one of the two has held-out scores, which are measured every few steps.
    gain = found["first"][0]
    assert (gain["steps"], [curve["label"] for curve in gain["curves"]]) == ([0, 10, 20], ["long"])
    curves = {panel["key"]: [curve["label"] for curve in panel["curves"]] for panel in found["panels"]}
    assert curves["nodes--as-written"] == ["first", "long"]
    sections = [panel["section"] for panel in found["first"]]
    assert sections[0] == "Is anybody better on held-out problems?"
    assert sections[-1] == "Is the run healthy?"
    assert {panel["question"] for panel in found["panels"]} >= {"Who wins?"}


def test_a_damaged_run_is_named(watched: Path, tmp_path: Path) -> None:
    folder = Path(shutil.copytree(watched, tmp_path / "runs"))
    (folder / "second" / "metrics.jsonl").write_text('{"step": 1}\n')
    answer = page(folder).get("/api/compare?with=first&with=second")
    assert (answer.status_code, "second" in answer.json()["error"]) == (400, True)


def test_one_run_or_none_gives_the_choice(watched: Path) -> None:
    client = page(watched)
    assert compare(client)["names"] == ["first", "second"]
    assert compare(client, "first")["runs"] == []
    assert client.get("/api/compare?with=first&with=nope").status_code == 404
    many = [("with", f"run{number}") for number in range(comparison.MOST + 1)]
    answer = client.get("/api/compare", params=many)
    assert (answer.status_code, "at most" in answer.json()["error"]) == (400, True)
