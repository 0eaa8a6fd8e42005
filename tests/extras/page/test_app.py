"""The page's server: each view on a real run, and what it refuses."""

from __future__ import annotations

import re
import shutil
import sqlite3
from pathlib import Path
from typing import Any

import pytest
from starlette.testclient import TestClient

from redqueen.config import EvolutionConfig, PopulationConfig
from redqueen.extras.page.app import PAGES, STATIC, VIEWS
from redqueen.extras.page.live_run import Folder
from redqueen.extras.page.state import views_of
from redqueen.jail.service import is_local
from redqueen.store.archive.rows import MemberRow
from redqueen.store.archive.writer import Archive
from redqueen.store.directory import RunDirectory, RunError
from tests.extras.page.conftest import HOSTILE, page

pytestmark = pytest.mark.integration


def ask(client: TestClient, view: str, **query: object) -> Any:
    answer = client.get(f"/api/{view}", params={key: str(value) for key, value in query.items()})
    assert answer.status_code == 200, answer.text
    return answer.json()


def test_every_page_is_a_file_that_names_only_files_of_its_own(client: TestClient) -> None:
    for path in PAGES:
        answer = client.get(path)
        assert answer.status_code == 200
        for name in re.findall(r'(?:src|href)="(/[^"]+)"', answer.text):
            assert client.get(name).status_code == 200, name
        assert not re.search(r'(?:src|href)="(?:https?:)?//', answer.text)


def test_all_modules_that_scripts_import_are_there() -> None:
    for file in STATIC.rglob("*.js"):
        for name in re.findall(r'^import .* from "([^"]+)";', file.read_text(), re.MULTILINE):
            assert (file.parent / name).is_file(), f"{file}: {name}"


def test_nothing_in_the_scripts_parses_markup_or_text_as_code() -> None:
    for file in [*STATIC.glob("*.js"), *(STATIC / "views").glob("*.js")]:
        words = re.findall(
            r"innerHTML|outerHTML|insertAdjacentHTML|document\.write|\beval\(|new Function", file.read_text()
        )
        assert words == [], file


def test_the_state_says_who_plays_and_how_far_the_run_is(client: TestClient) -> None:
    state = ask(client, "state")
    assert state["title"] == "first"
    assert (state["step"], state["steps"], state["course"], state["seconds_left"]) == (3, 3, "finished", None)
    assert state["members"] == "2 teachers and 2 students"
    stamp = ask(client, "stamp")
    assert stamp == {"stamp": state["stamp"], "course": "finished", "now": ""}


def test_a_run_that_is_trained_is_running(watched: Path, tmp_path: Path) -> None:
    run = Path(shutil.copytree(watched / "first", tmp_path / "run"))
    client = page(run)
    trainer = RunDirectory(run)
    trainer.lock()
    try:
        assert ask(client, "state")["course"] == "running"
        assert ask(client, "state")["seconds_left"] == 0
    finally:
        trainer.unlock()
    assert ask(client, "state")["course"] == "finished"


def test_the_state_says_what_can_be_typed_next(watched: Path, tmp_path: Path) -> None:
    run = Path(shutil.copytree(watched / "first", tmp_path / "run"))
    client = page(run)
    commands = [each["command"].split()[1] for each in ask(client, "state")["next"]]
    assert commands == ["eval", "ask", "export"]
    lines = (run / "metrics.jsonl").read_text().splitlines(keepends=True)
    (run / "metrics.jsonl").write_text("".join(lines[:2]))
    stopped = ask(client, "state")
    assert stopped["next"][0]["command"] == f"redqueen train --resume {run}"
    before = ask(client, "stamp")
    (run / "stopped.json").write_text('{"error": "cannot write: the disk is full"}')
    # The page asks again, and says why.
    assert ask(client, "stamp") != before
    failed = ask(client, "state")
    assert (failed["course"], failed["reason"]) == ("failed", "It ended with: cannot write: the disk is full")
    (run / "stopped.json").write_text('{"error": ""}')
    assert ask(client, "state")["course"] == "stopped"
    assert "Ctrl-C" in ask(client, "state")["reason"]


NAV = re.findall(r'"(/\w*)"', re.findall(r"const NAV = \[([^\]]*)\]", (STATIC / "main.js").read_text())[0])
"""The tabs of the page."""


def test_views_without_content_are_left_out(client: TestClient) -> None:
    assert ask(client, "state")["views"] == [path.strip("/") or "overview" for path in NAV]
    alone = views_of(PopulationConfig(teachers=0, students=1), EvolutionConfig(enabled=False))
    assert alone == ["overview", "evaluation", "tasks", "machine", "settings"]
    pair = views_of(PopulationConfig(teachers=1, students=1), EvolutionConfig(enabled=False))
    assert pair == ["overview", "evaluation", "league", "matrix", "tasks", "machine", "settings"]


def test_the_overview_has_a_task_with_its_answers(client: TestClient) -> None:
    example = ask(client, "overview")["example"]
    found = ask(client, "task", id=example["id"])
    assert example["attempts"] == len(found["attempts"]) == 4
    assert example["solved"] == sum(attempt["status"] == "correct" for attempt in found["attempts"])
    assert sum(each["count"] for each in example["answers"]) <= 4
    assert "f(" in example["question"]


def test_the_overview_has_panels_with_points(client: TestClient) -> None:
    panels = ask(client, "overview")["panels"]
    assert {"solve-rate", "valid-rate"} <= {panel["key"] for panel in panels}
    for panel in panels:
        assert panel["steps"] == [1, 2, 3]
        assert {len(curve["values"]) for curve in panel["curves"]} == {3}


def test_the_evaluation_is_the_table_that_was_left_in_the_run(
    client: TestClient, watched: Path, tmp_path: Path
) -> None:
    table = ask(client, "evaluation")["evaluation"]
    assert [row["title"] for row in table["rows"]][-2:] == ["code average", "all"]
    assert [column["title"] for column in table["columns"]] == ["base", "mean of 2", "best: S0", "worst: S1"]
    other = ask(page(watched / "second"), "evaluation")
    assert other["evaluation"] is None
    assert other["command"].startswith("redqueen eval ")
    # One that is made while the page is open changes the stamp, so that the page asks again.
    run = Path(shutil.copytree(watched / "second", tmp_path / "run"))
    before = ask(page(run), "stamp")
    RunDirectory(run).evaluation.write_text("{")
    assert ask(page(run), "stamp") != before
    answer = page(run).get("/api/evaluation")
    assert (answer.status_code, "evaluate again" in answer.json()["error"]) == (400, True)


def test_the_league_has_everybody_with_the_games_they_played(client: TestClient) -> None:
    members = {member["name"]: member for member in ask(client, "league")["members"]}
    assert {"T0", "T1", "T2", "S0", "S1", "S2"} == set(members)
    assert sum(member["died"] is not None for member in members.values()) == 2
    for member in members.values():
        assert sum(member["record"]) == member["games"]
    newborn = members["T2"]
    assert newborn["born"] == 2
    assert newborn["parents"]


def test_the_matrix_counts_all_tasks_and_games(client: TestClient, watched: Path) -> None:
    found = ask(client, "matrix")
    archive = sqlite3.connect(watched / "first" / "run.sqlite")
    ((tasks,),) = archive.execute("SELECT COUNT(*) FROM tasks WHERE rho IS NOT NULL")
    ((matches,),) = archive.execute("SELECT COUNT(*) FROM matches")
    archive.close()
    assert sum(cell["tasks"] for cell in found["cells"]) == tasks
    counts = [
        each["outcomes"].get(side, 0) for each in found["games"] for side in ("student", "draw", "teacher", "none")
    ]
    assert sum(counts) == matches
    assert [member["name"] for member in found["teachers"]] == ["T0", "T1", "T2"]


def test_the_tree_has_every_life(client: TestClient) -> None:
    found = ask(client, "tree")
    assert found["steps"] == 3
    assert [member["name"] for member in found["members"] if member["parents"]] == ["T2", "S2"]


def test_filters_filter_and_orders_order(client: TestClient) -> None:
    everything = ask(client, "tasks", status="any")
    valid = ask(client, "tasks")
    refused = ask(client, "tasks", status="refused")
    assert valid["total"] + refused["total"] == everything["total"]
    assert {task["status"] for task in valid["tasks"]} == {"valid"}
    assert "valid" not in {task["status"] for task in refused["tasks"]}
    steps = [task["step"] for task in valid["tasks"]]
    assert steps == sorted(steps, reverse=True)
    chosen = ask(client, "tasks", teacher="T0", step=2, **{"from": 2, "to": 2})["tasks"]
    assert {(task["author"], task["step"]) for task in chosen} == {("T0", 2)}
    assert {task["student"] for task in ask(client, "tasks", student="S1")["tasks"]} == {"S1"}
    solved = ask(client, "tasks", least=0.25, most=0.75, sort="rho")["tasks"]
    rates = [task["rho"] for task in solved]
    assert rates == sorted(rates)
    assert all(0.25 <= rate <= 0.75 for rate in rates)
    nodes = [task["nodes"] for task in ask(client, "tasks", sort="-nodes", nodes=1)["tasks"]]
    assert nodes == sorted(nodes, reverse=True)
    assert min(nodes) > 1
    new = ask(client, "tasks", novel=1)["total"]
    assert new + ask(client, "tasks", novel=0)["total"] == valid["total"]


def test_pages_follow_one_another(client: TestClient) -> None:
    first = ask(client, "tasks", status="any")
    rest = [ask(client, "tasks", status="any", page=number) for number in range(2, first["pages"] + 1)]
    names = [task["id"] for one in (first, *rest) for task in one["tasks"]]
    assert len(names) == len(set(names)) == first["total"]
    assert ask(client, "tasks", page=10**9)["tasks"] == []


@pytest.mark.parametrize(
    "query",
    [
        "kind=code_x",
        "from=x",
        "least=1e400",
        "sort=rho;",
        "page=0",
        "from=99999999999999999999",
        "in=x&text=a",
        "before=0&text=a",
    ],
)
def test_a_query_that_asks_for_nonsense_gets_one_line(client: TestClient, query: str) -> None:
    answer = client.get(f"/api/tasks?{query}")
    assert answer.status_code == 400
    assert query.partition("=")[0] in answer.json()["error"]


def test_a_task_comes_with_attempts_and_says_what_was_paid_and_why(client: TestClient) -> None:
    name = ask(client, "tasks", sort="-reward")["tasks"][0]["id"]
    found = ask(client, "task", id=name)
    assert found["task"]["program"].startswith("def f(x):")
    assert len(found["attempts"]) == 4
    assert "1 - rho" in found["proposal"]["why"]
    for attempt in found["attempts"]:
        right = attempt["status"] == "correct"
        assert attempt["why"] == ("+1.00: correct." if right else "-0.50: an answer in the right form, but wrong.")
    assert found["match"]["teacher"] == found["proposal"]["teacher"]
    assert found["measures"]["reached_lines"] == len(found["task"]["program"].splitlines())


def test_a_refused_proposal_can_be_opened(client: TestClient) -> None:
    name = ask(client, "tasks", status="refused")["tasks"][0]["id"]
    found = ask(client, "task", id=name)
    assert found["task"] is None
    assert found["attempts"] == []
    assert found["proposal"]["why"] == "-1.00: no valid task, because it could not be read."


def test_a_program_with_markup_is_data(client: TestClient) -> None:
    answers = [client.get(f"/api/task?id={task['id']}") for task in ask(client, "tasks", sort="step")["tasks"]]
    (hostile,) = [answer for answer in answers if answer.json()["task"]["program"] == HOSTILE]
    assert hostile.headers["content-type"] == "application/json"
    assert hostile.headers["x-content-type-options"] == "nosniff"


def test_a_member_has_a_life(client: TestClient) -> None:
    parent = ask(client, "member", name="T2")["life"]["parents"][0]
    found = ask(client, "member", name=parent)
    assert found["children"] == ["T2"]
    assert [each["step"] for each in found["rating"]] == [1, 2, 3]
    assert len(found["games"]) == 3
    assert {task["author"] for task in [*found["best"], *found["worst"]]} == {parent}
    assert found["best"][0]["reward"] >= found["worst"][0]["reward"]


@pytest.mark.parametrize(
    "path",
    ["/api/task?id=nope", "/api/member?name=nope", "/api/nope", "/nope", "/static/nope.js", "/api/state?run=../first"],
)
def test_what_is_not_there_is_not_found(client: TestClient, path: str) -> None:
    assert client.get(path).status_code == 404


def test_no_file_outside_the_page_is_served(client: TestClient) -> None:
    for path in ("/static/../app.py", "/static/%2e%2e/app.py", "/static//etc/passwd", "/static/..%2f..%2fapp.py"):
        assert client.get(path).status_code == 404


def test_foreign_hosts_are_refused(client: TestClient) -> None:
    for host in ("evil.example", "127.0.0.1.evil.example", "localhost.evil.example:8642", "", "[::1].evil:1"):
        assert client.get("/api/state", headers={"host": host}).status_code == 421, host
    for host in ("localhost", "LOCALHOST:9000", "127.0.0.1:1", "[::1]:8642", "[::1]"):
        assert client.get("/api/state", headers={"host": host}).status_code == 200, host
    assert not is_local("::1:x")


def test_only_reading_is_allowed(client: TestClient) -> None:
    for method in ("POST", "PUT", "DELETE", "PATCH", "OPTIONS"):
        assert client.request(method, "/api/state").status_code == 405
    assert client.head("/").status_code == 200


def test_every_answer_confines_the_page(client: TestClient) -> None:
    for path in ("/", "/api/state", "/static/main.js", "/nope"):
        policy = client.get(path).headers["content-security-policy"]
        assert "default-src 'none'" in policy
        assert "script-src 'self'" in policy
        assert "unsafe" not in policy
    assert "access-control-allow-origin" not in client.get("/api/state").headers


def test_a_folder_of_runs_lists_them(watched: Path) -> None:
    client = page(watched)
    found = ask(client, "runs")["runs"]
    assert [run["name"] for run in found] == ["first", "second"]
    # Beside one another without being opened: is it better, what does it do, how much is solved.
    assert {(run["better"], run["verdict"]) for run in found} == {("not measured", "")}
    panels = {panel["key"]: panel for panel in ask(client, "overview", run="first")["panels"]}
    assert found[0]["solve_rate"] == panels["solve-rate"]["curves"][0]["values"][-1]
    assert client.get("/api/state").status_code == 404
    for view in ("state", "overview", "league", "tasks"):
        assert ask(client, view, run="second")


def test_a_run_that_cannot_be_read_does_not_hide_the_others(watched: Path, tmp_path: Path) -> None:
    folder = Path(shutil.copytree(watched, tmp_path / "runs"))
    (folder / "first" / "config.json").write_text("{")
    first, second = ask(page(folder), "runs")["runs"]
    assert "damaged" in first["error"]
    assert second["course"] == "finished"


def test_a_damaged_archive_is_one_clear_line_and_the_curves_stay(watched: Path, tmp_path: Path) -> None:
    run = Path(shutil.copytree(watched / "first", tmp_path / "run"))
    (run / "run.sqlite").write_bytes(b"no database" * 1000)
    client = page(run)
    assert ask(client, "overview")["panels"]
    for view in ("league", "matrix", "tree", "tasks", "task", "member"):
        answer = client.get(f"/api/{view}")
        assert answer.status_code == 400
        assert "cannot read" in answer.json()["error"]
        assert "\n" not in answer.json()["error"]


def test_reading_leaves_nothing_behind_and_follows_what_is_written(watched: Path, tmp_path: Path) -> None:
    run = Path(shutil.copytree(watched / "first", tmp_path / "run"))
    before = sorted(path.name for path in run.iterdir())
    client = page(run)
    for view in VIEWS:
        client.get(f"/api/{view}?name=T0")
    assert sorted(path.name for path in run.iterdir()) == before
    lines = (run / "metrics.jsonl").read_text().splitlines(keepends=True)
    (run / "metrics.jsonl").write_text("".join(lines[:2]))
    assert ask(client, "state")["step"] == 2
    assert ask(client, "state")["course"] == "stopped"


def add_member(archive: Archive, name: str) -> None:
    archive.write([MemberRow(name=name, role="teacher", step=3, parents=(), operator="init")])


def named(client: TestClient) -> set[str]:
    return {member["name"] for member in ask(client, "league")["members"]}


def test_reading_neither_waits_for_a_run_that_writes_nor_keeps_it_from_ending(watched: Path, tmp_path: Path) -> None:
    run = Path(shutil.copytree(watched / "first", tmp_path / "run"))
    client = page(run)
    with Archive(run / "run.sqlite") as archive:
        add_member(archive, "T8")
        assert "T8" in named(client)
        archive.connection.execute("BEGIN IMMEDIATE")
        assert "T8" in named(client)
        archive.connection.execute("ROLLBACK")
        add_member(archive, "T9")
        assert "T9" in named(client)
    # A reader that held on to the archive would have kept the log of new rows from being folded into it.
    assert [path.name for path in run.glob("run.sqlite*")] == ["run.sqlite"]
    assert "T9" in named(client)


def test_a_read_only_folder_is_copied_once_for_all_views(
    watched: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    run = Path(shutil.copytree(watched / "first", tmp_path / "run"))
    # To root every folder seems writable.
    monkeypatch.setattr("redqueen.extras.page.live_run.os.access", lambda path, _: Path(path) != run)
    copied: list[str] = []
    copy = shutil.copyfile

    def counted(source: Path, target: Path) -> object:
        copied.append(source.name)
        return copy(source, target)

    monkeypatch.setattr("redqueen.extras.page.live_run.shutil.copyfile", counted)
    client = page(run)
    with Archive(run / "run.sqlite") as archive:
        add_member(archive, "T8")
        before = sorted(path.name for path in run.iterdir())
        for _ in range(2):
            assert "T8" in named(client)
            assert ask(client, "tasks")["tasks"]
        assert copied == ["run.sqlite", "run.sqlite-wal"]
        add_member(archive, "T9")
        assert "T9" in named(client)
        assert len(copied) == 4
        assert sorted(path.name for path in run.iterdir()) == before


def test_a_folder_without_runs_is_refused_in_one_line(tmp_path: Path) -> None:
    with pytest.raises(RunError, match="holds no run"):
        Folder(tmp_path)
    with pytest.raises(RunError, match="does not exist"):
        Folder(tmp_path / "nope")
