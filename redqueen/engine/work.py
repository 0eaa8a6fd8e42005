"""What a policy computed in some time: tokens, rows, seconds, model FLOPs and memory. Loads no torch."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(slots=True, kw_only=True)
class Work:
    """What was computed, e.g. in a phase of a step."""

    sampled_tokens: int = 0
    prompt_tokens: int = 0
    """Tokens of prompts that were computed for sampling; a prompt that several rows share counts once."""
    decode_steps: int = 0
    """Steps of a batch, each of which samples one token for every row; those of several processes are added."""
    sampling_s: float = 0.0
    trained_tokens: int = 0
    trained_rows: int = 0
    """Tokens that went through the model for training, those of prompts included."""
    training_s: float = 0.0
    flops: float = 0.0
    """Model FLOPs: those of the base's products alone, and of the backward pass only what frozen weights need."""
    peak_flops: float | None = None
    """What the device can do in a second; None if that is not known."""
    device_bytes: int | None = None
    """The most memory that tensors had on the GPU; None on a CPU."""
    host_bytes: int = 0
    """The most memory that this process has had since it began, without worker processes."""

    def add(self, other: Work) -> None:
        self.sampled_tokens += other.sampled_tokens
        self.prompt_tokens += other.prompt_tokens
        self.decode_steps += other.decode_steps
        self.sampling_s += other.sampling_s
        self.trained_tokens += other.trained_tokens
        self.trained_rows += other.trained_rows
        self.training_s += other.training_s
        self.flops += other.flops
        self.peak_flops = other.peak_flops
        if other.device_bytes is not None:
            self.device_bytes = max(self.device_bytes or 0, other.device_bytes)
        self.host_bytes = max(self.host_bytes, other.host_bytes)
