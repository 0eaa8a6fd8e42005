"""The report of a real run: the live page's charts and tables in one file that asks for nothing."""

from __future__ import annotations

import json
import re
import shutil
import sqlite3
from pathlib import Path
from typing import Any

import pytest

from redqueen.extras.page.inline import bundle, document
from redqueen.extras.page.live_run import LiveRun
from redqueen.extras.page.report import markdown, page
from redqueen.store.directory import RunDirectory, RunError
from tests.cli.running import redqueen
from tests.extras.page.browser import PROGRAM, browser

pytestmark = pytest.mark.integration
needs_chromium = pytest.mark.skipif(PROGRAM is None, reason="needs chromium")


@pytest.fixture(scope="module")
def run(watched: Path) -> LiveRun:
    return LiveRun(watched / "first")


def data_of(text: str) -> dict[str, Any]:
    found = re.search(r'<script type="application/json" id="data">(.*?)</script>', text, re.DOTALL)
    assert found is not None
    return json.loads(found[1])


def test_the_page_holds_what_the_live_page_shows(run: LiveRun) -> None:
    text = page(run)
    data = data_of(text)
    assert text == page(run)
    assert {panel["key"] for panel in data["overview"]["panels"]} >= {"solve-rate", "valid-rate", "rewards"}
    assert {row["name"] for row in data["league"]["members"]} >= {"T0", "S0"}
    assert data["tree"]["steps"] == 3
    assert data["tasks"]["best"]
    assert data["evaluation"]["evaluation"]["rows"]
    # Three steps are too few for a word about the curriculum.
    assert "Curriculum: " not in text
    assert data["state"]["next"][0]["command"].startswith("redqueen eval ")
    # Addresses that stay inside: names of XML vocabularies, and the policy that forbids all others.
    assert not re.search(r"(src|href)=", text.partition("<script>")[0])
    assert "default-src 'none'" in text


def test_data_cannot_leave_its_element() -> None:
    hostile = "</script><script>window.pwned = 1</script><!--"
    text = document("a<b", "<main></main>", {"text": hostile}, "report.js")
    assert "<script>window.pwned" not in text
    assert "<title>a&lt;b</title>" in text
    assert data_of(text) == {"text": hostile}


def test_a_text_that_utf_8_cannot_hold_is_escaped() -> None:
    text = document("t", "<main></main>", {"text": "half of a pair: \udc80"}, "report.js")
    assert data_of(text.encode().decode()) == {"text": "half of a pair: \udc80"}


def test_a_bundle_has_each_module_once_and_after_what_it_imports() -> None:
    script = bundle("report.js")
    places = [script.index(f"const module_{name}_js = ") for name in ("dom", "views_tree", "report")]
    assert places == sorted(places)
    assert script.count("const module_dom_js = ") == 1
    assert not re.search(r"^(import|export) ", script, re.MULTILINE)


@needs_chromium
def test_a_browser_shows_it_and_asks_for_nothing(run: LiveRun, tmp_path: Path) -> None:
    file = tmp_path / "report.html"
    file.write_text(page(run))
    with browser(tmp_path / "profile") as shown:
        for width, dark in ((1280, False), (400, True)):
            shown.size(width, dark=dark)
            shown.call("Page.navigate", url=file.as_uri())
            shown.until("!!document.querySelector('main[data-view=report]')")
            # Wide tables scroll by themselves, the page does not.
            assert shown.run("document.documentElement.scrollWidth") == width
        assert int(shown.run("document.querySelector('#panel-first-solved').dataset.points")) > 0
        shown.run("document.querySelector('details.question').open = true")
        shown.until("Number(document.querySelector('#panel-solve-rate')?.dataset.points) > 0")
        assert shown.run("document.querySelectorAll('#league tbody tr').length") >= 4
        assert shown.run("document.querySelectorAll('#evaluation tbody tr').length") == 7
        assert shown.run("document.querySelectorAll('#tree svg.tree').length") == 2
        assert shown.run("document.querySelectorAll('#tasks details.told').length") >= 2
        assert shown.run("document.querySelectorAll('#matrix td.cell').length") >= 1
        assert shown.run("window.pwned === undefined")
        assert shown.complaints == []
        assert set(shown.requests) == {file.as_uri()}


@pytest.mark.slow
@needs_chromium
def test_a_matrix_of_very_many_shows_the_living(run: LiveRun, tmp_path: Path) -> None:
    text = page(run)
    data = data_of(text)
    for role in ("teachers", "students"):
        data["matrix"][role] += [{"name": f"dead-{number}", "lives": False} for number in range(100)]
    file = tmp_path / "report.html"
    file.write_text(document("t", text.partition("<body>\n")[2].partition("<script type=")[0], data, "report.js"))
    with browser(tmp_path / "profile") as shown:
        shown.call("Page.navigate", url=file.as_uri())
        shown.until("!!document.querySelector('main[data-view=report]')")
        assert "dead-" not in shown.run("document.querySelector('#matrix table').textContent")
        shown.run("document.querySelector('#matrix .choices a').click()")
        assert shown.run("document.querySelectorAll('#matrix tbody tr').length") > 100


def test_markdown_has_the_same_numbers(run: LiveRun) -> None:
    text = markdown(run)
    lines = run.lines()
    assert "## Better than the start: not measured" in text
    assert "## Curriculum" not in text
    assert f"| Solve rate: all tasks | share | {lines[0]['solve_rate']:.3f} | {lines[-1]['solve_rate']:.3f} |" in text
    assert f"- tokens sampled: {sum(line['tokens_sampled'] for line in lines):,}" in text
    assert "## Held-out evaluation" in text
    assert "| % | base | mean of 2 of run | best: S0 of run | worst: S1 of run |" in text
    living = set(lines[-1]["members"])
    assert living <= {row.split("|")[1].strip() for row in text.splitlines() if row.startswith("| ")}


def test_a_report_of_students_alone_says_nothing_of_teachers(run: LiveRun, tmp_path: Path) -> None:
    """The config, lines and archive of a run are rewritten as those of students on fixed tasks."""
    folder = Path(shutil.copytree(run.directory.path, tmp_path / "alone"))
    config = json.loads((folder / "config.json").read_text())
    config["population"]["teachers"] = 0
    config["evolution"]["enabled"] = False
    (folder / "config.json").write_text(json.dumps(config))
    archive = sqlite3.connect(folder / "run.sqlite")
    with archive:
        archive.execute("UPDATE proposals SET teacher = 'bank', reward = NULL")
        archive.execute("UPDATE listing SET reward = NULL")
        archive.execute("UPDATE tasks SET author = 'seed'")
    archive.close()
    alone = LiveRun(folder)
    data = data_of(page(alone))
    assert not {"league", "matrix", "tree"} & set(data)
    assert data["tasks"]["best"] == []
    assert {"Who wins?", "Are the tasks new?"}.isdisjoint(panel["question"] for panel in data["overview"]["panels"])
    assert {task["proposal"]["why"] for task in data["tasks"]["typical"]} == {
        "A fixed task: no teacher wrote it, so no teacher is paid for it."
    }
    text = markdown(alone)
    assert "## League" not in text
    assert "Best paid tasks" not in text


def test_the_command_writes_where_it_says(run: LiveRun, tmp_path: Path) -> None:
    folder = run.directory.path
    done = redqueen("report", str(folder))
    assert Path(done.stdout.strip()) == folder / "report.html"
    assert (folder / "report.html").read_text() == page(run)
    (folder / "report.html").unlink()
    assert redqueen("report", str(folder), "--markdown").stdout == markdown(run)
    for bad, reason in ((tmp_path / "nowhere" / "r.html", "No such file"), (tmp_path, "Is a directory")):
        refused = redqueen("report", str(folder), "--out", str(bad))
        assert refused.returncode == 2
        assert reason in refused.stderr


def test_a_run_without_a_step_is_refused(run: LiveRun, tmp_path: Path) -> None:
    with pytest.raises(RunError, match=r"holds no run|does not exist"):
        page(LiveRun(tmp_path))
    begun = RunDirectory(tmp_path / "begun")
    begun.create(run.config(), {})
    with pytest.raises(RunError, match="no step yet"):
        page(LiveRun(begun.path))
