"""Who may ask the page, and what a browser may do with it."""

from __future__ import annotations

from starlette.datastructures import Headers, MutableHeaders
from starlette.responses import PlainTextResponse
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from redqueen.jail.service.hosts import is_local

_HEADERS = {
    # No script, style or picture but the page's own files, no form, no frame, no plug-in. Scripts in a page's text
    # would not run even if a text got into the markup.
    "Content-Security-Policy": (
        "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self'; connect-src 'self'; "
        "base-uri 'none'; form-action 'none'; frame-ancestors 'none'"
    ),
    "X-Content-Type-Options": "nosniff",
    "Referrer-Policy": "no-referrer",
    "Cross-Origin-Resource-Policy": "same-origin",
    # A file of an older version must not meet the answers of a newer one. The files are small and near.
    "Cache-Control": "no-cache",
}


class Guard:
    """Refuses foreign hosts and everything but reading, and adds the headers that confine the page."""

    def __init__(self, app: ASGIApp) -> None:
        self.app = app

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] != "http":
            return

        async def send_confined(message: Message) -> None:
            if message["type"] == "http.response.start":
                MutableHeaders(scope=message).update(_HEADERS)
            await send(message)

        if not is_local(Headers(scope=scope).get("host", "")):
            # Otherwise a page elsewhere could give its own name this machine's address (DNS rebinding), and its script
            # could read the run.
            refusal = PlainTextResponse("redqueen watch answers only to 127.0.0.1, localhost and [::1]\n", 421)
            await refusal(scope, receive, send_confined)
        elif scope["method"] not in ("GET", "HEAD"):
            refusal = PlainTextResponse("redqueen watch only reads\n", 405, {"Allow": "GET, HEAD"})
            await refusal(scope, receive, send_confined)
        else:
            await self.app(scope, receive, send_confined)
