"""An automated audit of the page by axe-core: roles, names, contrast, keys (`make test-page`)."""

from __future__ import annotations

import json
import shutil
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from redqueen.extras.page.live_run import LiveRun
from redqueen.extras.page.report import page
from tests.extras.page import drawn_run
from tests.extras.page.browser import PROGRAM, Browser, browser
from tests.extras.page.served import served

AXE = Path(__file__).with_name("node_modules") / "axe-core" / "axe.min.js"
FINDINGS = """
axe.run(document, {resultTypes: ["violations"]}).then((found) => found.violations.map(({id, impact, nodes}) =>
  ({id, impact, where: nodes.slice(0, 3).map((node) => node.target.join(" "))})))
"""
VIEWS = (
    "/runs",
    "/compare?with=first&with=long",
    "/?run=first",
    "/?run=long",
    "/evaluation?run=first",
    "/league?run=first",
    "/matrix?run=first&all=1",
    "/matrix?run=long&all=1",
    "/matrix?run=long&all=1&show=games",
    "/tree?run=first",
    "/operators?run=long",
    "/tasks?run=first",
    "/tasks?run=first&text=def",
    "/task?run=first&id=2.0.code_o.0",
    "/member?run=first&name=T0",
    "/machine?run=long",
    "/settings?run=first",
)

pytestmark = [
    pytest.mark.slow,
    pytest.mark.integration,
    pytest.mark.skipif(PROGRAM is None, reason="there is no chromium (apt-get install chromium)"),
    pytest.mark.skipif(not AXE.exists(), reason="axe-core is not installed (make test-page)"),
]


@pytest.fixture(scope="module")
def folder(watched: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A short real run and a long one."""
    runs = tmp_path_factory.mktemp("audited")
    shutil.copytree(watched / "first", runs / "first")
    drawn_run.write(runs / "long", 60)
    return runs


@pytest.fixture(scope="module")
def chromium(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Browser]:
    with browser(tmp_path_factory.mktemp("chromium")) as started:
        yield started


def findings(chromium: Browser) -> list[dict[str, Any]]:
    """Returns what axe finds in the page as it is, with all that is folded opened."""
    chromium.run("document.querySelectorAll('details').forEach((part) => { part.open = true; })")
    # What is opened is drawn in its event.
    chromium.run("new Promise((done) => setTimeout(done, 100))")
    chromium.run(f"{AXE.read_text()}; 0")
    return chromium.run(FINDINGS)


@pytest.mark.parametrize(("width", "dark"), [(1280, False), (400, True)])
def test_no_view_has_a_finding(chromium: Browser, folder: Path, width: int, dark: bool) -> None:
    chromium.size(width, dark=dark)
    found: dict[str, list[dict[str, Any]]] = {}
    with served(folder) as address:
        for view in VIEWS:
            chromium.goto(address + view)
            found[view] = findings(chromium)
        # Before the server ends, so that the page does not ask in vain.
        chromium.call("Page.navigate", url="about:blank")
    assert {view: each for view, each in found.items() if each} == {}, json.dumps(found, indent=1)


def test_the_report_has_no_finding(chromium: Browser, folder: Path, tmp_path: Path) -> None:
    file = tmp_path / "report.html"
    file.write_text(page(LiveRun(folder / "first")))
    chromium.size(1280)
    chromium.call("Page.navigate", url=file.as_uri())
    chromium.until("!!document.querySelector('main[data-view=report]')")
    assert findings(chromium) == []
