"""The real service in a process of its own, and a client of a few lines."""

from __future__ import annotations

import contextlib
import http.client
import json
import urllib.parse
from collections.abc import Iterator
from typing import Any

from tests.cli.running import started


@contextlib.contextmanager
def service(*options: str) -> Iterator[str]:
    """The address of a service that runs as long as the block."""
    with started("jail", "serve", "--port", "0", *options) as process:
        assert process.stdout is not None
        # What is printed first says how programs are isolated.
        lines = [process.stdout.readline(), process.stdout.readline()]
        assert lines[1].startswith("http://127.0.0.1:"), (lines, process.stderr and process.stderr.read())
        yield lines[1].strip()


def post(url: str, fields: dict[str, Any] | bytes, **headers: str) -> tuple[int, Any]:
    """The status and the JSON of an answer."""
    address = urllib.parse.urlparse(url)
    connection = http.client.HTTPConnection(address.hostname or "", address.port, timeout=120)
    body = fields if isinstance(fields, bytes) else json.dumps(fields).encode()
    with contextlib.closing(connection):
        connection.request("POST", address.path, body, {"Content-Type": "application/json", **headers})
        answer = connection.getresponse()
        return answer.status, json.loads(answer.read())


def python(code: str, **fields: Any) -> dict[str, Any]:
    """A request to run a program."""
    return {"code": code, "language": "python", "run_timeout": 5, **fields}
