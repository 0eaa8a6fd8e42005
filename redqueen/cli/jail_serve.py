"""`redqueen jail serve`: the jail over HTTP, with SandboxFusion's wire."""

# No import here may load torch: the service runs where nothing is trained (see `redqueen.cli.app`).

from __future__ import annotations

import contextlib

from redqueen.base.server import bind, serve
from redqueen.jail import Sandbox
from redqueen.jail.judging import PROGRAMS
from redqueen.jail.service import RequestLimits, is_loopback, make_app


def run_jail_serve(host: str, port: int, workers: int | None, most: RequestLimits, *, unsafe: bool) -> int:
    """Serves until Ctrl-C; returns the exit code.

    Raises UserError if the port is taken, or IsolationError if this machine cannot isolate a program.
    """
    listener = bind(port, host)
    with Sandbox(PROGRAMS, workers, allow_unsafe=unsafe) as sandbox:
        print(
            f"running Python programs, isolation {sandbox.tier}, at most {most.seconds:g} CPU seconds and "
            f"{most.memory_mb} MiB each; Ctrl-C ends"
        )
        if not is_loopback(host):
            print("anyone who reaches this address may run programs: there is no password")
        # Flushed, because a script that starts the command reads the address from a pipe.
        print(f"http://{host}:{listener.getsockname()[1]}/run_code", flush=True)
        with contextlib.suppress(KeyboardInterrupt):
            serve(make_app(sandbox, most, local=is_loopback(host)), listener)
    return 0
