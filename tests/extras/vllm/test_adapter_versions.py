"""Every version of a slot's weights is an adapter of its own; old ones go, and one slot is to spare."""

from __future__ import annotations

import shutil
import tempfile
from pathlib import Path

import pytest
import torch

from redqueen.base.optional import MissingLibraryError
from redqueen.config import Config, ConfigError
from redqueen.engine.adapters import load_adapter
from redqueen.engine.memory import machine
from redqueen.extras import vllm
from redqueen.extras.vllm import AdapterVersions
from tests.engine.conftest import Build
from tests.engine.samples import samples
from tests.reference import noisy


class Host:
    """Reads the adapters that it is told to load, as an engine does, and notes the calls."""

    def __init__(self) -> None:
        self.present: dict[int, str] = {}
        self.folders: list[Path] = []
        self.most = 0
        self.adapter, self.alpha = {}, 0.0

    def load(self, name: str, number: int, folder: Path) -> str:
        assert number not in self.present
        self.present[number] = name
        self.folders.append(folder)
        self.most = max(self.most, len(self.present))
        self.adapter, self.alpha = load_adapter(folder)
        return name

    def unload(self, number: int) -> None:
        del self.present[number]


def test_each_update_and_birth_is_a_new_adapter_and_the_old_one_goes(tiny_policy: Build) -> None:
    policy = tiny_policy()
    host = Host()
    versions = AdapterVersions(policy.adapters, host, "base", torch.float32)
    versions.update([0, 1, 2, 0])
    assert host.present == {1: "a@1", 2: "b@2", 3: "c@3"}
    versions.update([0, 1])
    assert len(host.folders) == 3, "what has not changed is loaded once"
    policy.update(samples("b"))
    versions.update([1])
    assert host.present == {1: "a@1", 3: "c@3", 4: "b@4"}
    # A child has the name and the slot of the dead member.
    policy.leave("a")
    policy.join("a", noisy(policy.adapters, 9), version=1)
    versions.update([0])
    assert host.present == {3: "c@3", 4: "b@4", 5: "a@5"}
    policy.leave("c")
    versions.update([1])
    assert host.present == {4: "b@4", 5: "a@5"}
    assert host.most == 4
    assert len(set(host.folders)) == 5
    assert not any(folder.exists() for folder in host.folders)


def test_adapters_that_do_not_fit_into_shared_memory_are_written_elsewhere(
    tiny_policy: Build, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    policy = tiny_policy()
    host = Host()
    versions = AdapterVersions(policy.adapters, host, "base", torch.float32)
    monkeypatch.setattr(vllm, "_SHARED_MEMORY", tmp_path)
    size = vllm.adapter_bytes(policy.adapters, torch.float32)
    for free in (vllm._SPARE + size, vllm._SPARE + size - 1):
        # As in a container, where shared memory has 64 MB.
        usage = shutil.disk_usage(tmp_path)._replace(free=free)
        monkeypatch.setattr(shutil, "disk_usage", lambda _, usage=usage: usage)
        versions.update([len(host.folders)])
    inside, outside = (folder.parent.parent for folder in host.folders)
    assert inside == tmp_path
    assert outside == Path(tempfile.gettempdir())


def test_no_file_is_larger_than_it_is_taken_to_be(tiny_policy: Build) -> None:
    policy = tiny_policy()
    sizes: list[int] = []

    class Measuring(Host):
        def load(self, name: str, number: int, folder: Path) -> str:
            sizes.append((folder / "adapter_model.safetensors").stat().st_size)
            return super().load(name, number, folder)

    versions = AdapterVersions(policy.adapters, Measuring(), "base", torch.bfloat16)
    versions.update([0])
    size = vllm.adapter_bytes(policy.adapters, torch.bfloat16)
    # Beside the weights, the file has a table of their names.
    assert size < sizes[0] < size + 10_000


def test_the_scale_is_folded_once(tiny_policy: Build) -> None:
    policy = tiny_policy()
    host = Host()
    versions = AdapterVersions(policy.adapters, host, "base", torch.bfloat16)
    # The last member has half of the bank's rank, and so twice the scale.
    for slot, (member, rank) in enumerate((("a", 4), ("b", 4), ("c", 2))):
        versions.update([slot])
        assert host.alpha == rank
        for name, factors in policy.adapter(member).items():
            read = host.adapter[name]
            assert torch.equal(read.a, factors.a.bfloat16().float())
            assert torch.equal(read.b, (factors.b * (8.0 / rank)).bfloat16().float())


def checked(config: Config) -> None:
    machine.check_engine(config.model, config.sampling, config.learning, config.cluster)


def test_a_missing_vllm_is_one_line_before_the_run_starts(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(machine, "is_installed", lambda library: False)
    checked(Config())
    with pytest.raises(MissingLibraryError) as caught:
        checked(Config().override(["sampling.engine=vllm"]))
    assert str(caught.value) == (
        "sampling.engine=vllm needs vllm, which is not installed: pip install '.[vllm]' in a checkout of Red Queen"
    )


def test_one_process_cannot_sample_while_it_learns() -> None:
    ahead = Config().override(["learning.max_staleness=1"])
    with pytest.raises(ConfigError, match=r"sampling.engine=vllm, or --ray"):
        checked(ahead)
    checked(ahead.override(["cluster.address=local"]))
