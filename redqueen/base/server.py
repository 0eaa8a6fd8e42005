"""Serves an application on this machine, to this machine only unless another address is named."""

from __future__ import annotations

import errno
import socket

import uvicorn
from starlette.types import ASGIApp

from redqueen.errors import UserError

HOST = "127.0.0.1"
PORT = 8642
"""The first port that is tried if a user names none."""
_TRIES = 20


def bind(port: int | None, host: str = HOST) -> socket.socket:
    """Returns a socket on `port`; with None on the first free port from `PORT` on.

    Raises UserError if the port is taken or may not be used, or if this machine has no such address.
    """
    if port is not None:
        return _bind(port, host)
    for candidate in range(PORT, PORT + _TRIES):
        try:
            return _bind(candidate, host)
        except UserError:
            continue
    raise UserError(
        f"no port from {PORT} to {PORT + _TRIES - 1} is free: choose one with --port N, or --port 0 for any"
    )


def _bind(port: int, host: str) -> socket.socket:
    listener = socket.socket(socket.AF_INET, socket.SOCK_STREAM)
    # Without this, the port could not be used again for a minute after the last page was closed.
    listener.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
    try:
        listener.bind((host, port))
        # It listens at once, so that a port that another process has is refused here, on every system.
        listener.listen()
    except OSError as error:
        listener.close()
        if host != HOST and error.errno != errno.EADDRINUSE:
            raise UserError(f"cannot listen on {host}, port {port}: {error.strerror or error}") from error
        why = "in use" if error.errno == errno.EADDRINUSE else f"not to be had ({error.strerror})"
        raise UserError(f"port {port} is {why}: choose another with --port N, or --port 0 for any") from error
    return listener


def serve(app: ASGIApp, listener: socket.socket) -> None:
    """Serves until Ctrl-C or SIGTERM."""
    # Nothing of uvicorn's own is printed but errors: the command says all that a person needs.
    config = uvicorn.Config(
        app,
        log_level="error",
        access_log=False,
        lifespan="off",
        ws="none",
        loop="asyncio",
        http="h11",
        server_header=False,
        timeout_graceful_shutdown=1,
    )
    uvicorn.Server(config).run(sockets=[listener])
