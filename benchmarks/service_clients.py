"""Many clients of one `redqueen jail serve` at a time. Each sends numbers that no other sends, and looks for them."""

# The judge's tests use it in Pythons without torch.

from __future__ import annotations

import contextlib
import http.client
import json
import time
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from typing import Any, Literal

FAIR = "fair"
# Each says its number, where it can, and then does something that must hurt nobody.
HOSTILE = {
    "loops": "print({n}, flush=True)\nwhile True: pass",
    "fills memory": "x = [0] * (1 << 40)",
    "prints without end": "while True: print({n})",
    "leaves": "print({n})\nraise SystemExit(7)",
    "forks": "import ctypes\nctypes.CDLL(None).fork()",
    "is no program": "def (:",
    "forges": "import whole_program\nwhole_program.Printed.text = lambda _: ['\\ud800', {n}]",
    "dies": "import sys\nsys.setrecursionlimit(1 << 30)\ndef f(): f()\nf()",
}
"""Programs by what they do; `{n}` is the client's number."""
_HOSTILE_S = 0.1
_FAIR_S = 10.0
Fault = Literal["lost", "foreign", "wrong"]


@dataclass(frozen=True, slots=True, kw_only=True)
class Answer:
    """What came back for one program."""

    kind: str
    """`FAIR`, or a key of `HOSTILE`."""
    number: int
    """What this request sent, and no other one."""
    status: int
    """Of HTTP; 0: there was no answer."""
    said: Any
    """The JSON of the answer, or what went wrong."""
    wait_s: float

    @property
    def fault(self) -> Fault | None:
        """What is wrong with it: it is lost, it is somebody else's, or its verdict is not the right one."""
        if self.status != 200:
            return "lost"
        printed = self.said["run_result"]["stdout"].split()
        own, verdict = (2 * self.number, "Success") if self.kind == FAIR else (self.number, "Failed")
        if set(printed) - {str(own)}:
            return "foreign"
        return None if self.said["status"] == verdict and (printed or self.kind != FAIR) else "wrong"


def ask_all(host: str, port: int, clients: int, each: int, *, hostile: bool) -> list[Answer]:
    """Returns the answers to `each` programs of every client, one after another, over a connection for each program.

    With `hostile` every second program is hostile, at another turn for the next client.
    """

    def client(number: int) -> Sequence[Answer]:
        return [_ask(host, port, *_program(number, turn, hostile), number * each + turn + 1) for turn in range(each)]

    with ThreadPoolExecutor(clients) as threads:
        return [answer for answers in threads.map(client, range(clients)) for answer in answers]


def _program(client: int, turn: int, hostile: bool) -> tuple[str, str]:
    """Returns the kind of a program and its text."""
    if not hostile or (client + turn) % 2:
        return FAIR, "print(int(input()) * 2)"
    return list(HOSTILE.items())[(client // 2 + turn // 2) % len(HOSTILE)]


def _ask(host: str, port: int, kind: str, code: str, number: int) -> Answer:
    fields = {
        "code": code.replace("{n}", str(number)),
        "language": "python",
        "stdin": f"{number}\n",
        "run_timeout": _FAIR_S if kind == FAIR else _HOSTILE_S,
    }
    began = time.perf_counter()
    status, said = 0, None
    try:
        with contextlib.closing(http.client.HTTPConnection(host, port, timeout=120)) as connection:
            connection.request("POST", "/run_code", json.dumps(fields), {"Content-Type": "application/json"})
            answer = connection.getresponse()
            status, said = answer.status, json.loads(answer.read())
    except (OSError, http.client.HTTPException) as error:
        said = str(error)
    return Answer(kind=kind, number=number, status=status, said=said, wait_s=time.perf_counter() - began)
