"""Where keys and values are kept in pages (`redqueen.policy.sampling.pages`), and where a row has a room of its own."""

from __future__ import annotations

import os

from torch import Tensor

from redqueen.errors import ModelError
from redqueen.policy.kernels import dispatch
from redqueen.policy.kernels.flash import flash_takes_pages, takes_heads_of

VARIABLE = "REDQUEEN_PAGES"
"""The environment variable that chooses: `auto` (the default), `off`, or `on` (on any device, however slow)."""


def pages_suit(keys: Tensor) -> bool:
    """Returns whether such keys [.., D] are kept in pages: on a GPU whose flash attention reads them.

    A tensor of the meta device stands for one of a GPU that need not be here.
    Raises ModelError if REDQUEEN_PAGES is none of `auto`, `on` and `off`.
    """
    choice = os.environ.get(VARIABLE) or "auto"
    if choice not in ("auto", "on", "off"):
        raise ModelError(f"{VARIABLE} is '{choice}': use auto, on or off")
    if choice == "auto":
        return has_flash(keys) and flash_takes_pages()
    return choice == "on"


def has_flash(keys: Tensor) -> bool:
    """Returns whether flash attention takes such keys."""
    return dispatch.on_gpu(keys.device) and dispatch.flash_supports(keys) and takes_heads_of(keys.shape[-1])
