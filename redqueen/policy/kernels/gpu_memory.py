"""Memory that torch keeps on a GPU for later tensors."""

from __future__ import annotations

import torch


def release_unused(device: torch.device) -> None:
    """Gives the memory of freed tensors back to the GPU; does nothing on other devices."""
    # torch keeps the memory of a freed tensor, and cuts it up for smaller ones. A tensor of tens of gigabytes, such as
    # a KV cache, then fits neither into what is cut up nor beside it. Call this where one ends and before one begins.
    if device.type == "cuda":
        torch.cuda.empty_cache()
