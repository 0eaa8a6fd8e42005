"""Traces: the lines of work say what the program does, and the last value is what it returns."""

from __future__ import annotations

import textwrap

import pytest

from redqueen.jail import MAX_TEXT_BYTES, parse_literal
from redqueen.method.verifier import LocalVerifier
from redqueen.records import Kind, Task
from redqueen.tasks.programs import ProgramError
from redqueen.tasks.programs.tracing import ARROW, MOST_NOTES, TracedProgram
from redqueen.tasks.python import PYTHON


def work(verifier: LocalVerifier, program: str, given: str) -> list[str] | None:
    traced = TracedProgram(textwrap.dedent(program).strip())
    outputs = verifier.run(traced.instrumented, (given,), 1.0, MAX_TEXT_BYTES).result()
    return traced.work(parse_literal(outputs[0])) if outputs else None


@pytest.mark.parametrize(
    ("program", "given", "lines"),
    [
        ("def f(x):\n    return x * 2 + 1", "4", ["return 4 * 2 + 1 -> 8 + 1 -> 9"]),
        ("def f(x):\n    return x", "4", ["return -> 4"]),
        ("def f(x):\n    return 7", "4", ["return -> 7"]),
        ("def f(x):\n    return -x ** 2", "-3", ["return -(-3) ** 2 -> -9"]),
        ("def f(a, b):\n    return a and b", "0, 5", ["return 0 and b -> 0"]),
        (
            "def f(s, *r):\n    return [s.upper(), *r][-1]",
            "'a', 'b'",
            ["return ['a'.upper(), *('b',)][-1] -> ['A', *('b',)][-1] -> ['A', 'b'][-1] -> 'b'"],
        ),
        (
            "def f(x):\n    return 1 if x > 2 else x // 0",
            "3",
            ["return 1 if 3 > 2 else x // 0 -> 1 if True else x // 0 -> 1"],
        ),
        ("def f(x):\n    return f'{x}!'", "3", ["return f'{x}!' -> '3!'"]),
        (
            "def f(xs):\n    return [x + 1 for x in xs[1:]]",
            "[1, 2]",
            ["return [x + 1 for x in [1, 2][1:]] -> [x + 1 for x in [2]] -> [3]"],
        ),
        (
            "def f(x):\n    return sorted(x, key=len)",
            "['bb', 'a']",
            ["return sorted(['bb', 'a'], key=len) -> ['a', 'bb']"],
        ),
    ],
)
def test_an_expression_is_reduced_from_the_inside(
    verifier: LocalVerifier, program: str, given: str, lines: list[str]
) -> None:
    assert work(verifier, program, given) == lines


def test_statements_are_lines_in_the_order_in_which_they_run(verifier: LocalVerifier) -> None:
    program = """
        def f(words, n):
            words.sort()
            seen = {}
            for i, word in enumerate(words):
                if word in seen:
                    continue
                seen[word] = i
                n += len(word)
            while n > 5:
                n //= 2
            return n, seen
    """
    assert work(verifier, program, "['b', 'a', 'b'], 8") == [
        "words = ['a', 'b', 'b']",
        "seen = {}",
        "i, word = (0, 'a')",
        "if 'a' in {} -> False",
        "seen = {'a': 0}",
        "n = 8 + len('a') -> 8 + 1 -> 9",
        "i, word = (1, 'b')",
        "if 'b' in {'a': 0} -> False",
        "seen = {'a': 0, 'b': 1}",
        "n = 9 + len('b') -> 9 + 1 -> 10",
        "i, word = (2, 'b')",
        "if 'b' in {'a': 0, 'b': 1} -> True",
        "while 10 > 5 -> True",
        "n = 10 // 2 -> 5",
        "while 5 > 5 -> False",
        "return -> (5, {'a': 0, 'b': 1})",
    ]


def test_what_is_taken_apart_keeps_its_form(verifier: LocalVerifier) -> None:
    program = """
        def f(pairs):
            x, = [5]
            a, (b, c) = 1, pairs[0]
            () = []
            for i, (d, e) in enumerate(pairs):
                pass
            for j, in [[7]]:
                pass
            return x
    """
    assert work(verifier, program, "[(2, 3)]") == [
        "x, = [5]",
        "a, (b, c) = (1, [(2, 3)][0]) -> (1, (2, 3))",
        "() = []",
        "i, (d, e) = (0, (2, 3))",
        "j, = (7,)",
        "return -> 5",
    ]


def test_adding_to_a_list_changes_it_in_place(verifier: LocalVerifier) -> None:
    program = """
        def f(xs):
            ys = xs
            ys += [3]
            return xs
    """
    assert work(verifier, program, "[1]") == ["ys = [1]", "ys = [1] + [3] -> [1, 3]", "return -> [1, 3]"]


def test_a_recursive_call_is_one_step(verifier: LocalVerifier) -> None:
    program = """
        def f(n):
            if n <= 1:
                return 1
            return n * f(n - 1)
    """
    assert work(verifier, program, "3") == ["if 3 <= 1 -> False", "return 3 * f(3 - 1) -> 3 * f(2) -> 3 * 2 -> 6"]


@pytest.mark.slow
def test_the_last_line_of_every_seed_ends_with_its_output(
    verifier: LocalVerifier, seed_tasks: dict[Kind, list[Task]]
) -> None:
    tasks = seed_tasks["code_o"]
    ends: list[tuple[str, str]] = []
    for task in tasks:
        (pair,) = task.pairs
        lines = work(verifier, task.program, pair.input)
        if lines is not None:
            ends.append((lines[-1].split(ARROW)[-1], pair.output))
    assert len(ends) > 0.9 * len(tasks)
    assert [parse_literal(value) for value, _ in ends] == [parse_literal(output) for _, output in ends]


@pytest.mark.parametrize(
    "program",
    [
        f"def f(x):\n    for i in range({MOST_NOTES}):\n        x += i\n    return x",
        "def f(x):\n    return 'a' * 1000",
        "def f(x):\n    return 1 // 0",
        "def f(x):\n    x = x + 1",
        "def f(x):\n    yield x",
    ],
)
def test_what_is_too_long_fails_or_returns_at_no_line_has_no_work(verifier: LocalVerifier, program: str) -> None:
    assert work(verifier, program, "1") is None


@pytest.mark.parametrize("program", ["def g(x):\n    return x", "f = len", "def f(x:", "def f(x):\n  return 1\n" * 2])
def test_a_text_without_one_function_f_is_refused(program: str) -> None:
    with pytest.raises(ProgramError):
        TracedProgram(program)


def test_notes_of_another_program_are_refused() -> None:
    with pytest.raises(ProgramError, match="another program"):
        TracedProgram("def f(x):\n    return x").work([(99, "1")])


@pytest.mark.parametrize("spoilt", ["list = len", "repr = lambda value: '(('", "list = repr = None"])
def test_a_program_that_replaces_what_notes_its_values_ends_nothing(spoilt: str, verifier: LocalVerifier) -> None:
    program = f"def f(x):\n    y = x + 1\n    return y\n{spoilt}"
    ran = PYTHON.trace(program, "1", lambda text, given: verifier.run(text, given, 1.0, MAX_TEXT_BYTES).result())
    assert ran is None or ran[-1].endswith("2")
