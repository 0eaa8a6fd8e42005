"""The page of a real run: it shows every member, needs no other file, and is refused for a folder without a run."""

from __future__ import annotations

import base64
import re
from html.parser import HTMLParser
from pathlib import Path
from xml.etree import ElementTree

import pytest

from redqueen.analysis.lineage.tree import lives
from redqueen.analysis.report.curves import draw
from redqueen.analysis.report.page import page
from redqueen.runs.directory import RunDirectory, RunError
from redqueen.verifier import LocalVerifier
from tests import toy
from tests.commands.running import redqueen

pytestmark = pytest.mark.integration


@pytest.fixture(scope="module")
def run(tmp_path_factory: pytest.TempPathFactory, verifier: LocalVerifier) -> Path:
    changes = {"run.steps": 3, "evolution.enabled": True, "evolution.every": 1, "evolution.burn_in": 1}
    return toy.played(tmp_path_factory.mktemp("a<b"), verifier, **changes).path


class Page(HTMLParser):
    """Parses a page: the cells of all tables by row, the images' SVG, and every address outside the page."""

    def __init__(self, text: str) -> None:
        super().__init__()
        self.rows: list[list[str]] = []
        self.images: list[bytes] = []
        self.outside: list[str] = []
        self.feed(text)

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        if tag == "tr":
            self.rows.append([])
        for name, value in attrs:
            if name in ("src", "href"):
                head, _, data = (value or "").partition(";base64,")
                if head == "data:image/svg+xml":
                    self.images.append(base64.b64decode(data))
                else:
                    self.outside.append(value or "")

    def handle_data(self, data: str) -> None:
        if self.rows:
            self.rows[-1].append(data)


def test_every_member_that_ever_lived_is_in_the_table_and_in_the_tree(run: Path) -> None:
    found, shown = lives(run), Page(page(RunDirectory(run)))
    assert any(life.died is not None for life in found)
    rows = {row[0]: row for row in shown.rows[1:]}
    assert rows.keys() == {life.name for life in found}
    for life in found:
        assert (life.died is None) == ("lives" in rows[life.name])
        assert (" + ".join(life.parents) or "-") in rows[life.name]
    course, tree = (ElementTree.fromstring(image) for image in shown.images)
    assert {life.name for life in found} <= set(tree.itertext())
    assert {"valid", "code_o", "teachers"} <= set(course.itertext())


def test_the_page_needs_no_other_file_and_is_the_same_each_time(run: Path) -> None:
    text = page(RunDirectory(run))
    assert text == page(RunDirectory(run))
    assert Page(text).outside == []
    assert not re.search(r"https?://(?!www\.w3\.org)", re.sub(r"base64,[^\"]*", "", text))


def test_the_curves_are_the_metrics(run: Path) -> None:
    lines = RunDirectory(run).metrics()
    lines[1]["solve_rate"] = None
    lines[2]["tasks_by_kind"]["code_o"] = 0
    shares, contested, rewards = draw(lines).axes
    values = {line.get_label(): list(line.get_ydata()) for axes in (shares, contested, rewards) for line in axes.lines}
    assert values["valid"] == [line["valid_rate"] for line in lines]
    assert values["students"] == [line["student_reward"] for line in lines]
    assert [v != v for v in values["solved"]] == [False, True, False]
    assert values["code_o"][2] != values["code_o"][2]
    assert list(shares.lines[0].get_xdata()) == [1, 2, 3]


def test_the_command_writes_where_it_says(run: Path, tmp_path: Path) -> None:
    done = redqueen("report", str(run))
    assert Path(done.stdout.strip()) == run / "report.html"
    assert (run / "report.html").read_text() == page(RunDirectory(run))
    for bad, reason in ((tmp_path / "nowhere" / "r.html", "No such file"), (tmp_path, "Is a directory")):
        refused = redqueen("report", str(run), "--out", str(bad))
        assert refused.returncode == 2
        assert reason in refused.stderr


def test_a_run_without_a_step_is_refused(run: Path, tmp_path: Path) -> None:
    with pytest.raises(RunError, match=r"holds no run|does not exist"):
        page(RunDirectory(tmp_path))
    begun = RunDirectory(tmp_path / "begun")
    begun.create(RunDirectory(run).config(), {})
    (begun.path / "run.sqlite").write_bytes((run / "run.sqlite").read_bytes())
    with pytest.raises(RunError, match="no step yet"):
        page(begun)
