"""The page, served to a browser."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import uvicorn

from redqueen.base.server import bind
from redqueen.extras.page.app import make_app
from redqueen.extras.page.live_run import Folder


@contextmanager
def served(folder: Path) -> Iterator[str]:
    """Serves the page in a thread; returns its address."""
    listener = bind(0)
    config = uvicorn.Config(make_app(Folder(folder)), log_level="error", lifespan="off", ws="none")
    server = uvicorn.Server(config)
    thread = threading.Thread(target=server.run, kwargs={"sockets": [listener]})
    thread.start()
    try:
        yield f"http://127.0.0.1:{listener.getsockname()[1]}"
    finally:
        server.should_exit = True
        thread.join()
