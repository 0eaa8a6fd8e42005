"""`redqueen doctor`: a line for each check, and an exit code that says whether all passed.

The model cache is a small one of the right form, and the package that carries the model is found or not found on
`sys.path`, as in an installation.
"""

from __future__ import annotations

import hashlib
import json
from importlib.metadata import version
from pathlib import Path

import pytest
import torch

from redqueen import __version__
from redqueen.cli import doctor
from redqueen.engine.model.source import CONVERSION, GGUF, MANIFEST, PACKAGE, REQUIREMENT
from redqueen.jail import Probe, probe
from redqueen.jail.probes import cores
from redqueen.run.recording.environment import LIBRARIES, versions
from tests.cli.running import redqueen

Cache = Path


@pytest.fixture
def cache(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Cache:
    """The model cache, with a converted model."""
    monkeypatch.setenv("REDQUEEN_CACHE", str(tmp_path / "cache"))
    folder = tmp_path / "cache" / CONVERSION
    folder.mkdir(parents=True)
    weights = b"weights"
    (folder / "model.safetensors").write_bytes(weights)
    entry = {"bytes": len(weights), "sha256": hashlib.sha256(weights).hexdigest()}
    (folder / MANIFEST).write_text(json.dumps({"model.safetensors": entry}))
    return folder


@pytest.fixture
def package(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The package that carries the model, without its file; it hides an installed one."""
    folder = tmp_path / "site-packages" / PACKAGE
    folder.mkdir(parents=True)
    (folder / "__init__.py").touch()
    monkeypatch.syspath_prepend(str(folder.parent))
    return folder


def lines(name: str, text: str) -> list[str]:
    """The lines of one check: its mark and its detail."""
    rows = [line.split(maxsplit=2) for line in text.splitlines()]
    return [f"{mark} {detail}" for mark, check, detail in rows if check == name]


def test_every_check_has_a_line_and_the_exit_code_is_of_all(cache: Cache) -> None:
    done = redqueen("doctor")
    assert [line.split()[0] in ("ok", "FAILED") for line in done.stdout.splitlines()]
    assert done.returncode == int("FAILED" in done.stdout)
    (version,) = lines("redqueen", done.stdout)
    assert version.startswith(f"ok {__version__} on Python 3.")
    assert lines("python", done.stdout)[0].startswith("ok tested with 3.11, ")
    # The free memory differs from call to call.
    checks = json.loads(redqueen("doctor", "--json").stdout)
    assert [check["name"] for check in checks] == [line.split()[1] for line in done.stdout.splitlines()]
    assert all(check["ok"] for check in checks) == (done.returncode == 0)
    (libraries,) = lines("libraries", done.stdout)
    assert all(f"{name} " in libraries for name in LIBRARIES)
    for name in ("device", "memory", "disk", "isolation"):
        assert len(lines(name, done.stdout)) == 1
    assert lines("model", done.stdout) == [f"ok {cache}"]
    tier, probes = probe()
    assert lines("isolation", done.stdout)[0].endswith(f"tier '{tier}'")
    assert len(lines("sandbox", done.stdout)) == len(probes)


def test_the_device_line_says_in_which_dtype_a_run_has_the_base(cache: Cache, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("REDQUEEN_DTYPE", "float32")
    (device,) = lines("device", redqueen("doctor").stdout)
    assert ", float32" in device
    assert device.startswith((f"ok {cores()} CPU cores", "ok NVIDIA"))


def test_the_device_line_names_the_memory_of_a_gpu(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("redqueen.cli.doctor.device_of", lambda _config: torch.device("cuda"))
    monkeypatch.setattr(torch.cuda, "mem_get_info", lambda: (30 << 30, 80 << 30))
    monkeypatch.setattr(torch.cuda, "get_device_name", lambda: "NVIDIA of a test")
    monkeypatch.delenv("REDQUEEN_DTYPE", raising=False)
    device = next(check.detail for check in doctor.checks() if check.name == "device")
    assert device == "NVIDIA of a test, bfloat16, 30.0 of 80.0 GiB free"


@pytest.mark.parametrize(
    ("missing", "line"),
    [
        ([], "compiled for the GPU when they are first used"),
        (["triton", "a C compiler"], "not compiled, so that a run is slower: triton and a C compiler missing"),
    ],
)
def test_on_a_gpu_a_line_says_whether_kernels_can_be_compiled(
    monkeypatch: pytest.MonkeyPatch, missing: list[str], line: str
) -> None:
    monkeypatch.setattr("redqueen.cli.doctor.device_of", lambda _config: torch.device("cuda"))
    monkeypatch.setattr(torch.cuda, "mem_get_info", lambda: (30 << 30, 80 << 30))
    monkeypatch.setattr(torch.cuda, "get_device_name", lambda: "NVIDIA of a test")
    monkeypatch.setattr(doctor, "missing_for_kernels", lambda: missing)
    found = next(check for check in doctor.checks() if check.name == "kernels")
    assert found.ok
    assert found.detail == line


def test_a_library_that_is_absent_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("redqueen.run.recording.environment.LIBRARIES", ("torch", "redqueen-absent"))
    assert versions() == {"torch": version("torch"), "redqueen-absent": "absent"}


def test_a_damaged_model_fails_and_is_named(cache: Cache) -> None:
    (cache / "model.safetensors").write_bytes(b"Weights")
    done = redqueen("doctor")
    assert done.returncode == 1
    assert lines("model", done.stdout) == [f"FAILED {cache}: model.safetensors damaged, delete the folder"]


def test_a_model_that_is_installed_but_not_converted_is_no_failure(cache: Cache, package: Path) -> None:
    (package / GGUF).touch()
    # A manifest whose files are missing is an unfinished conversion.
    (cache / "model.safetensors").unlink()
    (line,) = lines("model", redqueen("doctor").stdout)
    assert line.startswith("ok not converted yet")
    assert str(cache.parent) in line


def test_a_cache_that_cannot_be_written_fails_and_says_what_to_do(
    package: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (package / GGUF).touch()
    (tmp_path / "file").touch()
    monkeypatch.setenv("REDQUEEN_CACHE", str(tmp_path / "file" / "cache"))
    (line,) = lines("model", redqueen("doctor").stdout)
    assert line.startswith("FAILED it cannot be written to")
    assert line.endswith("set REDQUEEN_CACHE to a folder of yours")


def test_a_missing_model_is_no_failure_since_the_first_run_downloads_it(cache: Cache, package: Path) -> None:
    assert package.exists()
    (cache / MANIFEST).unlink()
    done = redqueen("doctor")
    assert done.returncode == 0
    (line,) = lines("model", done.stdout)
    assert line == f"ok not here yet: the first run downloads it (93 MB), or pip install {REQUIREMENT}"


def test_a_full_disk_fails(cache: Cache) -> None:
    full = Path("/proc")
    if not full.is_dir():
        pytest.skip("a file system without room is needed: Linux has /proc")
    done = redqueen("doctor", cwd=full)
    assert done.returncode == 1
    assert lines("disk", done.stdout) == ["FAILED 0.0 GB free here; a run's checkpoints need about 1"]


def test_without_isolation_it_fails_and_names_the_broken_promise(cache: Cache, monkeypatch: pytest.MonkeyPatch) -> None:
    probes = [
        Probe("files", True, "refused"),
        Probe("seccomp", False, "the filter does not load"),
        Probe("landlock", False, "not in this kernel", required=False),
    ]
    monkeypatch.setattr(doctor, "probe", lambda: ("process", probes))
    done = redqueen("doctor")
    assert done.returncode == 1
    assert lines("sandbox", done.stdout) == [
        "ok files: refused",
        "FAILED seccomp: the filter does not load",
        "ok landlock: absent (not in this kernel); the others hold without it",
    ]
    assert lines("isolation", done.stdout) == ["FAILED tier 'process'"]


def test_an_absent_second_wall_is_no_failure(cache: Cache, monkeypatch: pytest.MonkeyPatch) -> None:
    probes = [Probe("landlock", False, "not in this kernel", required=False)]
    monkeypatch.setattr(doctor, "probe", lambda: ("no-landlock", probes))
    done = redqueen("doctor")
    assert lines("isolation", done.stdout) == ["ok tier 'no-landlock'"]
    assert done.returncode == 0
