"""Every doctest of the modules that a program may import gives in the sandbox what it gives in plain Python."""

from __future__ import annotations

import ast
import doctest
import importlib
import json
import os
import pkgutil
import re
import subprocess
import sys
from collections.abc import Iterator

import pytest

from redqueen.jail import GAME, Job, Sandbox
from tests.jail.conftest import AMPLE

pytestmark = pytest.mark.slow

# What the examples print and show goes into one list: the sandbox drops what a program prints.
HEAD = """
_shown = []
def print(*values, sep=" ", end="\\n", file=None, flush=False):
    _shown.append(sep.join(map(str, values)) + end)
def _show(value):
    if value is not None:
        _shown.append(repr(value) + "\\n")
"""
TAIL = """
def f():
    return "".join(_shown)
"""
PLAIN = """
import json, os, sys
for text in json.load(sys.stdin):
    reader, writer = os.pipe()
    if os.fork() == 0:
        names = {"__name__": "program"}
        try:
            exec(compile(text, "<program>", "exec"), names)
            shown = names["f"]()
        except BaseException as error:
            shown = f"{type(error).__name__}: {error}"
        with open(writer, "w", encoding="utf-8", errors="surrogatepass") as file:
            file.write(shown)
        os._exit(0)
    os.close(writer)
    with open(reader, encoding="utf-8", errors="surrogatepass") as file:
        print(json.dumps(file.read()))
    os.wait()
"""


def modules() -> Iterator[str]:
    """The modules of the game with the parts of their packages."""
    for name in GAME.modules:
        yield name
        for part in pkgutil.iter_modules(getattr(importlib.import_module(name), "__path__", ())):
            yield f"{name}.{part.name}"


def programs() -> dict[str, str]:
    """A program for each docstring with examples, by its name."""
    found: dict[str, str] = {}
    finder = doctest.DocTestFinder()
    for name in modules():
        module = importlib.import_module(name)
        for test in finder.find(module, name):
            if test.examples and name != "json.tool":
                lines = [HEAD, f"import {name}", f"from {name} import *"]
                lines += [wrapped(example.source) for example in test.examples]
                found[test.name] = "\n".join([*lines, TAIL])
    return found


def wrapped(source: str) -> str:
    """An example that shows its value, or the exception that it raises, as the interactive interpreter does."""
    tree = ast.parse(source)
    if len(tree.body) == 1 and isinstance(tree.body[0], ast.Expr):
        source = f"_show({ast.unparse(tree.body[0])})"
    body = "\n".join(f"    {line}" for line in ast.unparse(ast.parse(source)).splitlines())
    caught = '    _shown.append(f"{type(error).__name__}: {error}\\n")'
    return f"try:\n{body}\nexcept BaseException as error:\n{caught}"


def in_plain_python(texts: list[str]) -> list[str]:
    # The seed of the interpreter that gives the values.
    environment = {**os.environ, "PYTHONHASHSEED": "1"}
    done = subprocess.run(
        [sys.executable, "-W", "ignore", "-c", PLAIN], input=json.dumps(texts), capture_output=True, text=True,
        check=True, env=environment,
    )  # fmt: skip
    return [json.loads(line) for line in done.stdout.splitlines()]


def without_addresses(text: str) -> str:
    return re.sub(r"0x[0-9a-f]+", "0x", text)


def test_the_doctests_of_the_allowed_modules_give_what_python_gives() -> None:
    texts = programs()
    plain = dict(zip(texts, in_plain_python(list(texts.values())), strict=True))
    with Sandbox(GAME.with_limits(AMPLE)) as sandbox:
        outcomes = dict(zip(texts, sandbox.run([Job(text, ("",)) for text in texts.values()]), strict=True))
    different = []
    refused = []
    for name, outcome in outcomes.items():
        if outcome.status == "forbidden":
            refused.append(name)
        elif outcome.status != "ok" or without_addresses(ast.literal_eval(outcome.outputs[0])) != without_addresses(
            plain[name]
        ):
            different.append((name, outcome, plain[name]))
    assert not different
    # What imports a module that is not on the list, or uses a withheld builtin, has another verdict on purpose.
    assert len(refused) < len(texts) / 10, refused
    assert len(texts) > 50
