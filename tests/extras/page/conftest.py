"""One short real run, and the page that shows it."""

from __future__ import annotations

import json
import shutil
import sqlite3
from pathlib import Path

import pytest
from starlette.testclient import TestClient

from redqueen.evals import paper
from redqueen.extras.page.app import make_app
from redqueen.extras.page.live_run import Folder
from redqueen.method.verifier import LocalVerifier
from redqueen.store.directory import RunDirectory
from tests import toy
from tests.evals.made_up import results

HOSTILE = "def f(x):\n    return '<script>window.pwned = 1</script><img src=x onerror=\"window.pwned = 1\">'"


@pytest.fixture(scope="session")
def watched(tmp_path_factory: pytest.TempPathFactory, verifier: LocalVerifier) -> Path:
    """A folder with two runs: "first" has births, an evaluation, and a task whose program holds HTML; "second" is a
    copy that was not evaluated.
    """
    folder = tmp_path_factory.mktemp("watched")
    changes = {"run.steps": 3, "evolution.enabled": "true", "evolution.every": 2, "evolution.burn_in": 1}
    played = toy.played(folder / "played", verifier, **changes)
    first = folder / "runs" / "first"
    first.parent.mkdir()
    played.path.rename(first)
    archive = sqlite3.connect(first / "run.sqlite")
    with archive:
        archive.execute("UPDATE tasks SET program = ? WHERE rowid = 1", [HOSTILE])
        archive.execute("UPDATE attempts SET text = ? WHERE rowid = 1", [HOSTILE])
    archive.close()
    shutil.copytree(first, folder / "runs" / "second")
    right = {"humaneval+": (4, 30, 20), "mbpp+": (0, 25, 15), "gsm8k": (2, 12, 8)}
    table = paper.document(results(right), ["<b>The weakest member is above base.</b>"], ["greedy"])
    RunDirectory(first).evaluation.write_text(json.dumps(table))
    return folder / "runs"


def page(folder: Path) -> TestClient:
    """Returns a client of the page over `folder`, as a browser on this machine would ask it."""
    return TestClient(make_app(Folder(folder)), base_url="http://127.0.0.1:8642")


@pytest.fixture(scope="session")
def client(watched: Path) -> TestClient:
    return page(watched / "first")
