"""The style figures, on small texts with one finding each."""

from __future__ import annotations

import ast
from pathlib import Path

import pytest

from tools import style


def module(text: str, name: str = "a") -> style.Module:
    return style.Module(name=name, path=Path(f"{name}.py"), text=text, tree=ast.parse(text))


@pytest.mark.parametrize(
    ("text", "count"),
    [
        ("a, b, c = 1, 2, 3", 1),
        ("(a, b), c, d = pair, 2, 3", 1),
        ("a, b = 1, 2", 0),
        ("a, b, c = three()", 0),
        ("a = b = c = 1", 0),
    ],
)
def test_assignments_of_written_out_tuples(text: str, count: int) -> None:
    assert len(list(style.packed_assignments(module(text)))) == count


@pytest.mark.parametrize(
    ("text", "count"),
    [
        ("[x for x in y]", 0),
        ("[[x for x in y] for y in z]", 1),
        ("[x for y in z for x in y]", 1),
        ("{k: sum(x for x in v) for k, v in z.items()}", 1),
        ("[x for x in sorted(y for y in z)]", 1),
    ],
)
def test_comprehensions_within_comprehensions(text: str, count: int) -> None:
    assert len(list(style.nested_comprehensions(module(text)))) == count


def test_a_comment_counts_where_it_has_a_line_of_its_own() -> None:
    assert style.comment_lines(module("# one\nx = 1  # no\n'''\n# no\n'''\ndef f():\n    # two\n    pass\n")) == 2


def test_functions_are_measured_with_those_inside_them() -> None:
    lengths = [length for length, _ in style.function_lengths(module("def f():\n    def g():\n        pass\n    g()"))]
    assert lengths == [4, 2]


def test_a_cycle_is_found_wherever_the_import_hides() -> None:
    names = {"a", "a.b", "c"}
    assert style.imports(module("from a import b\nimport c.d"), names) == {"a.b", "c"}
    assert style.imports(module("def f():\n    from a.b import value"), names) == {"a.b"}
    assert style.import_cycle({"a": {"b"}, "b": {"c"}, "c": set()}) == []
    assert style.import_cycle({"a": {"b"}, "b": {"c"}, "c": {"b"}}) == ["b", "c", "b"]


def test_a_console_that_reads_markup_is_found_in_the_library_alone() -> None:
    text = "from rich import console\nout = console.Console()\nerrors = Console(stderr=True)\nText.from_markup('[b]')"
    assert len(list(style.markup(module(text, "redqueen.cli.show")))) == 3
    assert not list(
        style.markup(module("class Plain(Console):\n    pass\nPlain().print(f'{x}')", "redqueen.cli.plain"))
    )
    assert not list(style.markup(module(text, "benchmarks.report")))


def test_limits_are_kept_or_named() -> None:
    good = "# why\n" + "x = 1\n" * 9
    assert all(figure.good for figure in style.figures([module(good + "def f():\n    pass\n")]))
    bad = "a, b, c = 1, 2, 3\ndef f():\n" + "    x = 1\n" * 500
    figures = style.figures([module(bad)])
    wrong = {figure.name: figure.places for figure in figures if not figure.good}
    assert wrong == {
        "assignments of more than 2 names": ("a.py:1",),
        "comment lines": (),
        "files above 500 lines": ("a.py 502",),
        "functions above 70 lines": ("a.py:2 f 501",),
    }
    failing = {figure.name for figure in figures if figure.fails}
    assert failing == {"functions above 70 lines", "consoles that read markup", "import cycles"}


def test_the_reading_list_is_there_and_short_enough(tmp_path: Path) -> None:
    page = tmp_path / "docs" / "READING.md"
    page.parent.mkdir()
    page.write_text("| 1 | `a.py` | x |\n| 2 | `b.py` | y |\n")
    (tmp_path / "a.py").write_text("x = 1\n" * 3999)
    assert not style.reading(tmp_path).good
    assert style.reading(tmp_path).places == ("docs/READING.md: no file b.py",)
    (tmp_path / "b.py").write_text("y = 2\n")
    assert style.reading(tmp_path).good
    (tmp_path / "b.py").write_text("y = 2\n" * 2)
    assert not style.reading(tmp_path).good
    assert style.reading().good


def test_the_parts_of_the_package_are_counted() -> None:
    sources = [
        module("x = 1", "redqueen.records"),
        module("x = 1", "redqueen.jail.pool"),
        module("x = 1", "benchmarks.a"),
    ]
    assert style.parts(sources) == "core 1, jail 1, extras 0"


def test_functions_that_take_the_whole_configuration_are_counted() -> None:
    text = "def f(config: Config): ...\ndef g(config: GameConfig): ...\ndef h(*, config: Config): ...\n"
    assert style.takes_config(module(text)) == 2
