"""Five questions of a reader, and the clicks that the answer to each takes."""

from __future__ import annotations

import shutil
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.extras.page import drawn_run
from tests.extras.page.browser import PROGRAM, Browser, browser
from tests.extras.page.served import served

pytestmark = [
    pytest.mark.integration,
    pytest.mark.skipif(PROGRAM is None, reason="there is no chromium (apt-get install chromium)"),
]


@pytest.fixture(scope="module")
def reader(watched: Path, tmp_path_factory: pytest.TempPathFactory) -> Iterator[tuple[Browser, str]]:
    """A browser, and the address of a folder with a long run and a short one."""
    folder = tmp_path_factory.mktemp("read")
    shutil.copytree(watched / "first", folder / "short")
    (folder / "short" / "environment.json").write_text('{"device": "cpu"}')
    drawn_run.write(folder / "long", 40)
    with browser(tmp_path_factory.mktemp("chromium")) as started, served(folder) as address:
        started.size(1280)
        yield started, address
        assert started.complaints == []
        # Before the server ends, so that the page does not ask in vain.
        started.call("Page.navigate", url="about:blank")


def click(shown: Browser, *places: str) -> str:
    """Clicks on one thing after another; returns what is on the screen then."""
    for place in places:
        shown.until(f"!!document.querySelector({place!r})")
        shown.run(f"document.querySelector({place!r}).click()")
    shown.drawn()
    return shown.run("document.querySelector('main').innerText")


def test_is_any_student_above_the_base(reader: tuple[Browser, str]) -> None:
    shown, address = reader
    shown.goto(address)
    # No click: the list of runs says it of each.
    assert "yes: 2 of 3" in click(shown)
    # One click: the run says by how much.
    assert "points on average on 280 held-out problems after step 40" in click(shown, "a[href='/?run=long']")


def test_which_operator_is_good(reader: tuple[Browser, str]) -> None:
    shown, address = reader
    shown.goto(f"{address}/?run=long")
    text = click(shown, "nav a[href^='/operators']")
    assert "The largest mean is" in text or "The best is" in text


def test_which_kind_of_task_is_best(reader: tuple[Browser, str]) -> None:
    shown, address = reader
    shown.goto(f"{address}/?run=long")
    assert "has the largest share of contested tasks" in click(shown)


def test_how_do_two_runs_differ(reader: tuple[Browser, str]) -> None:
    shown, address = reader
    shown.goto(address)
    text = click(shown, "input[value=short]", "input[value=long]", "main form p button")
    assert "Settings that differ" in text
    codes = shown.run("[...document.querySelectorAll('main code')].map((code) => code.textContent)")
    assert codes.count("run.steps") == 1
    # Of the charts of three questions, the six that runs without held-out problems have.
    assert shown.run("document.querySelectorAll('.first canvas').length") == 6


def test_what_were_the_settings(reader: tuple[Browser, str]) -> None:
    shown, address = reader
    shown.goto(f"{address}/?run=short")
    text = click(shown, "nav a[href^='/settings']")
    assert "run.steps" in text
    assert "Where it ran" in text
