"""`redqueen jail serve` over real sockets: one answer for each request, and nobody else's."""

from __future__ import annotations

import asyncio
import contextlib
import http.client
import time
import urllib.parse
from collections import Counter
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import pytest

from redqueen.errors import UserError
from redqueen.jail_service.app import make_app
from redqueen.jail_service.wire import Most
from redqueen.sandbox import PROGRAMS, Limits, Sandbox
from redqueen.web.server import bind
from tests.jail_service.served import post, python, service

CLIENTS = 64
EACH = 2
# Each says a number that nobody else says, and then does something that must hurt nobody.
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


@pytest.fixture(scope="module")
def url() -> Iterator[str]:
    with service("--seconds", "10", "--memory", "256") as address:
        yield address


@pytest.mark.integration
def test_64_clients_with_hostile_programs_get_their_own_answers(url: str) -> None:
    kinds = list(HOSTILE)

    def client(number: int) -> list[tuple[str, Any]]:
        found: list[tuple[str, Any]] = []
        for turn in range(EACH):
            # One in two is hostile, at another turn for each client.
            hostile = turn == number % EACH
            kind = kinds[(number // EACH) % len(kinds)] if hostile else "fair"
            secret = number * 1000 + turn
            code = HOSTILE[kind].replace("{n}", str(secret)) if hostile else "print(int(input()) * 2)"
            asked = python(code, stdin=f"{secret}\n", run_timeout=0.1 if hostile else 10)
            status, said = post(url, asked)
            assert status == 200, said
            if kind == "fair":
                assert (said["status"], said["run_result"]["stdout"]) == ("Success", f"{2 * secret}\n"), said
            else:
                assert said["status"] == "Failed", (kind, said)
                assert set(said["run_result"]["stdout"].split()) <= {str(secret)}, (kind, said)
            found.append((kind, said["run_result"]))
        return found

    started = time.perf_counter()
    with ThreadPoolExecutor(CLIENTS) as clients:
        answers = [each for found in clients.map(client, range(CLIENTS)) for each in found]
    print(f"{len(answers)} answers in {time.perf_counter() - started:.1f} s")
    counts = Counter(kind for kind, _ in answers)
    assert counts == {"fair": CLIENTS * (EACH - 1), **dict.fromkeys(kinds, CLIENTS // len(kinds))}
    by_kind = dict(answers)
    assert by_kind["loops"]["status"] == "TimeLimitExceeded"
    assert by_kind["leaves"]["return_code"] == 7
    assert "import of ctypes" in by_kind["forks"]["stderr"]
    assert "memory" in by_kind["fills memory"]["stderr"]


@pytest.mark.integration
def test_a_traceback_and_the_exit_code_come_back(url: str) -> None:
    status, said = post(url, python("import sys\nprint('so far')\nsys.stderr.write('a\\n')\n1 / 0"))
    run = said["run_result"]
    assert (status, said["status"], run["return_code"], run["stdout"]) == (200, "Failed", 1, "so far\n")
    assert run["stderr"].splitlines()[0] == "a"
    assert run["stderr"].splitlines()[-1] == "ZeroDivisionError: division by zero"
    assert 'File "<program>", line 4' in run["stderr"]


@pytest.mark.integration
def test_what_is_refused_is_a_4xx_that_says_why(url: str) -> None:
    assert post(url, python("", files={"a": ""})) == (422, {"detail": "files is refused: the jail has no files"})
    assert post(url, b"{")[0] == 400
    assert post(url, b"{}", **{"Content-Type": "text/plain"})[0] == 415
    assert post(url, python("print('\ud800')"))[1]["status"] == "Failed"
    assert post(url, python("\0"))[1]["status"] == "Failed"
    place = urllib.parse.urlparse(url)
    with contextlib.closing(http.client.HTTPConnection(place.hostname or "", place.port, timeout=60)) as connection:
        connection.request("GET", "/v1/ping")
        assert connection.getresponse().read() == b'"pong"'
        connection.request("POST", "/run_jupyter", b"{}")
        assert b"/run_jupyter is not served" in connection.getresponse().read()
        connection.request("GET", "/run_code")
        answer = connection.getresponse()
        assert (answer.status, answer.read()) == (405, b"Method Not Allowed")
        connection.putrequest("POST", "/run_code")
        connection.putheader("Content-Type", "application/json")
        connection.putheader("Content-Length", str(1 << 40))
        connection.endheaders()
        assert connection.getresponse().status == 413


Scope = dict[str, Any]


def scope(size: int) -> Scope:
    headers = [(b"content-type", b"application/json"), (b"content-length", str(size).encode())]
    return {"type": "http", "method": "POST", "path": "/run_code", "headers": headers, "query_string": b""}


async def ask(app: Any, body: bytes, gone: asyncio.Event) -> int:
    """The status of the answer to a request whose client goes at `gone`."""
    parts = [{"type": "http.request", "body": body, "more_body": False}]
    statuses: list[int] = []

    async def receive() -> Any:
        if parts:
            return parts.pop()
        await gone.wait()
        return {"type": "http.disconnect"}

    async def send(message: Any) -> None:
        statuses.append(message.get("status", 0))

    await app(scope(len(body)), receive, send)
    return statuses[0]


def test_a_full_queue_is_a_504_and_clients_that_go_leave_it() -> None:
    limits = Limits(cpu_s=5.0, wall_s=120.0, memory_mb=64, output_bytes=PROGRAMS.limits.output_bytes)
    loop = b'{"language": "python", "code": "while True: pass", "run_timeout": 0.2}'
    fair = b'{"language": "python", "code": "print(1)"}'

    async def play(app: Any) -> tuple[int, int, int, int]:
        stays, goes = asyncio.Event(), asyncio.Event()
        first = asyncio.ensure_future(ask(app, loop, stays))
        second = asyncio.ensure_future(ask(app, loop, goes))
        await asyncio.sleep(0)
        while not first.done() and await ask(app, fair, stays) != 504:
            await asyncio.sleep(0.01)
        full = await ask(app, fair, stays)
        goes.set()
        left = await second
        ended = await first
        return full, left, ended, await ask(app, fair, stays)

    with Sandbox(PROGRAMS.with_limits(limits), workers=1) as sandbox:
        app = make_app(sandbox, Most(seconds=5.0, memory_mb=64), waiting=2)
        assert asyncio.run(play(app)) == (504, 499, 200, 200)


def test_an_address_that_is_not_ours_is_one_line() -> None:
    with pytest.raises(UserError, match=r"cannot listen on 203\.0\.113\.9"):
        bind(0, "203.0.113.9")
