"""A running vLLM server, asked over HTTP: tokens in, tokens out, adapters come and go.

docs/SCALING.md says how to start one. Each request is a stream of its own; all of them are read in one thread.
"""

from __future__ import annotations

import asyncio
import contextlib
import json
import secrets
import shutil
import tempfile
from collections.abc import Collection, Coroutine
from pathlib import Path
from queue import SimpleQueue
from threading import Thread
from typing import Any

from redqueen.base.optional import require
from redqueen.engine.model.base import Base
from redqueen.errors import WorkerError
from redqueen.extras.vllm.adapter_versions import shared_memory
from redqueen.extras.vllm.token_engine import Piece, sampling_options
from redqueen.records import SamplingParams

_GENERATE = "/inference/v1/generate"
_CONNECT_S = 10.0
# The server writes this for a logarithm that is no number.
_NO_LOGPROB = -9999.0
_EVENT = "data: "
_DONE = "[DONE]"


class Server:
    """A vLLM server that others may use too: this run's adapters have names that nobody else takes.

    See `TokenEngine`. A request is sampled at once.
    """

    def __init__(self, base: Base, url: str, size: int) -> None:
        """`size` is how many bytes the files of all adapters have at once.

        Raises WorkerError if no server answers at `url`, or if it was started without what is needed.
        """
        self._httpx = require("httpx", "vllm", "sampling.vllm_url")
        self._url = url.rstrip("/")
        self._session = secrets.token_hex(4)
        self._names: dict[int, str] = {}
        self.folder = Path(tempfile.mkdtemp(prefix="redqueen-", dir=shared_memory(size)))
        """The files of the adapters that are loaded: the server may drop one from its memory and read it again."""
        self._pieces: SimpleQueue[Piece | WorkerError] = SimpleQueue()
        self._streams: dict[str, asyncio.Task[None]] = {}
        self._end_ids = sorted(base.end_ids)
        self._loop = asyncio.new_event_loop()
        Thread(target=self._loop.run_forever, name="redqueen-vllm", daemon=True).start()
        limits = self._httpx.Limits(max_connections=None, max_keepalive_connections=None)
        self._client: Any = self._httpx.AsyncClient(
            base_url=self._url, limits=limits, timeout=self._httpx.Timeout(None, connect=_CONNECT_S)
        )
        try:
            self.longest: int = self._introduce(base)
        except BaseException:
            self.close()
            raise

    def load(self, name: str, number: int, folder: Path) -> str:
        """Loads a copy of the PEFT folder under a name that was never used; returns the name on the server."""
        unique = f"{name}-{self._session}"
        kept = self.folder / unique
        shutil.copytree(folder, kept)
        self._post("/v1/load_lora_adapter", {"lora_name": unique, "lora_path": str(kept)})
        self._names[number] = unique
        return unique

    def unload(self, number: int) -> None:
        """Unloads an adapter that no request uses. The server's engine drops it when it needs the room."""
        name = self._names.pop(number)
        self._post("/v1/unload_lora_adapter", {"lora_name": name})
        shutil.rmtree(self.folder / name)

    def add(self, request: str, prompt_ids: Collection[int], sampling: SamplingParams, seed: int, adapter: Any) -> None:
        params = sampling_options(sampling, seed, self._end_ids)
        body = {"model": adapter, "token_ids": list(prompt_ids), "sampling_params": params, "stream": True}
        self._loop.call_soon_threadsafe(self._start, request, body)

    def step(self) -> list[Piece]:
        arrived = [self._pieces.get()]
        while not self._pieces.empty():
            arrived.append(self._pieces.get())
        pieces: list[Piece] = []
        for item in arrived:
            if isinstance(item, WorkerError):
                raise item
            pieces.append(item)
        return pieces

    def abort(self, requests: Collection[str]) -> None:
        """Closes the streams of these requests, at which the server ends them."""
        for request in requests:
            self._loop.call_soon_threadsafe(self._cancel, request)

    def close(self) -> None:
        """Unloads this run's adapters and closes the connections. The server goes on. It may be called twice."""
        if self._loop.is_closed() or not self._loop.is_running():
            return
        # A server that has ended has no adapters.
        with contextlib.suppress(WorkerError):
            for number in list(self._names):
                self.unload(number)
        self._wait(self._client.aclose())
        self._loop.call_soon_threadsafe(self._loop.stop)
        shutil.rmtree(self.folder, ignore_errors=True)

    def _introduce(self, base: Base) -> int:
        """Asks the server what it serves, and for one token. Returns the most tokens of a prompt and completion."""
        models = self._wait(self._send("GET", "/v1/models", None))["data"]
        # Adapters name a parent; a base is its own.
        served = next(model for model in models if not model.get("parent"))
        certain = SamplingParams(max_tokens=1, temperature=1.0, top_k=1)
        request = "start"
        self.add(request, [self._end_ids[0]], certain, 0, served["id"])
        (piece,) = self.step()
        (logprob,) = piece.logprobs
        # The likeliest token is the only one left, so its probability is 1 unless the server reports another one.
        if logprob != 0:
            raise WorkerError(
                f"the vLLM server at {self._url} gives log-probabilities of another distribution than the one it "
                "samples from: start it with --logprobs-mode processed_logprobs"
            )
        window = base.decoder.window or base.model.config.get_text_config().max_position_embeddings
        return min(int(served["max_model_len"]), window, base.model.config.max_position_embeddings)

    def _start(self, request: str, body: dict[str, Any]) -> None:
        task = self._loop.create_task(self._stream(request, body))
        self._streams[request] = task
        task.add_done_callback(lambda _: self._streams.pop(request, None))

    def _cancel(self, request: str) -> None:
        task = self._streams.get(request)
        if task is not None:
            task.cancel()

    async def _stream(self, request: str, body: dict[str, Any]) -> None:
        """Hands over the pieces of one request, or the reason why there are no more."""
        ended = False
        try:
            async with self._client.stream("POST", _GENERATE, json=body) as response:
                if response.status_code != 200:
                    await response.aread()
                    raise self._refused(_GENERATE, response)
                async for line in response.aiter_lines():
                    if not line.startswith(_EVENT) or line == _EVENT + _DONE:
                        continue
                    piece = self._piece(request, json.loads(line.removeprefix(_EVENT)))
                    ended = bool(piece.ended)
                    self._pieces.put(piece)
            if not ended:
                raise WorkerError(f"the vLLM server at {self._url} broke off an answer")
        except WorkerError as error:
            self._pieces.put(error)
        except self._httpx.HTTPError as error:
            self._pieces.put(self._gone(error))

    def _piece(self, request: str, event: dict[str, Any]) -> Piece:
        if "error" in event:
            raise WorkerError(f"the vLLM server at {self._url}: {event['error'].get('message', event['error'])}")
        (choice,) = event["choices"]
        logprobs: list[float] = []
        for entry in (choice.get("logprobs") or {}).get("content") or ():
            value = float(entry["logprob"])
            logprobs.append(value if value > _NO_LOGPROB else float("nan"))
        return Piece(request, list(choice.get("token_ids") or ()), logprobs, choice.get("finish_reason") or "")

    def _post(self, path: str, body: dict[str, Any]) -> None:
        self._wait(self._send("POST", path, body))

    async def _send(self, method: str, path: str, body: dict[str, Any] | None) -> Any:
        try:
            response = await self._client.request(method, path, json=body)
        except self._httpx.HTTPError as error:
            raise self._gone(error) from error
        if response.status_code != 200:
            raise self._refused(path, response)
        return response.json() if method == "GET" else None

    def _wait(self, call: Coroutine[Any, Any, Any]) -> Any:
        """Runs a call in the thread that reads the streams, and waits for it."""
        return asyncio.run_coroutine_threadsafe(call, self._loop).result()

    def _gone(self, error: Exception) -> WorkerError:
        reason = str(error) or type(error).__name__
        return WorkerError(
            f"no vLLM server answers at {self._url} ({reason}). The unfinished step is lost: start the server again as "
            "docs/SCALING.md says, and resume from the last checkpoint"
        )

    def _refused(self, path: str, response: Any) -> WorkerError:
        if response.status_code in (404, 405) and not response.text.startswith('{"error'):
            return WorkerError(
                f"the vLLM server at {self._url} has no {path}: start it with VLLM_ALLOW_RUNTIME_LORA_UPDATING=1 in "
                "its environment and with --enable-lora --enable-scale-out"
            )
        return WorkerError(f"the vLLM server at {self._url} refused {path}: {response.text[:300]}")
