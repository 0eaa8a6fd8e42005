"""The Dockerfile, as far as it can be checked without an engine: what it copies is there, its commands are right."""

from __future__ import annotations

import importlib
import re
import subprocess
import sys
from pathlib import Path

from redqueen.engine.model.source import REQUIREMENT

ROOT = Path(__file__).parents[2]
# A line that ends with \ goes on.
LINES = (ROOT / "Dockerfile").read_text().replace("\\\n", " ").splitlines()
STEPS = [line.split(maxsplit=1) for line in LINES if line.strip() and not line.startswith("#")]


def test_what_is_copied_is_there_and_is_sent_to_the_engine() -> None:
    sent = {line[1:] for line in (ROOT / ".dockerignore").read_text().splitlines() if line.startswith("!")}
    copied = {name for word, rest in STEPS if word == "COPY" for name in rest.split()[:-1]}
    assert copied == sent
    assert all((ROOT / name).exists() for name in copied)


def test_each_variant_is_a_stage() -> None:
    stages = [rest.rpartition(" ")[2] for word, rest in STEPS if word == "FROM"]
    assert stages == ["cpu", "cuda", "${VARIANT}"]
    assert ["ARG", "VARIANT=cpu"] in STEPS


def test_the_libraries_that_it_installs_are_those_of_the_package(tmp_path: Path) -> None:
    (command,) = [rest for word, rest in STEPS if word == "RUN" and "tomllib" in rest]
    code = re.search(r'python -c "(.*?)" >', command)
    assert code is not None
    done = subprocess.run([sys.executable, "-c", code[1]], cwd=ROOT, capture_output=True, text=True, check=True)
    wanted = [re.split(r"[<>=]", line)[0] for line in done.stdout.splitlines()]
    assert {"numpy", "typer", "torch", "transformers", "pandas"} <= set(wanted)
    assert REQUIREMENT in command


def test_it_runs_as_an_ordinary_user() -> None:
    # By number, so that an orchestrator sees that it is not root.
    assert any("useradd --create-home --uid 1000 redqueen" in rest for word, rest in STEPS if word == "RUN")
    assert STEPS.index(["USER", "1000"]) > max(i for i, (word, _) in enumerate(STEPS) if word == "RUN")


def test_what_it_imports_of_the_package_is_there() -> None:
    text = "\n".join(" ".join(step) for step in STEPS)
    imports = re.findall(r"from (redqueen[.\w]*) import (\w+)", text)
    assert imports
    assert all(hasattr(importlib.import_module(module), name) for module, name in imports)
