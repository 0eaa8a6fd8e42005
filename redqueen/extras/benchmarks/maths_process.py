"""Compares mathematical answers by math-verify, in a process of its own: JSON lines in, JSON lines out.

math-verify, and sympy behind it, may need for ever on a short text and can be stopped by the kernel only. So a timer
ends this process when an answer takes too long, and the grader starts another one. Its way of reading plain
expressions, which evaluates Python, is not used.
"""

from __future__ import annotations

import json
import logging
import re
import resource
import signal
import sys
from collections.abc import Sequence
from functools import reduce
from string import ascii_lowercase
from typing import Any

import sympy
from math_verify import verify

from redqueen.extras.benchmarks.latex import (
    AND,
    OR,
    Group,
    enclosed,
    given_answers,
    group,
    is_name,
    is_set,
    items_of,
    key,
    normal,
    relation,
    split,
    such_that,
    without_thousands,
)
from redqueen.extras.benchmarks.values import equal, proportional, value

# Intervals and other sets of numbers, however they are written: $(2, \infty)$, $x > 2$, $\{x \mid x > 2\}$.

_OPERATORS = re.compile(r"\\(?:cup|cap|setminus)(?![A-Za-z])")
_EMPTY_SET = re.compile(r"\\\{\s*\\\}")
_NUMBERS = re.compile(r"\\mathbb\s*\{?([RZNQC])\}?")
_SETS = {"R": sympy.S.Reals, "Z": sympy.S.Integers, "N": sympy.S.Naturals, "Q": sympy.S.Rationals}
_COMPARED: dict[str, Any] = {
    "<": sympy.StrictLessThan,
    ">": sympy.StrictGreaterThan,
    r"\le": sympy.LessThan,
    r"\ge": sympy.GreaterThan,
    r"\ne": sympy.Ne,
    "=": sympy.Eq,
}


def region(text: str) -> Any:
    """Returns the set of real numbers that a text stands for; None if it stands for none."""
    if (condition := such_that(text)) is not None:
        return region(condition)
    alternatives, _ = split(text, OR)
    if len(alternatives) > 1:
        return _joined([region(part) for part in alternatives], sympy.Union)
    if relation(text) is not None:
        return _conditions(text)
    return _operations(text)


def _joined(parts: list[Any], join: Any) -> Any:
    return None if None in parts else join(*parts)


def _conditions(text: str) -> Any:
    r"""Returns what $x > 2$, $1 < x \le 3$, $x \in A$ and several of them with commas stand for."""
    conditions, separators = split(text, AND)
    parts = [_condition(part) for part in conditions if part]
    if None in parts:
        return None
    both = sympy.Intersection(*parts)
    # Whoever writes x < 2, x > 3 means either.
    listed = all(separator.strip() in (",", ";") for separator in separators)
    return sympy.Union(*parts) if listed and both.is_empty else both


def _condition(text: str) -> Any:
    found = relation(text)
    if found is None:
        return None
    sides, signs = found
    if signs == [r"\in"]:
        return region(sides[1]) if is_name(sides[0]) else None
    if not set(signs) <= _COMPARED.keys():
        return None
    values = [value(side) for side in sides]
    if None in values:
        return None
    parts = [_solved(one, sign, other) for one, sign, other in zip(values, signs, values[1:], strict=False)]
    return None if None in parts else sympy.Intersection(*parts)


def _solved(one: Any, sign: str, other: Any) -> Any:
    """Returns the numbers that a comparison holds for; None if it is not about one letter."""
    letters = one.free_symbols | other.free_symbols
    if len(letters) != 1:
        return None
    letter = letters.pop()
    real = sympy.Symbol("x", real=True)
    try:
        return _COMPARED[sign](one.subs(letter, real).doit(), other.subs(letter, real).doit()).as_set()
    except (NotImplementedError, ValueError, TypeError, AttributeError):
        return None


def _operations(text: str) -> Any:
    parts, signs = split(text, _OPERATORS)
    sets = [_atom(part) for part in parts]
    if None in sets:
        return None

    def apply(done: Any, step: tuple[str, Any]) -> Any:
        sign, right = step
        operator = {r"\cup": sympy.Union, r"\cap": sympy.Intersection}.get(sign.strip(), sympy.Complement)
        return operator(done, right)

    return reduce(apply, zip(signs, sets[1:], strict=True), sets[0])


def _atom(text: str) -> Any:
    numbers = _NUMBERS.fullmatch(text)
    if numbers is not None:
        return _SETS.get(numbers[1])
    if re.fullmatch(r"\\emptyset|\\\{\s*\\\}", text):
        return sympy.S.EmptySet
    items = group(text)
    if items is None:
        around = enclosed(text)
        return region(around[1]) if around is not None and around[0] == "(" else None
    values = [value(item) for item in items.items]
    if any(number is None or not getattr(number, "is_extended_real", False) for number in values):
        return None
    if items.opening == "\\{":
        return sympy.FiniteSet(*[number.doit() for number in values])
    if not items.pair:
        return None
    start, end = (number.doit() for number in values)
    # A point such as (3, 2) is no interval.
    if (start < end) != True:  # noqa: E712
        return None
    return sympy.Interval(start, end, left_open=items.opening == "(", right_open=items.closing == ")")


# Whether an answer means what a reference means: its form is compared here, its values by `values`.

_INFINITE = r"\infty"
_COMPARISONS = {"<", ">", r"\le", r"\ge", r"\ne", r"\in"}


def same(reference: str, answer: str) -> bool:
    """Returns whether an answer means what the reference means."""
    reference = normal(reference)
    answer = normal(answer)
    return key(reference) == key(answer) or _same(reference, answer)


def _same(reference: str, answer: str) -> bool:
    if key(reference) == key(answer):
        return True
    if _is_region(reference) and _is_region(answer):
        return _same_region(reference, answer)
    wanted = relation(reference)
    given = relation(answer)
    items = group(reference)
    if items is not None:
        return _same_group(items, answer)
    if wanted is not None:
        return _same_relation(*wanted, reference, answer)
    if given is not None and group(answer) is None:
        named = _named(*given)
        return named is not None and _same(reference, named)
    given_items = group(answer)
    if given_items is not None:
        # {5} is 5.
        return given_items.opening == "\\{" and len(given_items.items) == 1 and _same(reference, given_items.items[0])
    return equal(reference, answer)


def _named(sides: list[str], signs: list[str]) -> str | None:
    """Returns what is left of an answer without its name: of $x = 5$ the 5. None if it says something else."""
    if signs == [r"\in"] and all(map(is_name, items_of(sides[0]))):
        return sides[1]
    if signs[-1] == r"\approx":
        # Of an exact value and a rounded one the exact one counts: x = 1/3, which is about 0.33.
        exact = sides[:-1] if len(sides) > 2 or not is_name(sides[0]) else sides
        return _named(exact, ["="] * (len(exact) - 1)) if len(exact) > 1 else exact[0]
    if set(signs) != {"="}:
        return None
    if is_name(sides[0]) or not sides[0]:
        return sides[-1]
    if is_name(sides[-1]) and len(sides) == 2:
        return sides[0]
    # A calculation without letters has one value if all its sides are equal.
    values = [value(side) for side in sides]
    numbers = all(number is not None and getattr(number, "is_number", False) for number in values)
    return sides[-1] if numbers and all(equal(sides[0], side) for side in sides[1:]) else None


def _same_relation(sides: list[str], signs: list[str], reference: str, answer: str) -> bool:
    given = relation(answer)
    named = _named(sides, signs)
    if given is None:
        return named is not None and is_name(sides[0]) and _same(named, answer)
    other_sides, other_signs = given
    if set(signs) == set(other_signs) == {"="}:
        if key(sides[0]) == key(other_sides[0]) and is_name(sides[0]):
            return _same(sides[-1], other_sides[-1]) or _equivalent(sides, other_sides)
        return _equivalent(sides, other_sides)
    if signs == [r"\in"]:
        return _same(sides[1], answer)
    if len(signs) == len(other_signs):
        one_sides, one_signs = _turned(sides, signs)
        two_sides, two_signs = _turned(other_sides, other_signs)
        return one_signs == two_signs and all(map(_same, one_sides, two_sides))
    return False


def _turned(sides: list[str], signs: list[str]) -> tuple[list[str], list[str]]:
    """Returns a chain of comparisons from the smallest side to the largest."""
    turned = {">": "<", r"\ge": r"\le"}
    if all(sign in turned for sign in signs):
        return sides[::-1], [turned[sign] for sign in signs[::-1]]
    return sides, signs


def _equivalent(sides: list[str], other_sides: list[str]) -> bool:
    """Returns whether two equations are one, up to a factor and the sides that their terms stand on."""
    if len(sides) != 2 or len(other_sides) != 2:
        return False
    values = [value(side) for side in (*sides, *other_sides)]
    if any(side is None for side in values):
        return False
    left, right, other_left, other_right = values
    try:
        return proportional(left - right, other_left - other_right)
    except TypeError:
        return False


def _same_group(wanted: Group, answer: str) -> bool:
    given = group(answer)
    found = relation(answer)
    if given is None or (given.opening == "" and found is not None):
        # All of x = 1, 2 is under one name.
        if found is not None and len(found[1]) == 1 and (named := _named(*found)) is not None:
            return _same_group(wanted, named)
        if given is None:
            return len(wanted.items) == 1 and _same(wanted.items[0], answer)
    if len(wanted.items) != len(given.items):
        return False
    if wanted.opening in ("", "\\{"):
        if wanted.opening == "\\{" and given.opening in ("(", "["):
            return False
        return matched(wanted.items, given.items)
    # A point may be given without its brackets, an interval may not.
    point = wanted.opening + wanted.closing == "()" and not any(_INFINITE in item for item in wanted.items)
    if not (point and given.opening == "") and (wanted.opening, wanted.closing) != (given.opening, given.closing):
        return False
    return all(map(_same, _in_order(wanted.items), _in_order(given.items)))


def _in_order(items: Sequence[str]) -> Sequence[str]:
    """Returns the items of a point, those of y = 3, x = 5 by their names."""
    names = [found[0][0] if (found := relation(item)) is not None and found[1] == ["="] else "" for item in items]
    # A point is named by letters that follow each other: (x, y) or (a, b, c). An order of others says something.
    ordered = sorted(names)
    named = all(len(name) == 1 for name in names) and "".join(ordered) in ascii_lowercase
    return [items[names.index(name)] for name in ordered] if named else items


def matched(wanted: Sequence[str], given: Sequence[str]) -> bool:
    """Returns whether each of the answers that are wanted is one of those that are given, in any order."""
    left = list(given)
    for reference in wanted:
        found = next((candidate for candidate in left if same(reference, candidate)), None)
        if found is None:
            return False
        left.remove(found)
    return not left


def _is_region(text: str) -> bool:
    """Returns whether a text may stand for a set of numbers: an interval, an inequality, a union."""
    if is_set(text) or such_that(text) is not None or _EMPTY_SET.fullmatch(text):
        return True
    items = group(text)
    if items is not None and items.pair:
        return True
    found = relation(text)
    return found is not None and not _COMPARISONS.isdisjoint(found[1])


def _same_region(reference: str, answer: str) -> bool:
    items = group(reference), group(answer)
    if items[0] is not None and items[1] is not None and items[0].pair and items[1].pair:
        return _same_group(items[0], answer)
    one = region(reference)
    other = region(answer)
    if one is None or other is None:
        found = relation(reference)
        return found is not None and _same_relation(*found, reference, answer)
    return bool(verify(one, other, timeout_seconds=None))


MEMORY_BYTES = 4 << 30


def judge(answers: Sequence[str], answer: str) -> tuple[str, str]:
    """Returns a status, `correct` or `wrong`, and a detail. All of several answers have to be given, in any order."""
    verdict = _judge(answers, answer)
    plain = without_thousands(answer)
    # What may be a list of more and smaller numbers is one, if they are asked for.
    return _judge(answers, plain) if verdict[0] != "correct" and plain != answer else verdict


def _judge(answers: Sequence[str], answer: str) -> tuple[str, str]:
    if len(answers) == 1:
        return ("correct" if same(answers[0], answer) else "wrong"), ""
    wanted = _different([part for one in answers for part in given_answers(one)])
    given = _different(given_answers(answer))
    if len(given) != len(wanted):
        return "wrong", f"{len(given)} answers, not {len(wanted)}"
    return ("correct", "") if matched(wanted, given) else ("wrong", "an answer is missing")


def _different(answers: Sequence[str]) -> list[str]:
    return list({key(answer): answer for answer in answers}.values())


def main() -> None:
    """Answers requests until the input ends."""
    logging.disable(logging.CRITICAL)
    resource.setrlimit(resource.RLIMIT_AS, (MEMORY_BYTES, MEMORY_BYTES))
    resource.setrlimit(resource.RLIMIT_FSIZE, (0, 0))
    resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
    # The default action ends the process, wherever it is: no handler of Python's has to run for that.
    signal.signal(signal.SIGPROF, signal.SIG_DFL)
    for line in sys.stdin:
        request = json.loads(line)
        signal.setitimer(signal.ITIMER_PROF, request["cpu_s"])
        try:
            status, detail = judge(request["answers"], request["answer"])
        except MemoryError:
            status, detail = "memory", "too much memory"
        except RecursionError:
            status, detail = "error", "nested too deep"
        except Exception as error:  # noqa: BLE001
            # sympy raises nearly anything on a text that it cannot treat. That says something about the text, and the
            # next one must not wait for another process.
            status, detail = "error", type(error).__name__
        signal.setitimer(signal.ITIMER_PROF, 0)
        print(json.dumps([status, detail]), flush=True)


if __name__ == "__main__":
    main()
