"""Answers requests: one job each, a bounded number of them, and nothing is run for a client that has gone."""

from __future__ import annotations

import asyncio
import ipaddress
import threading
from concurrent.futures import Future

from starlette.applications import Starlette
from starlette.datastructures import Headers
from starlette.requests import ClientDisconnect, Request
from starlette.responses import JSONResponse, PlainTextResponse, Response
from starlette.routing import Route
from starlette.types import ASGIApp, Receive, Scope, Send

from redqueen.jail import Outcome, Sandbox
from redqueen.jail.service.wire import RequestLimits, WireError, answer, encoded, read_request

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
