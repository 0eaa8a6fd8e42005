"""Kernels are compiled only where triton, a C compiler and Python's headers are there; elsewhere torch computes."""

from __future__ import annotations

import sysconfig
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
import torch

from redqueen.engine.kernels import dispatch
from redqueen.engine.kernels.dispatch import can_compile, missing_for_kernels
from redqueen.engine.lora.products import PaddedBmm, decoding_products
from redqueen.engine.sampling.decode_step import WrittenApart, cached_attention


@pytest.fixture
def complete(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    """A machine that has all that is needed: triton, gcc in the only folder of PATH, and headers."""
    gcc = tmp_path / "gcc"
    gcc.write_text("#!/bin/sh\n")
    gcc.chmod(0o755)
    (tmp_path / "Python.h").touch()
    monkeypatch.setenv("PATH", str(tmp_path))
    monkeypatch.delenv("CC", raising=False)
    monkeypatch.setattr(dispatch, "is_installed", lambda library: library == "triton")
    monkeypatch.setattr(sysconfig, "get_paths", lambda scheme: {"include": str(tmp_path)})
    can_compile.cache_clear()
    yield tmp_path
    can_compile.cache_clear()


def without_triton(_: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(dispatch, "is_installed", lambda library: False)


def without_compiler(folder: Path, _: pytest.MonkeyPatch) -> None:
    (folder / "gcc").unlink()


def with_a_compiler_that_is_not_there(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("CC", str(folder / "icc"))


def without_headers(folder: Path, _: pytest.MonkeyPatch) -> None:
    (folder / "Python.h").unlink()


def test_a_complete_machine_compiles(complete: Path) -> None:
    assert missing_for_kernels() == []
    assert can_compile()


@pytest.mark.parametrize(
    ("spoil", "name"),
    [
        (without_triton, "triton"),
        (without_compiler, "a C compiler"),
        (with_a_compiler_that_is_not_there, "a C compiler"),
        (without_headers, "Python's headers"),
    ],
)
def test_what_is_missing_is_named_and_a_gpu_takes_torchs_operations(
    complete: Path,
    monkeypatch: pytest.MonkeyPatch,
    spoil: Callable[[Path, pytest.MonkeyPatch], None],
    name: str,
) -> None:
    spoil(complete, monkeypatch)
    (missing,) = missing_for_kernels()
    assert missing.startswith(name)
    assert isinstance(decoding_products([], 1, 1, torch.device("cuda")), PaddedBmm)
    assert isinstance(_attention(monkeypatch), WrittenApart)


def _attention(monkeypatch: pytest.MonkeyPatch) -> Any:
    """Returns the attention that is chosen for a cache on a GPU, which is not here."""

    class OnGpu(torch.Tensor):
        """A tensor that says that it is on a GPU."""

        device = torch.device("cuda")  # pyright: ignore[reportAssignmentType]

    class Cache:
        keys = torch.zeros(1, 2, 1, 4, 8, dtype=torch.bfloat16).as_subclass(OnGpu)
        length_R = torch.zeros(2, dtype=torch.long)
        room = 4
        pages = None
        table_RC = None

        def places(self, rows: int) -> tuple[torch.Tensor, torch.Tensor]:
            return torch.arange(rows), self.length_R[:rows]

    cache: Any = Cache()
    monkeypatch.setattr(torch.cuda, "get_device_capability", lambda _: (9, 0))
    return cached_attention(cache, 2, 1)
