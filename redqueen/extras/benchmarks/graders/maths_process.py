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

from redqueen.extras.benchmarks.graders.latex import given_answers, key
from redqueen.extras.benchmarks.graders.same_answer import matched, same

MEMORY_BYTES = 4 << 30


def judge(answers: Sequence[str], answer: str) -> tuple[str, str]:
    """Returns a status, `correct` or `wrong`, and a detail. All of several answers have to be given, in any order."""
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
