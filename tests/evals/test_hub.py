"""Data without a folder: the real libraries of the hub against a server of our own, and release files."""

from __future__ import annotations

import gzip
import hashlib
import json
import threading
from collections.abc import Iterator
from dataclasses import replace
from functools import partial
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path

import pytest

from redqueen.errors import UserError
from redqueen.evals.benchmark import Benchmark
from redqueen.evals.registry import load
from redqueen.extras.benchmarks.evalplus import MBPP
from redqueen.extras.benchmarks.livecodebench import LIVECODEBENCH
from redqueen.extras.benchmarks.maths import GSM8K
from tests.evals import rows

FILES: dict[str, bytes] = {}
ASKED: list[str] = []


class Hub(BaseHTTPRequestHandler):
    """Answers as the hub does where a file of a commit is asked for."""

    def do_HEAD(self) -> None:
        content = FILES.get(self.path)
        self.send_response(200 if content is not None else 404)
        if content is None:
            self.send_header("X-Error-Code", "EntryNotFound")
        self.send_header("ETag", f'"{hashlib.sha256(content or b"").hexdigest()}"')
        self.send_header("X-Repo-Commit", LIVECODEBENCH.source.revision)
        self.send_header("Content-Length", str(len(content or b"")))
        self.end_headers()

    def do_GET(self) -> None:
        ASKED.append(self.path)
        self.do_HEAD()
        self.wfile.write(FILES.get(self.path, b""))

    def log_message(self, format: str, *args: object) -> None:
        del format, args


@pytest.fixture
def server() -> Iterator[str]:
    FILES.clear()
    ASKED.clear()
    with ThreadingHTTPServer(("127.0.0.1", 0), Hub) as running:
        threading.Thread(target=running.serve_forever, args=(0.01,), daemon=True).start()
        yield f"http://127.0.0.1:{running.server_port}"
        running.shutdown()


def mbpp(address: str, content: bytes) -> Benchmark:
    source = replace(MBPP.source, release=address, sha256=hashlib.sha256(content).hexdigest())
    return replace(MBPP, source=source)


def test_a_release_file_is_downloaded_once_and_is_the_one_that_was_proved(
    server: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("REDQUEEN_CACHE", str(tmp_path))
    content = gzip.compress(json.dumps(rows.MBPP).encode())
    FILES["/MbppPlus.jsonl.gz"] = content
    benchmark = mbpp(f"{server}/MbppPlus.jsonl.gz", content)
    loaded = load(benchmark, None, None)
    assert [problem.id for problem in loaded.problems] == ["Mbpp/2"]
    assert (loaded.origin, loaded.sha256) == (benchmark.source.release, benchmark.source.sha256)
    # What is in the cache is used, unless it is damaged.
    assert load(benchmark, None, None) == loaded
    assert len(ASKED) == 1
    (cached,) = tmp_path.rglob("MbppPlus.jsonl.gz")
    cached.write_bytes(b"half")
    assert load(benchmark, None, None) == loaded
    assert len(ASKED) == 2


def test_another_file_at_the_address_is_refused(server: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("REDQUEEN_CACHE", str(tmp_path))
    FILES["/MbppPlus.jsonl.gz"] = b"another"
    with pytest.raises(
        UserError, match=r"MbppPlus.jsonl.gz has changed: give a folder that has MbppPlus.jsonl.gz with"
    ):
        load(mbpp(f"{server}/MbppPlus.jsonl.gz", b"proved"), None, None)
    with pytest.raises(UserError, match=r"cannot load http.*nowhere \(HTTP Error 404: Not Found\): connect, or give a"):
        load(mbpp(f"{server}/nowhere", b"proved"), None, None)
    assert not list(tmp_path.rglob("*.gz"))


def test_files_of_one_commit_are_read_by_the_library_of_the_hub(
    server: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    hub = pytest.importorskip("huggingface_hub")
    monkeypatch.setattr(hub.constants, "HF_HUB_OFFLINE", False)
    monkeypatch.setattr(hub, "hf_hub_download", partial(hub.hf_hub_download, endpoint=server, cache_dir=tmp_path))
    source = LIVECODEBENCH.source
    folder = f"/datasets/{source.hub}/resolve/{source.revision}"
    names = source.files[0].split("+")
    for name, row in zip(names, rows.LIVECODEBENCH, strict=False):
        FILES[f"{folder}/{name}"] = json.dumps(row).encode()
    with pytest.raises(
        UserError, match=r"LiveCodeBench: cannot load .* \(404 .*\): connect, or give a folder that has"
    ):
        load(LIVECODEBENCH, None, None)
    for name in names[2:]:
        FILES[f"{folder}/{name}"] = b""
    loaded = load(LIVECODEBENCH, None, 1)
    assert [problem.id for problem in loaded.problems] == ["one"]
    assert loaded.available == 2
    assert loaded.origin == "livecodebench/code_generation_lite 0fe84c3"


def test_a_split_is_read_by_the_library_of_data_sets(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    datasets = pytest.importorskip("datasets")
    monkeypatch.setattr(datasets.config, "HF_DATASETS_CACHE", str(tmp_path / "cache"))
    # A repository of data sets on the hub is such a folder: its card names the files of each subset and split.
    folder = tmp_path / "gsm8k"
    (folder / "main").mkdir(parents=True)
    files = [{"split": split, "path": f"main/{split}-*"} for split in ("train", "test")]
    card = json.dumps({"configs": [{"config_name": "main", "data_files": files}]})
    (folder / "README.md").write_text(f"---\n{card}\n---\n", encoding="utf-8")
    for split, answer in (("train", 1), ("test", 2)):
        made = datasets.Dataset.from_list(
            [{"question": "How many?", "answer": f"So it is {answer},000.\n#### {answer},000"}]
        )
        made.to_parquet(folder / "main" / f"{split}-00000-of-00001.parquet")
    loaded = load(replace(GSM8K, source=replace(GSM8K.source, hub=str(folder))), None, None)
    assert [problem.data["answers"] for problem in loaded.problems] == [("2000",)]
    with pytest.raises(
        UserError, match=r"GSM8K: cannot load .*nowhere from the Hugging Face hub \(.*\): connect, or give"
    ):
        load(replace(GSM8K, source=replace(GSM8K.source, hub=f"{tmp_path}/nowhere")), None, None)
