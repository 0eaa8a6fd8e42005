"""Prints the style figures of the source code, and marks those beyond their limit (`make style`).

The limits keep the code loose enough to read: one statement says one thing, files and functions stay short, and traps
have a comment. It exits with 1 for an import cycle or a function that is too long. The others are there to be read: a
file that is cut in two for the sake of a number is no better. Figures are taken from the syntax tree and the tokens, so
the formatting of a line changes none of them.
"""

from __future__ import annotations

import ast
import io
import re
import statistics
import sys
import tokenize
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]
PACKAGES = ("redqueen", "benchmarks")

MAX_NAMES_ASSIGNED = 2
MAX_NESTED_PER_1000_LINES = 1.6
MIN_COMMENT_PERCENT = 3.0
MAX_FILE_LINES = 500
MAX_FUNCTION_LINES = 70
MAX_READING_LINES = 4000
MARKUP = ("Console", "from_markup")

Comprehension = ast.ListComp | ast.SetComp | ast.DictComp | ast.GeneratorExp
Function = ast.FunctionDef | ast.AsyncFunctionDef


@dataclass(frozen=True, slots=True, kw_only=True)
class Module:
    """One source file."""

    name: str
    """The dotted name that an import uses."""
    path: Path
    """Relative to the repository."""
    text: str
    tree: ast.Module

    @property
    def lines(self) -> int:
        return len(self.text.splitlines())


def modules(root: Path = ROOT) -> list[Module]:
    """Returns every Python file of `PACKAGES` in `root`."""
    result: list[Module] = []
    for package in PACKAGES:
        for file in sorted((root / package).rglob("*.py")):
            path = file.relative_to(root)
            parts = path.with_suffix("").parts
            name = ".".join(parts[:-1] if parts[-1] == "__init__" else parts)
            text = file.read_text(encoding="utf-8")
            result.append(Module(name=name, path=path, text=text, tree=ast.parse(text)))
    return result


def packed_assignments(module: Module) -> Iterator[str]:
    """Yields each assignment of a written-out tuple to more than two targets, as in `a, b, c = 1, 2, 3`."""
    for node in ast.walk(module.tree):
        if isinstance(node, ast.Assign) and isinstance(node.value, ast.Tuple | ast.List):
            for target in node.targets:
                if isinstance(target, ast.Tuple | ast.List) and len(target.elts) > MAX_NAMES_ASSIGNED:
                    yield f"{module.path}:{node.lineno}"


def nested_comprehensions(module: Module) -> Iterator[str]:
    """Yields each comprehension that stands within another one or has more than one `for`."""
    for outer in ast.walk(module.tree):
        if isinstance(outer, Comprehension):
            inner = any(isinstance(node, Comprehension) for node in ast.walk(outer) if node is not outer)
            if inner or len(outer.generators) > 1:
                yield f"{module.path}:{outer.lineno}"


def comment_lines(module: Module) -> int:
    """Returns how many lines hold nothing but a comment."""
    tokens = tokenize.generate_tokens(io.StringIO(module.text).readline)
    return sum(token.type == tokenize.COMMENT and token.line.lstrip().startswith("#") for token in tokens)


def function_lengths(module: Module) -> Iterator[tuple[int, str]]:
    """Yields each function's lines, from `def` to its end, and where it stands."""
    for node in ast.walk(module.tree):
        if isinstance(node, Function):
            assert node.end_lineno is not None
            yield node.end_lineno - node.lineno + 1, f"{module.path}:{node.lineno} {node.name}"


def imports(module: Module, names: set[str]) -> set[str]:
    """Returns the modules among `names` that `module` imports, wherever in the file."""
    found: set[str] = set()
    for node in ast.walk(module.tree):
        targets: list[str] = []
        if isinstance(node, ast.Import):
            targets = [alias.name for alias in node.names]
        elif isinstance(node, ast.ImportFrom):
            targets = [f"{node.module}.{alias.name}" for alias in node.names]
        for target in targets:
            # `from a.b import c` means the module a.b.c if there is one, else a.b
            while target and target not in names:
                target = target.rpartition(".")[0]
            if target and target != module.name:
                found.add(target)
    return found


def markup(module: Module) -> Iterator[str]:
    """Yields each place of the library where Rich would read markup: a console of its own, or a text from markup."""
    if not module.name.startswith("redqueen."):
        return
    for node in ast.walk(module.tree):
        if isinstance(node, ast.Call):
            called = node.func.attr if isinstance(node.func, ast.Attribute) else getattr(node.func, "id", "")
            if called in MARKUP:
                yield f"{module.path}:{node.lineno} {called}: what others wrote is printed by a PlainConsole"


def import_cycle(graph: dict[str, set[str]]) -> list[str]:
    """Returns the modules of one import cycle in their order, or nothing if there is none."""
    finished: set[str] = set()

    def visit(name: str, path: list[str]) -> list[str]:
        if name in path:
            return [*path[path.index(name) :], name]
        if name not in finished:
            for target in sorted(graph[name]):
                cycle = visit(target, [*path, name])
                if cycle:
                    return cycle
            finished.add(name)
        return []

    for name in graph:
        cycle = visit(name, [])
        if cycle:
            return cycle
    return []


@dataclass(frozen=True, slots=True, kw_only=True)
class Figure:
    """One line of the report."""

    name: str
    value: str
    limit: str
    good: bool
    fails: bool = False
    """Whether the exit code says it if this is not good."""
    places: tuple[str, ...] = ()
    """Where the limit is passed, shown if `good` is false."""


def parts(sources: list[Module]) -> str:
    """Returns the lines of the package's three parts (docs/ARCHITECTURE.md)."""
    lines = {"core": 0, "jail": 0, "extras": 0}
    for module in sources:
        package, _, rest = module.name.partition(".")
        room = rest.partition(".")[0]
        if package == "redqueen":
            lines[room if room in lines else "core"] += module.lines
    return ", ".join(f"{name} {count}" for name, count in lines.items())


def takes_config(module: Module) -> int:
    """Returns how many functions take the whole configuration."""
    functions = (node for node in ast.walk(module.tree) if isinstance(node, Function))
    arguments = ([*node.args.args, *node.args.kwonlyargs] for node in functions)
    return sum(any(ast.unparse(one.annotation) == "Config" for one in each if one.annotation) for each in arguments)


def reading(root: Path = ROOT) -> Figure:
    """Returns the figure of docs/READING.md: its files are there, and short enough together."""
    files = re.findall(
        r"^\| \d+ \| `([^`]+)`", (root / "docs" / "READING.md").read_text(encoding="utf-8"), re.MULTILINE
    )
    missing = [file for file in files if not (root / file).is_file()]
    lines = sum(len((root / file).read_text(encoding="utf-8").splitlines()) for file in files if file not in missing)
    return Figure(
        name="lines to read the method",
        value=f"{lines} in {len(files)} files",
        limit=f"{MAX_READING_LINES}",
        good=0 < lines <= MAX_READING_LINES and not missing,
        fails=True,
        places=tuple(f"docs/READING.md: no file {file}" for file in missing),
    )


def figures(sources: list[Module]) -> list[Figure]:
    """Returns all figures of `sources`."""
    lines = sum(module.lines for module in sources)
    packed = [place for module in sources for place in packed_assignments(module)]
    nested = [place for module in sources for place in nested_comprehensions(module)]
    nested_rate = 1000 * len(nested) / lines
    comments = 100 * sum(comment_lines(module) for module in sources) / lines
    long_files = [f"{module.path} {module.lines}" for module in sources if module.lines > MAX_FILE_LINES]
    functions = [item for module in sources for item in function_lengths(module)]
    long_functions = [f"{place} {length}" for length, place in functions if length > MAX_FUNCTION_LINES]
    names = {module.name for module in sources}
    marked = [place for module in sources for place in markup(module)]
    cycle = import_cycle({module.name: imports(module, names) for module in sources})
    longest_file = max(module.lines for module in sources)
    longest_function = max(length for length, _ in functions)
    return [
        Figure(name="lines", value=f"{lines} in {len(sources)} files", limit="", good=True),
        Figure(name="of the package", value=parts(sources), limit="", good=True),
        Figure(
            name="functions that take the whole Config", value=str(sum(map(takes_config, sources))), limit="", good=True
        ),
        Figure(
            name=f"assignments of more than {MAX_NAMES_ASSIGNED} names",
            value=str(len(packed)),
            limit="0",
            good=not packed,
            places=tuple(packed),
        ),
        Figure(
            name="nested comprehensions per 1,000 lines",
            value=f"{nested_rate:.2f} ({len(nested)})",
            limit=f"< {MAX_NESTED_PER_1000_LINES}",
            good=nested_rate < MAX_NESTED_PER_1000_LINES,
            places=tuple(nested),
        ),
        Figure(
            name="comment lines",
            value=f"{comments:.2f} %",
            limit=f">= {MIN_COMMENT_PERCENT} %",
            good=comments >= MIN_COMMENT_PERCENT,
        ),
        Figure(
            name=f"files above {MAX_FILE_LINES} lines",
            value=f"{len(long_files)} (longest {longest_file})",
            limit="0",
            good=not long_files,
            places=tuple(long_files),
        ),
        Figure(
            name=f"functions above {MAX_FUNCTION_LINES} lines",
            value=f"{len(long_functions)} (longest {longest_function})",
            limit="0",
            good=not long_functions,
            fails=True,
            places=tuple(long_functions),
        ),
        Figure(
            name="median function",
            value=f"{statistics.median(length for length, _ in functions):.0f} lines",
            limit="",
            good=True,
        ),
        Figure(
            name="consoles that read markup",
            value=str(len(marked)),
            limit="0",
            good=not marked,
            fails=True,
            places=tuple(marked),
        ),
        Figure(
            name="import cycles",
            value=" -> ".join(cycle) or "0",
            limit="0",
            good=not cycle,
            fails=True,
        ),
    ]


def main() -> int:
    """Prints the report. Returns the exit code."""
    report = [*figures(modules()), reading()]
    for figure in report:
        mark = "" if figure.good else "  <- beyond the limit"
        print(f"{figure.name:<40} {figure.value:<26} {figure.limit:<8}{mark}".rstrip())
        if not figure.good:
            for place in figure.places:
                print(f"    {place}")
    return int(any(figure.fails and not figure.good for figure in report))


if __name__ == "__main__":
    sys.exit(main())
