"""A server of vLLM is used like an engine of our own. The tests run in their order: the last one ends the server."""

from __future__ import annotations

import os
import socket
import subprocess
import sys
import time
from collections.abc import Iterator
from urllib.error import URLError
from urllib.request import urlopen

import pytest

from redqueen.engine.model.base import load
from redqueen.engine.model.source import source
from redqueen.errors import WorkerError
from redqueen.extras.vllm.adapter_versions import shared_memory
from redqueen.extras.vllm.server import Server
from tests.extras.vllm.conftest import MEMBERS, MODEL, NOISE, TwoSamplers, need_vllm
from tests.extras.vllm.test_executor import ROUNDING, TEXTS, compare, greedy, samples
from tests.reference import noisy

# As docs/SCALING.md says; what follows the first line makes it start sooner and need less memory.
FLAGS = (
    "--enable-lora --max-lora-rank 8 --max-loras 4 --max-cpu-loras 4 --logprobs-mode processed_logprobs "
    "--enable-scale-out --skip-tokenizer-init --generation-config vllm --dtype float32 "
    "--enforce-eager --max-model-len 512 --max-num-seqs 16 --block-size 32"
)


def free_port() -> int:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return int(probe.getsockname()[1])


@pytest.fixture(scope="module")
def server() -> Iterator[tuple[str, subprocess.Popen[bytes]]]:
    need_vllm()
    port = free_port()
    # What `vllm serve` starts. The command itself does not know its version in the package for CPUs.
    command = [sys.executable, "-m", "vllm.entrypoints.openai.api_server", "--model", source(MODEL.name).where]
    command += [*FLAGS.split(), "--port", str(port)]
    settings = {"VLLM_ALLOW_RUNTIME_LORA_UPDATING": "1", "VLLM_LOGGING_LEVEL": "ERROR", "VLLM_NO_USAGE_STATS": "1"}
    process = subprocess.Popen(command, env=os.environ | settings)
    url = f"http://127.0.0.1:{port}"
    try:
        while True:
            assert process.poll() is None, "the server ended"
            try:
                with urlopen(f"{url}/health"):
                    break
            except URLError:
                time.sleep(0.5)
        yield url, process
    finally:
        # A server that is killed outright would leave its shared memory behind.
        process.terminate()
        process.wait()


@pytest.fixture(scope="module")
def policy(server: tuple[str, subprocess.Popen[bytes]]) -> Iterator[TwoSamplers]:
    with TwoSamplers(server[0]) as policy:
        yield policy


def test_greedy_tokens_are_those_of_the_embedded_sampler(policy: TwoSamplers) -> None:
    completions = compare(policy, [greedy(member, text) for text in TEXTS for member in MEMBERS])
    assert len({completion.token_ids for completion in completions[:3]}) == 3
    # Rows that end in the middle of what the server would write.
    compare(policy, [greedy("a", TEXTS[3], 40, stop=(" the", ".")), greedy("c", TEXTS[2], 40, lines=1)])


def test_versions_follow_updates_and_births_and_leave_no_files(policy: TwoSamplers) -> None:
    for step in range(3):
        updates = policy.update(samples(policy, "".join(policy.members), step))
        assert max(update.logprob_gap for update in updates) < ROUNDING
        policy.leave("b")
        policy.join("b", noisy(policy.adapters, 100 + step, b=NOISE))
        compare(policy, [greedy(member, TEXTS[0], 8) for member in policy.members])
    engine = policy.vllm.engine
    assert isinstance(engine, Server)
    names = {version.handle for version in policy.vllm.versions.loaded.values()}
    assert {path.name for path in engine.folder.iterdir()} == names


def test_a_server_that_is_not_there_is_one_line() -> None:
    with pytest.raises(WorkerError, match="no vLLM server answers at http"):
        Server(load(MODEL), f"http://127.0.0.1:{free_port()}", 1 << 20)


def test_a_server_that_ends_is_one_line_and_leaves_no_files(
    policy: TwoSamplers, server: tuple[str, subprocess.Popen[bytes]]
) -> None:
    server[1].terminate()
    server[1].wait()
    with pytest.raises(WorkerError, match="resume from the last checkpoint"):
        policy.sample([greedy("a", text, 60) for text in TEXTS])
    engine = policy.vllm.engine
    assert isinstance(engine, Server)
    engine.close()
    assert not engine.folder.exists()
    assert shared_memory(1 << 20) in (None, engine.folder.parent)
