"""The page's addresses: the files of the page itself, and what it asks for as JSON."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict
from itertools import chain
from pathlib import Path
from statistics import fmean
from typing import Any

from starlette.applications import Starlette
from starlette.datastructures import Headers, MutableHeaders
from starlette.middleware import Middleware
from starlette.requests import Request
from starlette.responses import FileResponse, JSONResponse, PlainTextResponse, Response
from starlette.routing import BaseRoute, Mount, Route
from starlette.staticfiles import StaticFiles
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from redqueen.base.intervals import interval, mean
from redqueen.errors import UserError
from redqueen.extras.page.comparison import comparison
from redqueen.extras.page.folder import Folder, UnknownError
from redqueen.extras.page.headline import better
from redqueen.extras.page.live_run import LiveRun
from redqueen.extras.page.members import league, member, tree
from redqueen.extras.page.overview import overview, panel_json
from redqueen.extras.page.settings import settings
from redqueen.extras.page.state import stamp_of, state
from redqueen.extras.page.task import task_with_way
from redqueen.extras.page.tasks import browse
from redqueen.extras.page.views import evaluation, matrix
from redqueen.jail.service.app import is_local
from redqueen.run.recording.metrics.panel import Curves, Line, MetricChart, by_key, column, named, part
from redqueen.store.files import damage_of, to_json
from redqueen.store.lineage import Life, lives_in

# What the machine did: speed, use of the device and memory, phase by phase, from `throughput` in metrics.jsonl.


def _chart(key: str, title: str, unit: str, note: str) -> MetricChart:
    def curves(lines: Sequence[Line], name: str) -> Curves:
        # A phase that does nothing of the kind has zeros.
        return {phase: values for phase, values in part(key)(lines, name).items() if any(values)}

    return MetricChart(f"machine-{key.replace('_', '-')}", title, note, curves, unit)


def _of_main_process(lines: Sequence[Line], name: str) -> Curves:
    # The most so far is the same for all phases of a step, but for those before it grew.
    def most(line: Line) -> float | None:
        found = [phase.get("host_gib") for phase in (line.get(name) or {}).values()]
        return max((value for value in found if value is not None), default=None)

    return {"main process": tuple(map(most, lines))}


_CHARTS = (
    _chart("sampled_per_second", "Tokens sampled a second", "tokens / s", "Tokens sampled in a second of sampling."),
    _chart(
        "trained_rows_per_second",
        "Tokens trained a second",
        "tokens / s",
        "Tokens through the model in a second of training, those of prompts included.",
    ),
    _chart(
        "decode_rows",
        "Rows of a decode step",
        "rows",
        "Mean number of texts that are written at the same time. More of them use a GPU better.",
    ),
    _chart(
        "mfu",
        "Use of the device",
        "share",
        "Model FLOPs over what the device could do in bf16 in the same time (MFU). Unknown where its peak is.",
    ),
    _chart("device_gib", "Memory of the GPU", "GiB", "The most that tensors had on the GPU in the phase."),
    MetricChart(
        "machine-host-gib",
        "Memory of the main process",
        "The most that the run's main process has had so far.",
        _of_main_process,
        "GiB",
    ),
    _chart("prompt_tokens", "Prompt tokens", "tokens", "Tokens of prompts that were computed for sampling."),
)
_SECONDS = MetricChart("machine-step-seconds", "Seconds of a step", "Wall time by phase.", by_key, "seconds")
_ENVIRONMENT = ("gpu", "processor", "cores", "device", "dtype", "threads")


def machine(run: LiveRun) -> dict[str, object]:
    """Returns the charts, a row for each phase, and what the run says of its machine."""
    lines = run.lines()
    environment = run.environment()
    drawn = [chart.panel(lines, "throughput", "machine", "") for chart in _CHARTS]
    drawn.append(_SECONDS.panel(lines, "seconds", "machine", ""))
    return {
        "phases": _phases(lines),
        "machine": [(name, str(environment[name])) for name in _ENVIRONMENT if environment.get(name) is not None],
        "panels": [panel_json(panel) for panel in drawn if panel.curves],
    }


def _phases(lines: Sequence[Line]) -> list[dict[str, object]]:
    """Returns the means of each phase over the last quarter of the steps, and its share of their time."""
    quarter = lines[-max(1, len(lines) // 4) :]
    total = sum(value or 0 for value in column(quarter, "seconds", "total"))
    rows: list[dict[str, object]] = []
    for phase in named(quarter, "seconds"):
        if phase == "total":
            continue
        seconds = column(quarter, "seconds", phase)
        share = sum(value or 0 for value in seconds) / total if total else None
        rows.append({"phase": phase, "seconds": mean(seconds), "share": share})
    return rows


# Which operators' children did well: each operator's births, beside the parents that they came from.

CONTROLS = ("copy_parent", "linear_mean", "fresh")
"""The operators that all others have to beat, as in `redqueen.method.operators`, which needs torch."""


def operators(run: LiveRun) -> dict[str, object]:
    """Returns a row for each role and operator that made a child, the best first, with all its children."""
    with run.archive() as archive:
        everybody = lives_in(archive)
    born = [life for life in everybody if life.parents]
    parents = set(chain.from_iterable(life.parents for life in born))
    gains = _held_out(run.lines())
    groups: dict[tuple[str, str], list[Life]] = {}
    for life in born:
        groups.setdefault((life.role, life.operator), []).append(life)
    rows = [_row(role, operator, children, parents, gains) for (role, operator), children in groups.items()]
    return {"rows": sorted(rows, key=lambda row: (row["role"] != "teacher", -_order(row["change"])))}


def _row(
    role: str, operator: str, children: Sequence[Life], parents: set[str], gains: Mapping[str, float]
) -> dict[str, Any]:
    changes = {life.name: change for life in children if (change := _change(life)) is not None}
    gained = interval(list(changes.values()))
    held_out = [gains[life.name] for life in children if life.name in gains]
    return {
        "role": role,
        "operator": operator,
        "control": operator in CONTROLS,
        "children": [
            {"name": life.name, "change": changes.get(life.name), "lives": life.died is None, "born": life.born}
            for life in children
        ],
        "living": sum(life.died is None for life in children),
        "parents": sum(life.name in parents for life in children),
        "age": fmean(life.age for life in children),
        "change": None if gained is None else asdict(gained),
        "held_out": mean(held_out),
    }


def _change(life: Life) -> float | None:
    """Returns a child's last fitness less that of its fitter parent at the birth."""
    before = life.parent_fitness[0] if life.parent_fitness else None
    return None if before is None or life.last is None or not life.games else life.last - before


def _held_out(lines: Sequence[Mapping[str, Any]]) -> dict[str, float]:
    """Returns the last known gain of each student on held-out problems."""
    gains: dict[str, float] = {}
    for line in lines:
        scores: Mapping[str, Any] = (line.get("held_out") or {}).get("students") or {}
        gains.update({name: score["gain"] for name, score in scores.items()})
    return gains


def _order(change: Mapping[str, float] | None) -> float:
    return float("-inf") if change is None else change["mean"]


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


# The endpoints are ordinary functions, which Starlette runs in threads: a slow query holds up nobody else.
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
            answer = better(lines, run.config().evals.every)
            word = run.verdict().word
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
