"""A server with OpenAI's chat completions on this machine, whose model looks its answers up."""

from __future__ import annotations

import contextlib
import json
import threading
from collections.abc import Callable, Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any


@contextlib.contextmanager
def chat_server(reply: Callable[[str], str]) -> Iterator[str]:
    """The base URL of a server that answers a question with `reply(question)`."""

    class Handler(BaseHTTPRequestHandler):
        def do_POST(self) -> None:
            asked = json.loads(self.rfile.read(int(self.headers["Content-Length"])))
            content = asked["messages"][-1]["content"]
            question = content if isinstance(content, str) else "".join(part["text"] for part in content)
            streamed = bool(asked.get("stream"))
            body = (stream if streamed else completion)(asked["model"], reply(question)).encode()
            self.send_response(200)
            self.send_header("Content-Type", "text/event-stream" if streamed else "application/json")
            self.send_header("Content-Length", str(len(body)))
            self.end_headers()
            self.wfile.write(body)

        def log_message(self, format: str, *args: object) -> None:
            """Says nothing."""

    with ThreadingHTTPServer(("127.0.0.1", 0), Handler) as server:
        threading.Thread(target=server.serve_forever, daemon=True).start()
        try:
            yield f"http://127.0.0.1:{server.server_port}/v1"
        finally:
            server.shutdown()


def completion(model: str, text: str) -> str:
    """A whole answer of the interface, not streamed."""
    choice = {"index": 0, "finish_reason": "stop", "message": {"role": "assistant", "content": text}}
    return json.dumps({**head(model, "chat.completion"), "choices": [choice], "usage": USAGE})


def stream(model: str, text: str) -> str:
    """The same answer as a stream of two parts."""
    parts: list[dict[str, Any]] = [
        {"choices": [{"index": 0, "delta": {"role": "assistant", "content": text}, "finish_reason": None}]},
        {"choices": [{"index": 0, "delta": {}, "finish_reason": "stop"}], "usage": USAGE},
    ]
    events = [json.dumps(head(model, "chat.completion.chunk") | part) for part in parts]
    return "".join(f"data: {event}\n\n" for event in [*events, "[DONE]"])


USAGE = {"prompt_tokens": 1, "completion_tokens": 1, "total_tokens": 2}


def head(model: str, kind: str) -> dict[str, Any]:
    return {"id": "chatcmpl-1", "object": kind, "created": 0, "model": model}
