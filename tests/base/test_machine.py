"""Defaults for libraries: set where nothing else is, and never against vLLM."""

from __future__ import annotations

import os
import sys
from pathlib import Path
from types import ModuleType

import pytest

from redqueen.base import machine

KERNELS = ("TORCHINDUCTOR_CACHE_DIR", "TRITON_CACHE_DIR")


@pytest.fixture(autouse=True)
def clean(monkeypatch: pytest.MonkeyPatch) -> None:
    """No setting of torch's allocator, and an environment that is as before afterwards."""
    for name in (*("PYTORCH_ALLOC_CONF", "PYTORCH_CUDA_ALLOC_CONF"), *KERNELS):
        monkeypatch.setenv(name, "")
        monkeypatch.delenv(name)
    monkeypatch.delitem(sys.modules, "vllm", raising=False)


def test_segments_of_gpu_memory_grow_by_default() -> None:
    machine.set_library_defaults()
    assert os.environ["PYTORCH_ALLOC_CONF"] == "expandable_segments:True"


@pytest.mark.parametrize("name", ["PYTORCH_ALLOC_CONF", "PYTORCH_CUDA_ALLOC_CONF"])
def test_what_a_user_says_about_gpu_memory_stays(monkeypatch: pytest.MonkeyPatch, name: str) -> None:
    monkeypatch.setenv(name, "max_split_size_mb:512")
    machine.set_library_defaults()
    machine.without_allocator_defaults()
    assert os.environ[name] == "max_split_size_mb:512"
    assert len([key for key in os.environ if key.endswith("ALLOC_CONF")]) == 1


def test_vllm_gets_no_segments_that_grow(monkeypatch: pytest.MonkeyPatch) -> None:
    machine.set_library_defaults()
    machine.without_allocator_defaults()
    assert "PYTORCH_ALLOC_CONF" not in os.environ
    monkeypatch.setitem(sys.modules, "vllm", ModuleType("vllm"))
    machine.set_library_defaults()
    assert "PYTORCH_ALLOC_CONF" not in os.environ


def test_compiled_kernels_are_kept_in_the_cache(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setenv("REDQUEEN_CACHE", str(tmp_path / "cache"))
    monkeypatch.setenv("TRITON_CACHE_DIR", "elsewhere")
    machine.set_library_defaults()
    assert os.environ["TORCHINDUCTOR_CACHE_DIR"] == str(tmp_path / "cache" / "kernels" / "inductor")
    assert os.environ["TRITON_CACHE_DIR"] == "elsewhere"


def test_a_cache_that_cannot_be_written_keeps_no_kernels(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    (tmp_path / "file").touch()
    monkeypatch.setenv("REDQUEEN_CACHE", str(tmp_path / "file"))
    machine.set_library_defaults()
    assert not any(name in os.environ for name in KERNELS)


def test_a_folder_in_one_that_may_not_be_entered_cannot_be_written(tmp_path: Path) -> None:
    closed = tmp_path / "closed"
    closed.mkdir(mode=0)
    tmp_path.chmod(0o755)
    pid = os.fork()
    if pid == 0:
        # Root may enter any folder.
        if os.getuid() == 0:
            os.setuid(65_534)
        try:
            os._exit(machine.can_write(closed / "cache" / "kernels"))
        finally:
            os._exit(2)
    assert os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1]) == 0
