"""Finds a base and reads its configuration and tokenizer, before any weight is downloaded or loaded."""

from __future__ import annotations

import os
import socket
import urllib.request
from dataclasses import dataclass
from difflib import get_close_matches
from functools import cache
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

import huggingface_hub
import transformers
from huggingface_hub.errors import HFValidationError
from transformers import AutoConfig, AutoTokenizer, PreTrainedConfig
from transformers.models.auto.configuration_auto import CONFIG_MAPPING_NAMES
from transformers.models.auto.modeling_auto import MODEL_FOR_CAUSAL_LM_MAPPING_NAMES

from redqueen.config import BUNDLED, ModelConfig
from redqueen.engine.model.bundled import obtain
from redqueen.engine.model.families import check_config
from redqueen.engine.model.tokens import chat_fault
from redqueen.errors import ModelError

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
    if folder.exists() or name.startswith((".", "/", "~")) or name.count("/") > 1:
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
