"""`redqueen jail serve` over real sockets: one answer for each request, and nobody else's."""

from __future__ import annotations

import asyncio
import contextlib
import http.client
import json
import urllib.parse
from collections import Counter
from collections.abc import Iterator
from typing import Any

import pytest

from benchmarks.service_clients import FAIR, HOSTILE, Answer, ask_all
from redqueen.base.server import bind
from redqueen.errors import UserError
from redqueen.jail import PROGRAMS, Limits, Outcome, Sandbox
from redqueen.jail.service import RequestLimits, WireError, answer, encoded, make_app, read_request
from tests.jail.served import post, python, service

CLIENTS = 64


@pytest.fixture(scope="module")
def url() -> Iterator[str]:
    with service("--seconds", "10", "--memory", "256") as address:
        yield address


@pytest.mark.slow
@pytest.mark.integration
def test_64_clients_with_hostile_programs_get_their_own_answers(url: str) -> None:
    place = urllib.parse.urlparse(url)
    answers = ask_all(place.hostname or "", place.port or 0, CLIENTS, 2, hostile=True)
    assert [answer for answer in answers if answer.fault] == []
    counts = Counter(answer.kind for answer in answers)
    assert counts == {FAIR: CLIENTS, **dict.fromkeys(HOSTILE, CLIENTS // len(HOSTILE))}
    by_kind = {answer.kind: answer.said["run_result"] for answer in answers}
    assert by_kind["loops"]["status"] == "TimeLimitExceeded"
    assert by_kind["leaves"]["return_code"] == 7
    assert "import of ctypes" in by_kind["forks"]["stderr"]
    assert "memory" in by_kind["fills memory"]["stderr"]


def test_what_is_wrong_with_an_answer_is_seen() -> None:
    def fault(kind: str, status: str, stdout: str, http: int = 200) -> str | None:
        said = {"status": status, "run_result": {"stdout": stdout}}
        return Answer(kind=kind, number=7, status=http, said=said, wait_s=0.1).fault

    assert fault(FAIR, "Success", "14\n") is None
    assert fault(FAIR, "Success", "16\n") == "foreign"
    assert fault(FAIR, "Failed", "") == fault(FAIR, "Success", "") == "wrong"
    assert fault("leaves", "Failed", "7\n") is fault("dies", "Failed", "") is None
    assert fault("loops", "Failed", "9\n") == "foreign"
    assert fault("loops", "Success", "7\n") == "wrong"
    assert fault(FAIR, "", "", http=504) == "lost"


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
        assert b"'/run_jupyter' is not served" in connection.getresponse().read()
        connection.request("GET", "/%1b[2J")
        assert b"'/\\x1b[2J' is not served" in connection.getresponse().read()
        connection.request("GET", "/run_code")
        answer = connection.getresponse()
        assert (answer.status, answer.read()) == (405, b"Method Not Allowed")
        connection.putrequest("POST", "/run_code")
        connection.putheader("Content-Type", "application/json")
        connection.putheader("Content-Length", str(1 << 40))
        connection.endheaders()
        assert connection.getresponse().status == 413


@pytest.mark.integration
def test_no_page_of_a_browser_runs_a_program(url: str) -> None:
    program = python("print(1)")
    assert post(url, program, Host="evil.example")[0] == 421
    assert post(url, program, Host="127.0.0.1.evil.example:80")[0] == 421
    # A page of this machine is a page too.
    for origin in ("http://evil.example", "null", "http://127.0.0.1:8642"):
        status, said = post(url, program, Origin=origin)
        assert (status, said["detail"].partition(":")[0]) == (403, "a request with an Origin is a page's")
    for host in ("localhost", "LOCALHOST:1", "127.0.0.1", "[::1]:9000"):
        assert post(url, program, Host=host)[0] == 200


Scope = dict[str, Any]


def scope(size: int) -> Scope:
    headers = [(b"content-type", b"application/json"), (b"content-length", str(size).encode()), (b"host", b"[::1]:80")]
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
        app = make_app(sandbox, RequestLimits(seconds=5.0, memory_mb=64), waiting=2, local=True)
        assert asyncio.run(play(app)) == (504, 499, 200, 200)


def test_half_requests_hold_no_place_and_no_bytes_that_they_did_not_send(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("redqueen.jail.service.MOST_BODIES", 200)
    fair = b'{"language": "python", "code": "print(1)"}'

    async def half(app: Any, announced: int, sent: bytes, go_on: asyncio.Event) -> int:
        parts: list[Any] = [{"type": "http.request", "body": sent, "more_body": True}]
        statuses: list[int] = []

        async def receive() -> Any:
            if parts:
                return parts.pop()
            await go_on.wait()
            return {"type": "http.disconnect"}

        async def send(message: Any) -> None:
            statuses.append(message.get("status", 0))

        await app(scope(announced), receive, send)
        return statuses[0]

    async def play(app: Any) -> tuple[list[int], list[int]]:
        never, go_on = asyncio.Event(), asyncio.Event()
        halves = [asyncio.ensure_future(half(app, 190, b"{", go_on)) for _ in range(9)]
        await asyncio.sleep(0)
        during = [await ask(app, fair, never) for _ in range(2)]
        # What was sent counts, until its client goes.
        halves.append(asyncio.ensure_future(half(app, 190, b" " * 180, go_on)))
        await asyncio.sleep(0)
        during.append(await ask(app, fair, never))
        go_on.set()
        left = await asyncio.gather(*halves)
        return [*during, await ask(app, fair, never)], left

    with Sandbox(PROGRAMS, workers=1) as sandbox:
        app = make_app(sandbox, RequestLimits(seconds=5.0, memory_mb=64), waiting=2, local=True)
        assert asyncio.run(play(app)) == ([200, 200, 504, 200], [408] * 10)


def test_an_address_that_is_not_ours_is_one_line() -> None:
    with pytest.raises(UserError, match=r"cannot listen on 203\.0\.113\.9"):
        bind(0, "203.0.113.9")


# SandboxFusion's wire without a network: what is asked for, what is refused, and what an outcome is called.

MOST = RequestLimits(seconds=20.0, memory_mb=1024)


def asked(**fields: Any) -> bytes:
    return json.dumps({"code": "print(1)", "language": "python", **fields}).encode()


def limits(**fields: Any) -> Limits:
    found = read_request(asked(**fields), MOST).limits
    assert found is not None
    return found


def test_a_request_says_what_its_program_may_use() -> None:
    assert (limits().cpu_s, limits().memory_mb) == (10.0, 1024)
    assert (limits(run_timeout=3).cpu_s, limits(memory_limit_MB=64).memory_mb) == (3.0, 64)
    assert limits(run_timeout=None, memory_limit_MB=-1) == limits()
    assert limits(run_timeout=3).wall_s == 11.0


def test_fields_that_are_empty_are_as_good_as_absent() -> None:
    whole = {"files": {}, "fetch_files": [], "args": [], "stdin": None, "compile_timeout": 10, "later": None}
    assert read_request(asked(**whole), MOST) == read_request(asked(), MOST)


@pytest.mark.parametrize(
    ("fields", "said"),
    [
        ({"language": "cpp"}, 'language is "cpp", and this service runs python only'),
        ({"language": None}, "language is null"),
        ({"files": {"a.txt": "YQ=="}}, "files is refused: the jail has no files"),
        ({"fetch_files": ["a"]}, "fetch_files is refused"),
        ({"args": ["-k"]}, "args is refused"),
        ({"later": 1}, '"later" is unknown'),
        ({"code": 3}, "code must be a text, not 3"),
        ({"code": None}, "code must be a text"),
        ({"stdin": ["a"]}, "stdin must be a text, not a list"),
        ({"run_timeout": 0}, "run_timeout must be a number of seconds above 0, not 0"),
        ({"run_timeout": "3"}, "run_timeout must be"),
        ({"run_timeout": True}, "run_timeout must be"),
        ({"run_timeout": float("nan")}, "run_timeout must be"),
        ({"run_timeout": 10**400}, "run_timeout must be"),
        ({"run_timeout": 21}, "at most 20 here: start the service with --seconds 21"),
        ({"compile_timeout": -1}, "compile_timeout must be"),
        ({"memory_limit_MB": 0}, "memory_limit_MB must be"),
        ({"memory_limit_MB": 2048}, "at most 1024 here"),
    ],
)
def test_everything_else_is_refused_by_name(fields: dict[str, Any], said: str) -> None:
    with pytest.raises(WireError, match=said.replace("(", r"\(")) as refused:
        read_request(asked(**fields), MOST)
    assert refused.value.status == 422


@pytest.mark.parametrize("body", [b"", b"{", b"[1]", b"\xff\xfe", b"[" * 100_000, b'{"run_timeout": ' + b"9" * 5000])
def test_a_body_that_is_no_request_is_refused(body: bytes) -> None:
    with pytest.raises(WireError) as refused:
        read_request(body, MOST)
    assert refused.value.status == 400


def test_a_fault_of_the_machine_is_the_sandboxs_error_and_no_result() -> None:
    said = answer(Outcome(status="infra_error", detail="the zygote ended"))
    assert (said["status"], said["message"], said["run_result"]) == ("SandboxError", "the zygote ended", None)


@pytest.mark.parametrize(
    ("outcome", "status", "run"),
    [
        (Outcome(status="ok", outputs=("('7\\n', '', 0)",), cpu_ms=2.0), "Success", ("Finished", 0, "7\n", "")),
        (Outcome(status="ok", outputs=("('', 'no', 3)",)), "Failed", ("Finished", 3, "", "no")),
        (Outcome(status="timeout", detail="CPU"), "Failed", ("TimeLimitExceeded", None, "", "CPU")),
        (Outcome(status="memory", detail="MemoryError"), "Failed", ("Finished", 1, "", "memory: MemoryError")),
        (Outcome(status="ok", outputs=("7",)), "Failed", ("Finished", 1, "", "ok: not one well-formed result")),
    ],
)
def test_every_outcome_has_a_name_on_the_wire(outcome: Outcome, status: str, run: tuple[Any, ...]) -> None:
    said = answer(outcome)
    assert said["status"] == status
    assert tuple(said["run_result"][name] for name in ("status", "return_code", "stdout", "stderr")) == run


def test_a_text_that_is_no_unicode_can_be_sent() -> None:
    assert json.loads(encoded({"stdout": "\ud800"})) == {"stdout": "\ud800"}
