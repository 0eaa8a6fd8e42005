"""Compares mathematical answers by math-verify, in a process of its own: JSON lines in, JSON lines out.

math-verify, and sympy behind it, may need for ever on a short text and can be stopped by the kernel only. So a timer
ends this process when an answer takes too long, and the grader starts another one. Its way of reading plain
expressions, which evaluates Python, is not used.
"""

from __future__ import annotations

import json
import logging
import resource
import signal
import sys
from collections.abc import Sequence
from typing import Any

from math_verify import LatexExtractionConfig, parse, verify

from redqueen.evals.graders.latex import key, normal, split_answers

MEMORY_BYTES = 4 << 30
TOLERANCE = 1e-4
_LATEX = (LatexExtractionConfig(boxed_match_priority=0),)


def judge(answers: Sequence[str], answer: str) -> tuple[str, str]:
    """Returns a status, `correct` or `wrong`, and a detail. All of several answers have to be given, in any order."""
    if len(answers) == 1:
        return ("correct" if same(answers[0], answer) else "wrong"), ""
    wanted = _different(answers)
    given = _different(split_answers(answer))
    if len(given) != len(wanted):
        return "wrong", f"{len(given)} answers, not {len(wanted)}"
    for reference in wanted:
        equal = next((candidate for candidate in given if same(reference, candidate)), None)
        if equal is None:
            return "wrong", "an answer is missing"
        given.remove(equal)
    return "correct", ""


def same(reference: str, answer: str) -> bool:
    """Returns whether an answer means what the reference means."""
    if key(reference) == key(answer):
        return True
    gold = _read(reference)
    given = _read(answer)
    return bool(verify(gold, given, timeout_seconds=None)) and not _far_apart(gold, given)


def _far_apart(gold: list[Any], given: list[Any]) -> bool:
    """Returns whether these are two numbers that differ by more than `TOLERANCE` of the first."""
    # math-verify rounds to six decimals, so that to it 2.88e-19 is 1.325e-27.
    if not (gold and given and getattr(gold[0], "is_number", False) and getattr(given[0], "is_number", False)):
        return False
    one = gold[0].evalf()
    other = given[0].evalf()
    # A per cent stays unevaluated, and so does the comparison: it is neither true nor false. What it means is left to
    # math-verify, to which 50 % is 1/2, and 50 as well.
    return (abs(one - other) > TOLERANCE * abs(one)) == True  # noqa: E712


def _read(text: str) -> list[Any]:
    return parse(rf"\boxed{{{normal(text)}}}", _LATEX, parsing_timeout=0)


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
