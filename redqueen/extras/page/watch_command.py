"""`redqueen watch`: a page in the browser that follows a run."""

# No import here may load torch or matplotlib: the page is there at once (see `redqueen.cli.app`).

from __future__ import annotations

import contextlib
from pathlib import Path

from redqueen.base.server import HOST, bind, serve
from redqueen.extras.page.app import make_app
from redqueen.extras.page.folder import Folder


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
