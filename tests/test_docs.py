"""What the pages for people say about files is true."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

REPOSITORY = Path(__file__).parents[1]
PAGES = sorted([*REPOSITORY.glob("*.md"), *REPOSITORY.glob("docs/**/*.md")])


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.name)
def test_every_file_that_a_page_names_is_there(page: Path) -> None:
    named = set(re.findall(r"`((?:[\w.-]+/)*[\w-]+(?:\.py|/))`", page.read_text()))
    roots = (
        page.parent,
        REPOSITORY,
        REPOSITORY / "redqueen",
        REPOSITORY / "redqueen" / "engine",
        REPOSITORY / "redqueen" / "jail",
    )
    anywhere = {path.name for path in (REPOSITORY / "redqueen").rglob("*")}
    missing = [
        name
        for name in sorted(named)
        if not any((root / name).exists() for root in roots) and name.rstrip("/") not in anywhere
    ]
    assert missing == []


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.name)
def test_every_link_to_a_file_leads_somewhere(page: Path) -> None:
    links = re.findall(r"\]\((?!https?:)([^)#]+)", page.read_text())
    assert [link for link in links if not (page.parent / link).exists()] == []


def test_every_figure_is_shown_by_a_page() -> None:
    shown = {link for page in PAGES for link in re.findall(r"figures/([\w.-]+)", page.read_text(encoding="utf-8"))}
    figures = {file.name for file in (REPOSITORY / "docs" / "figures").iterdir()}
    assert figures - shown == set()


def test_the_architecture_names_every_room() -> None:
    text = (REPOSITORY / "docs" / "ARCHITECTURE.md").read_text()
    rooms = [path for path in (REPOSITORY / "redqueen").iterdir() if path.is_dir() and path.name != "__pycache__"]
    parts = [
        path for path in (REPOSITORY / "redqueen" / "engine").iterdir() if path.is_dir() and path.name != "__pycache__"
    ]
    assert [room.name for room in [*rooms, *parts] if f"{room.name}/`" not in text] == []


def test_the_architecture_names_every_module_at_the_top() -> None:
    text = (REPOSITORY / "docs" / "ARCHITECTURE.md").read_text()
    modules = [path.name for path in (REPOSITORY / "redqueen").glob("*.py") if not path.name.startswith("__")]
    assert [name for name in modules if f"`{name}`" not in text] == []


def test_nothing_names_an_install_command_that_does_not_exist() -> None:
    """The package is in no index: what installs it is in `redqueen.base.optional`."""
    root = Path(__file__).parents[1]
    files = [root / "README.md", *root.glob("docs/**/*.md"), *root.glob("docs/**/*.py"), *root.glob("redqueen/**/*.py")]
    asked = re.compile(r"pip install ['\"]?redqueen(?!_)|redqueen\[[a-z]")
    assert [file.name for file in files if asked.search(file.read_text(encoding="utf-8"))] == []
