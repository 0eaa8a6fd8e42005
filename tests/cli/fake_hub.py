"""A stand-in for the Hugging Face hub on this machine: it takes repositories, files and commits, and keeps them."""

from __future__ import annotations

import base64
import contextlib
import hashlib
import json
import re
import threading
from collections.abc import Iterator
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any

import yaml


@dataclass
class Hub:
    """What was published."""

    url: str
    made: dict[str, dict[str, Any]] = field(default_factory=dict)
    """What was asked for when a repository was made, by its name."""
    files: dict[str, dict[str, bytes]] = field(default_factory=dict)
    """The files of each repository."""
    objects: dict[str, bytes] = field(default_factory=dict)
    """Large files, by their SHA-256."""
    refused: bool = False
    """Whether it refuses everything, as it does with a wrong token."""


@contextlib.contextmanager
def fake_hub() -> Iterator[Hub]:
    """A hub that is there as long as the context is open."""

    class Handler(BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            if self.path.startswith("/api/whoami"):
                return self.answer({"name": "user", "type": "user"})
            return self.answer({"error": "not found"}, 404)

        def do_PUT(self) -> None:
            hub.objects[self.path.rpartition("/")[2]] = self.body()
            self.answer({})

        def do_POST(self) -> None:
            body = self.body()
            if hub.refused or self.headers.get("Authorization") != "Bearer hf_test":
                return self.answer({"error": "Invalid username or password."}, 401)
            if self.path == "/api/repos/create":
                asked = json.loads(body)
                name = f"{asked['organization']}/{asked['name']}" if asked.get("organization") else asked["name"]
                hub.made[name] = asked
                prefix = "" if asked.get("type", "model") == "model" else f"{asked['type']}s/"
                return self.answer({"url": f"{hub.url}/{prefix}{name}", "name": name})
            if self.path == "/api/validate-yaml":
                errors = problems_of(json.loads(body)["content"])
                return self.answer({"errors": errors, "warnings": []}, 400 if errors else 200)
            if "/preupload/" in self.path:
                paths = [each["path"] for each in json.loads(body)["files"]]
                return self.answer({"files": [self.mode(path) for path in paths]})
            if self.path.endswith("/info/lfs/objects/batch"):
                objects = json.loads(body)["objects"]
                return self.answer({"transfer": "basic", "objects": [self.upload(each) for each in objects]})
            match = re.fullmatch(r"/api/(?:model|dataset|space)s/(.+/.+)/commit/main(?:\?.*)?", self.path)
            assert match is not None, self.path
            self.commit(match[1], [json.loads(line) for line in body.splitlines()])
            return self.answer({"commitUrl": f"{hub.url}/{match[1]}/commit/1", "commitOid": "1", "success": True})

        def commit(self, name: str, lines: list[dict[str, Any]]) -> None:
            files = hub.files.setdefault(name, {})
            for line in lines:
                if line["key"] == "file":
                    files[line["value"]["path"]] = base64.b64decode(line["value"]["content"])
                elif line["key"] == "lfsFile":
                    files[line["value"]["path"]] = hub.objects[line["value"]["oid"]]
                    assert hashlib.sha256(files[line["value"]["path"]]).hexdigest() == line["value"]["oid"]

        def mode(self, path: str) -> dict[str, Any]:
            large = path.endswith((".safetensors", ".parquet"))
            return {"path": path, "uploadMode": "lfs" if large else "regular", "shouldIgnore": False}

        def upload(self, asked: dict[str, Any]) -> dict[str, Any]:
            return {**asked, "actions": {"upload": {"href": f"{hub.url}/objects/{asked['oid']}"}}}

        def body(self) -> bytes:
            if self.headers.get("Transfer-Encoding") != "chunked":
                return self.rfile.read(int(self.headers.get("Content-Length", 0)))
            parts: list[bytes] = []
            while size := int(self.rfile.readline(), 16):
                parts.append(self.rfile.read(size))
                self.rfile.readline()
            self.rfile.readline()
            return b"".join(parts)

        def answer(self, data: object, status: int = 200) -> None:
            body = json.dumps(data).encode()
            self.send_response(status)
            self.send_header("Content-Type", "application/json")
            self.send_header("Content-Length", str(len(body)))
            self.end_headers()
            self.wfile.write(body)

        def log_message(self, format: str, *args: object) -> None:
            """Says nothing."""

    with ThreadingHTTPServer(("127.0.0.1", 0), Handler) as server:
        hub = Hub(f"http://127.0.0.1:{server.server_port}")
        threading.Thread(target=server.serve_forever, daemon=True).start()
        try:
            yield hub
        finally:
            server.shutdown()


def problems_of(card: str) -> list[dict[str, str]]:
    """What is wrong with a card's head: that there is none, or that it is no YAML."""
    match = re.match(r"---\n(.*?)\n---", card, re.S)
    try:
        head = yaml.safe_load(match[1]) if match else None
    except yaml.YAMLError as error:
        return [{"message": str(error)}]
    return [] if isinstance(head, dict) else [{"message": "no metadata"}]
