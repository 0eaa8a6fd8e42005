"""The jail over HTTP: SandboxFusion's `POST /run_code`, for Python (docs/JAIL.md). One job for each request."""

from __future__ import annotations

import asyncio
import ipaddress
import json
import threading
from collections.abc import Mapping
from concurrent.futures import Future
from dataclasses import dataclass, replace
from typing import Any, cast

from starlette.applications import Starlette
from starlette.datastructures import Headers
from starlette.requests import ClientDisconnect, Request
from starlette.responses import JSONResponse, PlainTextResponse, Response
from starlette.routing import Route
from starlette.types import ASGIApp, Receive, Scope, Send

from redqueen.jail import Outcome, Sandbox
from redqueen.jail.job import Job
from redqueen.jail.judging import PROGRAMS, printed, script_job

# SandboxFusion's wire: what a request asks for, and what an outcome is called there. No network is in this file.
#
# Source: bytedance/SandboxFusion, `sandbox/server/sandbox_api.py` and `sandbox/runners/types.py`.

RUN_TIMEOUT_S = 10.0
"""What a request gets that does not say: SandboxFusion's own default."""
PATIENCE_S = 5.0
"""The wall-clock limit is twice the CPU limit and this. verl waits for `compile_timeout + run_timeout + 10`."""

# A number above these is a mistake.
_LONGEST_S = 1e6
_LARGEST_MB = 1 << 24

# Fields of the wire that this service cannot do. No answer is lost if they are empty.
_REFUSED = {"files": "the jail has no files", "fetch_files": "the jail has no files", "args": "they are for pytest"}
_KNOWN = frozenset(["code", "language", "stdin", "run_timeout", "compile_timeout", "memory_limit_MB", *_REFUSED])


class WireError(Exception):
    """A request that is not answered; the message says why and what to do."""

    def __init__(self, message: str, status: int = 422) -> None:
        super().__init__(message)
        self.status = status


@dataclass(frozen=True, slots=True, kw_only=True)
class RequestLimits:
    """The most that one request may ask for."""

    seconds: float = 60.0
    """CPU seconds."""
    memory_mb: int = 2048


def read_request(body: bytes, most: RequestLimits) -> Job:
    """Returns the job that a request asks for. Raises WireError."""
    try:
        fields = json.loads(body)
    # Numbers of more than 4,300 digits are a ValueError too.
    except (ValueError, RecursionError) as error:
        raise WireError(f"the body is not JSON: {str(error)[:100]}", 400) from None
    if not isinstance(fields, dict):
        raise WireError("the body is not a JSON object", 400)
    asked = cast("dict[str, Any]", fields)
    language = asked.get("language")
    if language != "python":
        raise WireError(f"language is {_shown(language)}, and this service runs python only")
    for name, value in asked.items():
        if name not in _KNOWN and not _is_empty(value):
            raise WireError(f"{_shown(name)} is unknown to this service: leave it out")
        if name in _REFUSED and not _is_empty(value):
            raise WireError(f"{name} is refused: {_REFUSED[name]}")
    seconds = _seconds(asked, "run_timeout", most.seconds)
    # Nothing is compiled apart from running it, but a wrong value is a mistake of the caller all the same.
    _seconds(asked, "compile_timeout", _LONGEST_S)
    limits = replace(
        PROGRAMS.limits, cpu_s=seconds, wall_s=2 * seconds + PATIENCE_S, memory_mb=_memory_mb(asked, most.memory_mb)
    )
    return script_job(_text(asked, "code"), _text(asked, "stdin", optional=True), limits)


def answer(outcome: Outcome) -> dict[str, Any]:
    """Returns the response for an outcome."""
    if outcome.status == "infra_error":
        return _response("SandboxError", outcome.detail, None)
    wrote = printed(outcome)
    run: dict[str, Any] = {
        "status": "Finished",
        "execution_time": outcome.cpu_ms / 1000,
        "return_code": 1,
        "stdout": "",
        "stderr": "",
    }
    if wrote is not None:
        run |= {"return_code": wrote.code, "stdout": wrote.stdout, "stderr": wrote.stderr}
    elif outcome.status == "timeout":
        # What it printed until then is lost with its process.
        run |= {"status": "TimeLimitExceeded", "return_code": None, "stderr": outcome.detail}
    else:
        run["stderr"] = f"{outcome.status}: {outcome.detail or 'not one well-formed result'}"
    return _response("Success" if run["return_code"] == 0 else "Failed", "", run)


def encoded(value: object) -> bytes:
    """Returns JSON as bytes. Texts of a program may hold halves of surrogate pairs, which UTF-8 does not know."""
    return json.dumps(value, ensure_ascii=True).encode("ascii")


def _response(status: str, message: str, run: Mapping[str, Any] | None) -> dict[str, Any]:
    return {
        "status": status,
        "message": message,
        "compile_result": None,
        "run_result": run,
        "executor_pod_name": None,
        "files": {},
    }


def _text(asked: Mapping[str, Any], name: str, *, optional: bool = False) -> str:
    value = asked.get(name)
    if value is None and optional:
        return ""
    if not isinstance(value, str):
        raise WireError(f"{name} must be a text, not {_shown(value)}")
    return value


def _seconds(asked: Mapping[str, Any], name: str, most: float) -> float:
    value = asked.get(name)
    if value is None:
        return min(RUN_TIMEOUT_S, most)
    if not _is_number(value) or not 0 < value <= _LONGEST_S:
        raise WireError(f"{name} must be a number of seconds above 0, not {_shown(value)}")
    if value > most:
        raise WireError(f"{name} is {value:g}, and at most {most:g} here: start the service with --seconds {value:g}")
    return float(value)


def _memory_mb(asked: Mapping[str, Any], most: int) -> int:
    value = asked.get("memory_limit_MB")
    # -1 is SandboxFusion's word for no limit.
    if value is None or value == -1:
        return most
    if not _is_number(value) or not 1 <= value <= _LARGEST_MB:
        raise WireError(f"memory_limit_MB must be a number from 1 on, or -1, not {_shown(value)}")
    if value > most:
        raise WireError(f"memory_limit_MB is {value:g}, and at most {most} here: start the service with --memory N")
    return int(value)


def _is_number(value: object) -> bool:
    return isinstance(value, int | float) and not isinstance(value, bool)


def _is_empty(value: object) -> bool:
    return value is None or value in ("", [], {})


def _shown(value: object) -> str:
    if isinstance(value, list | dict):
        return "a list" if isinstance(value, list) else "an object"
    text = json.dumps(value[:60] if isinstance(value, str) else value)
    return text if len(text) <= 60 else f"{text[:57]}..."


# Which hosts are this machine: what a server that listens here alone answers to.

# A tunnel (`ssh -L 9000:127.0.0.1:8642`) changes the port, so every port is allowed.
_HOSTS = frozenset({"127.0.0.1", "localhost", "[::1]"})


def is_local(host: str) -> bool:
    """Returns whether a Host header names this machine, with any port or none."""
    name, colon, port = host.rpartition(":")
    # "[::1]" without a port has colons too; what is behind the last one is then no number.
    if not colon or not port.isascii() or not port.isdigit():
        name = host
    return name.lower() in _HOSTS


def is_loopback(address: str) -> bool:
    """Returns whether only this machine reaches what listens on an address."""
    try:
        return ipaddress.ip_address(address).is_loopback
    except ValueError:
        return address.lower() == "localhost"


# Refuses what comes from a page in somebody's browser: no page may run programs here.


class Guard:
    """Refuses requests of browsers' pages and, where only this machine can ask, those for a foreign host."""

    def __init__(self, app: ASGIApp, *, local: bool) -> None:
        self.app = app
        self.local = local

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        headers = Headers(scope=scope)
        # A page elsewhere can give its own name this machine's address (DNS rebinding). Then its requests may be JSON,
        # and it reads the answers; but they name that host, and the browser adds their origin.
        if "origin" in headers:
            refused = JSONResponse({"detail": "a request with an Origin is a page's: none may run programs here"}, 403)
            await refused(scope, receive, send)
        elif self.local and not is_local(headers.get("host", "")):
            detail = "this service answers only to 127.0.0.1, localhost and [::1]: ask it by one of these names"
            refused = JSONResponse({"detail": detail}, 421)
            await refused(scope, receive, send)
        else:
            await self.app(scope, receive, send)


MOST_BODY = 16 << 20
"""Bytes of one request."""
MOST_BODIES = 256 << 20
"""Bytes of all requests that wait or run."""
MOST_WAITING = 512
"""Requests that wait or run. The sandbox's own queue is longer, so that handing in a job never waits."""
BODY_S = 30.0
"""How long a client may take to send its request."""


def make_app(sandbox: Sandbox, most: RequestLimits, waiting: int = MOST_WAITING, *, local: bool) -> ASGIApp:
    """Returns the application. Its owner closes the sandbox, which is of the profile `PROGRAMS`.

    `local` says whether only this machine can ask.
    """
    service = _Service(sandbox, most, _Room(waiting, MOST_BODIES))
    routes = [Route("/run_code", service.run_code, methods=["POST"]), Route("/v1/ping", _ping, methods=["GET"])]
    return Guard(Starlette(routes=routes, exception_handlers={404: _not_found}), local=local)


class _Service:
    """The one thing that is served."""

    def __init__(self, sandbox: Sandbox, most: RequestLimits, room: _Room) -> None:
        self._sandbox = sandbox
        self._most = most
        self._room = room

    async def run_code(self, request: Request) -> Response:
        try:
            body = await self._body(request, _size(request))
            try:
                job = read_request(body, self._most)
                self._room.take(0, places=1)
            except BaseException:
                self._room.give_back(len(body))
                raise
        except WireError as error:
            return _json({"detail": str(error)}, error.status)
        except (ClientDisconnect, TimeoutError):
            return _json({"detail": f"the request did not arrive within {BODY_S:g} s"}, 408)
        future = self._sandbox.submit(job)
        # Its place is free when the job is done, and not when its client has gone: a job that runs goes on.
        future.add_done_callback(lambda _: self._room.give_back(len(body), places=1))
        outcome = await _unless_gone(request, future)
        # The answer to a client that has gone is not read.
        return Response(status_code=499) if outcome is None else _json(answer(outcome))

    async def _body(self, request: Request, size: int) -> bytes:
        """Returns a request's body, whose bytes are then taken.

        Raises WireError if they are too many, TimeoutError or ClientDisconnect if they do not come.
        """
        body = bytearray()
        try:
            async with asyncio.timeout(BODY_S):
                async for chunk in request.stream():
                    # What was only announced takes nothing: a client that sends no more holds up no other.
                    self._room.take(len(chunk))
                    body += chunk
                    if len(body) > size:
                        raise WireError("the request is longer than it said", 400)
        except BaseException:
            self._room.give_back(len(body))
            raise
        return bytes(body)


class _Room:
    """Counts requests that are there, and the bytes of all. Where there is no more room it raises WireError."""

    def __init__(self, places: int, size: int) -> None:
        self._places = places
        self._bytes = size
        # Places are given back by the sandbox's threads.
        self._lock = threading.Lock()

    def take(self, size: int, places: int = 0) -> None:
        """Takes room for bytes that have come, or the place of a request that has come."""
        with self._lock:
            if self._bytes < size or self._places < places:
                # 504 and not 503: verl's client tries again after a 504, and calls the program wrong after any other.
                raise WireError("too many requests wait already: send this one again later", 504)
            self._bytes -= size
            self._places -= places

    def give_back(self, size: int, places: int = 0) -> None:
        with self._lock:
            self._bytes += size
            self._places += places


def _size(request: Request) -> int:
    """Returns how many bytes a request says it has. Raises WireError if it is no request for this service."""
    # A page in somebody's browser may send text to this machine without asking, but not JSON.
    if request.headers.get("content-type", "").partition(";")[0].strip().lower() != "application/json":
        raise WireError("Content-Type must be application/json", 415)
    text = request.headers.get("content-length", "")
    if not text.isascii() or not text.isdigit():
        raise WireError("Content-Length is missing", 411)
    size = int(text)
    if size > MOST_BODY:
        raise WireError(f"the request has {size} bytes, and at most {MOST_BODY} are taken", 413)
    return size


async def _unless_gone(request: Request, future: Future[Outcome]) -> Outcome | None:
    """Returns the outcome; None if the client goes before it, and the job is then not begun if it waits still."""
    outcome = asyncio.wrap_future(future)
    # After the body the next message is that the client has gone.
    gone = asyncio.ensure_future(request.receive())
    try:
        await asyncio.wait({outcome, gone}, return_when=asyncio.FIRST_COMPLETED)
        if outcome.done():
            return outcome.result()
        future.cancel()
        return None
    finally:
        gone.cancel()
        # Without this an outcome that no client waits for any more would be reported as an error.
        outcome.cancel()


def _json(value: object, status: int = 200) -> Response:
    return Response(encoded(value), status, media_type="application/json")


async def _ping(request: Request) -> Response:
    del request
    return _json("pong")


async def _not_found(request: Request, error: Exception) -> Response:
    del error
    # A path may hold anything; quoted, it cannot change the terminal of its reader.
    path = ascii(request.url.path)
    message = f"{path} is not served: POST /run_code runs Python, and nothing else of SandboxFusion is here\n"
    return PlainTextResponse(message, 404)
