"""Shared by all tests: the number of threads, tiny models, one real verifier and the seed tasks that it validated."""

from __future__ import annotations

import os
import signal
import sys
from collections.abc import Callable, Iterator
from concurrent.futures import Future
from pathlib import Path

# Set before anything imports torch. More threads only make tiny tensors slower, so an OMP_NUM_THREADS of the
# environment is not used: CI's run with two threads asks for them by a name of its own.
os.environ["OMP_NUM_THREADS"] = os.environ.get("REDQUEEN_TEST_THREADS", "1")
os.environ.setdefault("TOKENIZERS_PARALLELISM", "false")
os.environ.setdefault("HF_HUB_OFFLINE", "1")
# A pipe is as wide as any table, unless somebody says how wide it is, and the runner of several processes does.
os.environ.pop("COLUMNS", None)
# A shell starts background jobs with Ctrl-C ignored, and that would be inherited by the commands under test.
if signal.getsignal(signal.SIGINT) is signal.SIG_IGN:
    signal.signal(signal.SIGINT, signal.default_int_handler)
# makes `from tests import tiny` work, however pytest was started
sys.path.insert(0, str(Path(__file__).resolve().parents[1]))

import pytest
import torch
from hypothesis import settings

from redqueen.config import ModelConfig, SandboxConfig
from redqueen.engine.model.base import Base, load
from redqueen.jail.probes import cores
from redqueen.method.planting import seed_tasks as verified_seeds
from redqueen.method.seeds import AUTHOR
from redqueen.method.verifier import LocalVerifier
from redqueen.records import Kind, Proposal, Task, Verdict
from redqueen.tasks.python import KINDS, PYTHON, seeds
from tests import tiny

THREADS = int(os.environ["OMP_NUM_THREADS"])
torch.set_num_threads(THREADS)
# Profiles differ in the number of examples (`--hypothesis-profile`; the Makefile chooses). No property has a deadline,
# because a busy machine would miss it. CI draws the same examples each time, so that a commit cannot fail by a draw
# that has nothing to do with it.
for name, examples in {"check": 8, "default": 50, "thorough": 200}.items():
    settings.register_profile(name, max_examples=examples, deadline=None, derandomize="CI" in os.environ)
settings.load_profile("default")


def pytest_xdist_auto_num_workers() -> int:
    """Returns the number of processes for `--numprocesses auto`: the usable cores, at least 2 and at most 8.

    Each process loads torch and transformers (0.6 GB), and more than 8 do not end sooner.
    """
    return min(max(cores(), 2), 8)


@pytest.fixture(autouse=True)
def same_numbers() -> None:
    """Every test draws the same numbers from torch and computes on as many threads, alone and after any other.

    A test that loads a model as a user does gives torch all cores, and two threads may add in another order.
    """
    torch.manual_seed(0)
    torch.set_num_threads(THREADS)


@pytest.fixture(scope="session")
def tiny_folder(tmp_path_factory: pytest.TempPathFactory) -> Callable[[str], Path]:
    """`tiny_folder("qwen2")` is the folder of that family's tiny model, which is made once a session."""
    folders: dict[str, Path] = {}

    def folder(family: str = "llama") -> Path:
        if family not in folders:
            folders[family] = tiny.make(tmp_path_factory.mktemp("tiny") / family, family)
        return folders[family]

    return folder


@pytest.fixture(scope="session")
def new_base(tiny_folder: Callable[[str], Path]) -> Callable[..., Base]:
    """`new_base("qwen2")` loads an fp32 base that the test may change."""

    def make(family: str = "llama") -> Base:
        return load(
            ModelConfig(name=str(tiny_folder(family)), dtype="float32", device="cpu", threads=THREADS, workers=1)
        )

    return make


@pytest.fixture(scope="session")
def tiny_base(new_base: Callable[..., Base]) -> Base:
    """A llama base that no test may change."""
    return new_base("llama")


class SharedVerifier(LocalVerifier):
    """A real verifier that runs a seed program once.

    Every toy run starts with the same seed programs; running them three times each takes longer than its steps.
    """

    def __init__(self, config: SandboxConfig) -> None:
        super().__init__(config)
        self.known: dict[Proposal, Future[tuple[Verdict, Task | None]]] = {}

    def judge_proposal(self, proposal: Proposal) -> Future[tuple[Verdict, Task | None]]:
        if proposal.author != AUTHOR:
            return super().judge_proposal(proposal)
        if proposal not in self.known:
            self.known[proposal] = super().judge_proposal(proposal)
        return self.known[proposal]


@pytest.fixture(scope="session")
def verifier() -> Iterator[LocalVerifier]:
    with SharedVerifier(SandboxConfig(cpu_s=0.4, wall_s=120.0, memory_mb=64, workers=1)) as shared:
        yield shared


@pytest.fixture(scope="session")
def seed_tasks(verifier: LocalVerifier) -> dict[Kind, list[Task]]:
    """Every tenth seed as a task of each kind; code_o and code_i have the first pair."""
    whole = verified_seeds(verifier, PYTHON, range(0, len(seeds()), 10))
    return {kind.name: [task for each in whole if (task := kind.of_program(each))] for kind in KINDS}
