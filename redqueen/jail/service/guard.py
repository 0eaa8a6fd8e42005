"""Refuses what comes from a page in somebody's browser: no page may run programs here."""

from __future__ import annotations

from starlette.datastructures import Headers
from starlette.responses import JSONResponse
from starlette.types import ASGIApp, Receive, Scope, Send

from redqueen.jail.service.hosts import is_local


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
