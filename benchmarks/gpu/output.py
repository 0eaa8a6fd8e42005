"""Lines of a GPU day: what was measured, beside what was planned or is wanted. They are printed and kept in a file."""

from __future__ import annotations

import json
import os
import time
from pathlib import Path

FOLDER = "OUT"
"""The environment variable that names the folder of the results, `day.jsonl` among them; nothing is written without."""
PART = "REDQUEEN_DAY_PART"
"""The environment variable that names the part that is running."""
END = "REDQUEEN_DAY_END"
"""The environment variable with the moment at which the part is ended, in seconds of the machine's steady clock."""

# What a part that nothing ends takes as its time.
_ALONE = 600.0


def folder() -> Path | None:
    """Returns the folder of the results."""
    named = os.environ.get(FOLDER)
    return Path(named) if named else None


def seconds_left() -> float:
    """Returns the seconds until this part is ended."""
    end = os.environ.get(END)
    return float(end) - time.monotonic() if end else _ALONE


def keep(**fields: object) -> None:
    """Appends a line to the results, at once: a machine may be gone before the day ends."""
    place = folder()
    if place is None:
        return
    place.mkdir(parents=True, exist_ok=True)
    line = json.dumps({"part": os.environ.get(PART, ""), **fields}, default=str)
    with (place / "day.jsonl").open("a") as file:
        file.write(f"{line}\n")


def say(name: str, value: object, wanted: object = None) -> None:
    """Prints a number, and what is wanted of it or was planned."""
    print(f"{name}: {value}" + (f"   [{wanted}]" if wanted is not None else ""), flush=True)
    keep(name=name.strip(), value=value, wanted=wanted)
