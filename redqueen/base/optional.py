"""Libraries that only some users need: an extra of the package installs each, and it is imported when it is used."""

from __future__ import annotations

import importlib
import importlib.util
import sys
from typing import Any

from redqueen.errors import UserError

INSTALL = "pip install '.[{extra}]'"
"""Installs an extra, in a checkout: the package is in no index yet. All messages take the command from here."""

TRAINING = ("torch", "transformers", "peft", "safetensors", "gguf", "numba", "matplotlib")
"""What the extra `train` brings. A bare install, which judges and reads runs, has none of it."""


class MissingLibraryError(UserError):
    """A library that is not installed; the message says which extra brings it."""


def require(library: str, extra: str, what: str) -> Any:
    """Returns the module `library`. Raises MissingLibraryError, which says that `what` needs it, if it is not there."""
    if not is_installed(library.partition(".")[0]):
        raise missing(library, extra, what)
    try:
        return importlib.import_module(library)
    except ImportError as error:
        raise missing(library, extra, what) from error


def is_installed(library: str) -> bool:
    """Returns whether the library can be found, without importing it: some take seconds.

    A folder without `__init__.py` is no library, though Python would import it: wandb writes a folder `wandb` into the
    current one, and Ray a folder `ray` into /tmp.
    """
    if library in sys.modules:
        return True
    spec = importlib.util.find_spec(library)
    return spec is not None and spec.origin is not None


def missing(library: str, extra: str, what: str) -> MissingLibraryError:
    """Returns the error that says how to install what is missing."""
    return MissingLibraryError(f"{what} needs {library}, which is not installed: {how_to_install(extra)}")


def how_to_install(extra: str) -> str:
    """Returns the command that installs an extra, and where to type it."""
    return f"{INSTALL.format(extra=extra)} in a checkout of Red Queen"
