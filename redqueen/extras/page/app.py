"""The page's addresses: the files of the page itself, and what it asks for as JSON."""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Mapping
from pathlib import Path

from starlette.applications import Starlette
from starlette.datastructures import Headers, MutableHeaders
from starlette.middleware import Middleware
from starlette.requests import Request
from starlette.responses import FileResponse, JSONResponse, PlainTextResponse, Response
from starlette.routing import BaseRoute, Mount, Route
from starlette.staticfiles import StaticFiles
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from redqueen.base.server import HOST, bind, serve
from redqueen.errors import UserError
from redqueen.extras.page.comparison import comparison
from redqueen.extras.page.headline import better
from redqueen.extras.page.live_run import Folder, LiveRun, UnknownError
from redqueen.extras.page.members import league, member, tree
from redqueen.extras.page.overview import overview
from redqueen.extras.page.state import settings, stamp_of, state
from redqueen.extras.page.tasks import browse, task_with_way
from redqueen.extras.page.views import evaluation, machine, matrix, operators
from redqueen.jail.service import is_local
from redqueen.store.files import damage_of, to_json

# Who may ask the page, and what a browser may do with it.

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


class PageGuard:
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


STATIC = Path(__file__).with_name("static")

View = Callable[[LiveRun, str, Mapping[str, str]], object]
"""(run, its title, query) -> JSON."""

VIEWS: dict[str, View] = {
    "state": lambda run, title, query: state(run, title),
    "overview": lambda run, title, query: overview(run),
    "stamp": lambda run, title, query: stamp_of(run),
    "evaluation": lambda run, title, query: evaluation(run),
    "league": lambda run, title, query: league(run),
    "matrix": lambda run, title, query: matrix(run),
    "tree": lambda run, title, query: tree(run),
    "operators": lambda run, title, query: operators(run),
    "machine": lambda run, title, query: machine(run),
    "settings": lambda run, title, query: settings(run),
    "tasks": lambda run, title, query: browse(run, query),
    "task": lambda run, title, query: task_with_way(run, query.get("id", "")),
    "member": lambda run, title, query: member(run, query.get("name", "")),
}
_NO_PAGES = ("state", "stamp", "overview")
PAGES = ("/", "/runs", "/compare", *(f"/{name}" for name in VIEWS if name not in _NO_PAGES))
"""What a browser's address bar may show. Each is the same file, whose script asks for the view's data."""


def make_app(folder: Folder) -> Starlette:
    """Returns the application that shows the runs of `folder`."""
    routes: list[BaseRoute] = [Route(path, _page) for path in PAGES]
    routes += [Route("/api/runs", _runs(folder)), Route("/api/compare", _compared(folder))]
    routes += [Route(f"/api/{name}", _view(folder, view)) for name, view in VIEWS.items()]
    routes.append(Mount("/static", StaticFiles(directory=STATIC)))
    return Starlette(
        routes=routes, middleware=[Middleware(PageGuard)], exception_handlers={404: _no_page, UserError: _refused}
    )


# The endpoints are ordinary functions, which Starlette runs in threads: a slow query does not hold up the others.
def _page(request: Request) -> Response:
    del request
    return FileResponse(STATIC / "index.html")


def _runs(folder: Folder) -> Callable[[Request], Response]:
    def answer(request: Request) -> Response:
        del request
        return _answer({"folder": str(folder.path), "runs": [_summary(folder, name) for name in folder.names()]})

    return answer


def _compared(folder: Folder) -> Callable[[Request], Response]:
    def answer(request: Request) -> Response:
        with damage_of(folder.path):
            return _answer(comparison(folder, request.query_params.getlist("with")))

    return answer


def _summary(folder: Folder, name: str) -> dict[str, object]:
    """Returns a run's line in the list of runs. A run that cannot be read says why, and does not hide the others."""
    try:
        with damage_of(folder.path / name):
            run = folder.run(name)
            now = state(run, folder.title(name))
            lines = run.lines()
            solved = lines[-1].get("solve_rate") if lines else None
            config = run.config()
            answer = better(lines, config.evals.every, config.run.steps)
            verdict = run.verdict()
            word = "" if verdict.too_short else verdict.word
            return {"name": name, **now, "better": answer["value"], "verdict": word, "solve_rate": solved}
    except UserError as error:
        return {"name": name, "title": folder.title(name), "error": str(error)}


def _view(folder: Folder, view: View) -> Callable[[Request], Response]:
    def answer(request: Request) -> Response:
        name = request.query_params.get("run", "")
        with damage_of(folder.path / name):
            return _answer(view(folder.run(name), folder.title(name), request.query_params))

    return answer


def _answer(data: object) -> Response:
    """Returns data as JSON that every browser reads, whatever numbers and texts are in it."""
    # A text of the archive may hold half of a pair of surrogates, which UTF-8 has no bytes for; ASCII has escapes.
    return Response(to_json(data), media_type="application/json")


async def _no_page(request: Request, error: Exception) -> Response:
    del error
    if request.url.path.startswith(("/api/", "/static/")):
        return JSONResponse({"error": f"there is no {request.url.path}"}, 404)
    return FileResponse(STATIC / "index.html", 404)


async def _refused(request: Request, error: Exception) -> Response:
    del request
    return JSONResponse({"error": str(error)}, 404 if isinstance(error, UnknownError) else 400)


# The command.


def run_watch(run: Path, port: int | None) -> int:
    """Serves the page until Ctrl-C; returns the exit code. Raises UserError if there is no run, or no free port."""
    folder = Folder(run)
    names = folder.names()
    listener = bind(port)
    what = str(run) if folder.single else f"{run}: {len(names)} {'run' if len(names) == 1 else 'runs'}"
    chosen = listener.getsockname()[1]
    print(f"watching {what}; Ctrl-C ends")
    print(f"from another machine: ssh -L {chosen}:{HOST}:{chosen} THIS_MACHINE, then the same address there")
    # Flushed, because a script that starts the command reads the address from a pipe.
    print(f"http://{HOST}:{chosen}/", flush=True)
    with contextlib.suppress(KeyboardInterrupt):
        serve(make_app(folder), listener)
    return 0
