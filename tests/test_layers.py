"""docs/ARCHITECTURE.md, "Rooms": imports go down only. Every import counts, wherever in a file it hides."""

from __future__ import annotations

import ast
import re
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

import redqueen
from redqueen import extras

ROOT = Path(redqueen.__file__).parent

EXTRAS = tuple(sorted(path.name for path in (ROOT / "extras").iterdir() if (path / "__init__.py").is_file()))
# Top first. A module belongs to the longest name that is a prefix of its own. It may import what is in a lower line
# or of its own part (`redqueen.method`), and nothing else: parts of one line do not know each other. So the core
# imports no extra, extras do not know each other, and the jail imports nothing of the project.
LEVELS: tuple[tuple[str, ...], ...] = (
    tuple(f"redqueen.extras.{name}" for name in EXTRAS),
    ("redqueen.__main__",),
    ("redqueen.cli",),
    ("redqueen.api",),
    ("redqueen.members",),
    ("redqueen.analysis",),
    ("redqueen.run",),
    ("redqueen.evals",),
    ("redqueen.store",),
    ("redqueen.method",),
    ("redqueen.engine",),
    ("redqueen.assets",),
    ("redqueen.config",),
    ("redqueen.tasks",),
    ("redqueen.plugins", "redqueen.base", "redqueen.extras"),
    ("redqueen.records", "redqueen.errors"),
    ("redqueen",),
    ("redqueen.jail",),
)
NEED_A_LIBRARY = (
    "redqueen.method.evolution",
    "redqueen.method.operators",
    "redqueen.method.step",
    "redqueen.method.warm_start",
    "redqueen.extras.page.compare_command",
    "redqueen.extras.rewards.verifiers",
    "redqueen.extras.rewards.openenv",
    "redqueen.extras.reasoning_gym.child.gym_child",
)
# The child side of the sandbox runs as a script, where its siblings are top-level modules.
CHILD_FOLDER = ROOT / "jail" / "child"
CHILD = {path.stem for path in CHILD_FOLDER.glob("*.py")} - {"__init__"}


def name_of(path: Path) -> str:
    parts = path.relative_to(ROOT.parent).with_suffix("").parts
    return ".".join(parts[:-1] if parts[-1] == "__init__" else parts)


FILES = {name_of(path): path for path in sorted(ROOT.rglob("*.py"))}
TREES = {name: ast.parse(path.read_text(encoding="utf-8"), str(path)) for name, path in FILES.items()}


def imported(name: str, tree: ast.AST) -> Iterator[str]:
    """Modules of this package that `tree` imports at any depth."""
    child = name.startswith("redqueen.jail.child.")
    for node in ast.walk(tree):
        targets: list[str] = []
        if isinstance(node, ast.Import):
            targets = [alias.name for alias in node.names]
        elif isinstance(node, ast.ImportFrom):
            assert node.level == 0, f"{name}: a relative import in line {node.lineno}"
            module = node.module or ""
            targets = [f"{module}.{alias.name}" for alias in node.names]
        for target in targets:
            if child and target.partition(".")[0] in CHILD:
                target = f"redqueen.jail.child.{target}"
            while target.partition(".")[0] == "redqueen":
                if target in FILES:
                    yield target
                    break
                target = target.rpartition(".")[0]


EDGES = sorted({(name, target) for name, tree in TREES.items() for target in imported(name, tree) if target != name})


def part_and_level(name: str) -> tuple[str, int]:
    """The part of the house that a module belongs to, and its height (0 is the top)."""
    known = [(part, i) for i, row in enumerate(LEVELS) for part in row if name == part or name.startswith(f"{part}.")]
    part, level = max(known, key=lambda item: len(item[0]))
    return part, level


def test_the_reader_of_imports_sees_every_way_to_import() -> None:
    text = """
import redqueen.run.trainer
from redqueen.base import streams
from redqueen import __version__
from redqueen.records import Kind
def f():
    from redqueen.method import task_bank as bank
if TYPE_CHECKING:
    from redqueen.store.archive.writer import Archive
"""
    assert set(imported("redqueen.x", ast.parse(text))) == {
        "redqueen.run.trainer",
        "redqueen.base.streams",
        "redqueen",
        "redqueen.records",
        "redqueen.method.task_bank",
        "redqueen.store.archive.writer",
    }
    assert set(imported("redqueen.jail.child.zygote", ast.parse("from values import decode"))) == {
        "redqueen.jail.child.values"
    }
    assert len(EDGES) > 100


def test_every_module_has_a_place() -> None:
    placeless = [name for name in FILES if part_and_level(name)[0] == "redqueen" and name != "redqueen"]
    assert placeless == []


def test_arrows_go_down_only() -> None:
    uphill = [
        f"{name} -> {target}"
        for name, target in EDGES
        if part_and_level(name)[0] != part_and_level(target)[0] and part_and_level(target)[1] <= part_and_level(name)[1]
    ]
    assert uphill == []


def test_the_index_names_every_extra_and_only_what_is_there() -> None:
    places = [place for offers in extras.OFFERS.values() for place in offers.values()]
    assert {place.partition(":")[0].partition(".")[0] for place in places} == set(EXTRAS)
    assert all(extras.find(part, name) is not None for part, offers in extras.OFFERS.items() for name in offers)


def test_the_python_api_calls_no_command() -> None:
    assert [target for name, target in EDGES if name == "redqueen.api" and target.startswith("redqueen.cli")] == []


def test_no_module_reaches_itself() -> None:
    below: dict[str, list[str]] = {name: [t for n, t in EDGES if n == name] for name in FILES}
    done: set[str] = set()

    def visit(name: str, path: tuple[str, ...]) -> None:
        assert name not in path, " -> ".join((*path[path.index(name) :], name))
        if name not in done:
            for target in below[name]:
                visit(target, (*path, name))
            done.add(name)

    for name in FILES:
        visit(name, ())


def test_only_the_command_line_imports_inside_functions() -> None:
    hidden = [
        f"{name}: {function.name}"
        for name, tree in TREES.items()
        for function in ast.walk(tree)
        if isinstance(function, ast.FunctionDef | ast.AsyncFunctionDef)
        for node in function.body
        if any(imported(name, node))
        and name not in ("redqueen.cli.app", "redqueen.cli.app_runs", "redqueen.cli.options", "redqueen.api")
        and not re.fullmatch(r"redqueen\.extras\.\w+\.commands", name)
    ]
    assert hidden == []


def test_nothing_hides_behind_type_checking() -> None:
    assert [name for name, path in FILES.items() if "TYPE_CHECKING" in path.read_text(encoding="utf-8")] == []


def loaded_after(code: str) -> set[str]:
    done = subprocess.run(
        [sys.executable, "-c", f"import sys\n{code}\nprint(*sys.modules)"], capture_output=True, text=True, check=True
    )
    return set(done.stdout.split())


@pytest.mark.parametrize(
    "part",
    [
        "tasks",
        "method",
        "jail",
        "records",
        "config",
        "base",
        "extras.page",
        "extras.rewards",
        "extras.sql",
        "extras.expr",
    ],
)
def test_the_rules_load_no_tensor_library(part: str) -> None:
    names = [name for name in FILES if name == f"redqueen.{part}" or name.startswith(f"redqueen.{part}.")]
    names = [name for name in names if not name.startswith(NEED_A_LIBRARY)]
    assert names
    # appended, so that the child side finds its siblings and nothing is shadowed
    path = f"sys.path.append({str(CHILD_FOLDER)!r})"
    loaded = loaded_after("\n".join([path, *(f"import {name}" for name in names)]))
    assert set(names) <= loaded
    assert loaded.isdisjoint({"torch", "transformers", "peft", "safetensors", "matplotlib"})


def test_the_sandboxed_child_is_standard_library_only() -> None:
    code = f"""
before = set(sys.modules)
sys.path.insert(0, {str(CHILD_FOLDER)!r})
import zygote
print(*(n.partition(".")[0] for n in set(sys.modules) - before))
"""
    done = subprocess.run(
        [sys.executable, "-I", "-c", f"import sys\n{code}"], capture_output=True, text=True, check=True
    )
    assert set(done.stdout.split()) <= set(sys.stdlib_module_names) | CHILD


def test_the_sandboxed_child_imports_nothing_else_anywhere_in_its_files() -> None:
    """Also what it imports inside functions; and none of its modules hides one of the standard library."""
    assert CHILD.isdisjoint(sys.stdlib_module_names)
    allowed = sys.stdlib_module_names | CHILD
    for path in CHILD_FOLDER.glob("*.py"):
        for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
            modules: list[str] = []
            if isinstance(node, ast.Import):
                modules = [alias.name for alias in node.names]
            elif isinstance(node, ast.ImportFrom):
                modules = [node.module or ""]
            assert {module.partition(".")[0] for module in modules} <= allowed, f"{path.name}:{node.lineno}"


def test_help_and_version_load_no_tensor_library() -> None:
    assert loaded_after("import redqueen.cli.app").isdisjoint({"torch", "transformers", "peft"})


@pytest.mark.parametrize("name", ["redqueen.tasks.python", "redqueen.extras.sql.language", "redqueen.config"])
def test_whatever_is_imported_first_can_be(name: str) -> None:
    assert name in loaded_after(f"import {name}")
