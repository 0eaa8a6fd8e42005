"""What isolation this machine really gives, found out in real children."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Probe:
    """One question put to a real child."""

    name: str
    ok: bool
    detail: str


def probe() -> tuple[str, list[Probe]]:
    """The isolation tier, and what each probe found."""
    return "process", []
