"""Unpacks a parcel of `tools/gpu_pack.py` on a machine without network, with nothing but Python.

    python3 tools/gpu_unpack.py PARCEL STORE

The store outlives the parcel. Wheels are unpacked into STORE/site, unless the machine has what they bring, as new or
newer. When the last parcel is there, the weights are joined and checked.
"""

from __future__ import annotations

import hashlib
import json
import re
import shutil
import sys
import zipfile
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path
from typing import Any


def unpack(parcel: Path, store: Path) -> list[str]:
    """Unpacks a parcel; returns what was done, in words. Raises ValueError if something is damaged."""
    manifest: dict[str, Any] = json.loads((parcel / "MANIFEST.json").read_text())
    kept = store / "parcels" / f"{manifest['number']}"
    for name, expected in manifest["files"].items():
        content = (parcel / name).read_bytes()
        if hashlib.sha256(content).hexdigest() != expected:
            raise ValueError(f"{parcel / name} is damaged")
        (kept / name).parent.mkdir(parents=True, exist_ok=True)
        (kept / name).write_bytes(content)
    done = [_unpack_wheel(wheel, store / "site") for wheel in sorted((kept / "wheels").glob("*.whl"))]
    return [*done, _join(store, manifest)]


def _unpack_wheel(wheel: Path, site: Path) -> str:
    name, release = wheel.name.split("-")[:2]
    try:
        here = version(name)
    except PackageNotFoundError:
        here = ""
    # What the machine has fits its torch, and stays.
    if here and _numbers(here) >= _numbers(release):
        return f"{name}: {here} is here"
    with zipfile.ZipFile(wheel) as archive:
        archive.extractall(site)
    return f"{name}: unpacked from {wheel.name}" + (f", {here} was here" if here else "")


def _numbers(release: str) -> list[int]:
    return [int(number) for number in re.findall(r"\d+", release)]


def _join(store: Path, manifest: dict[str, Any]) -> str:
    """Joins the weights, if all parcels are there."""
    total = manifest["of"]
    parts = [store / "parcels" / f"{number}" / f"weights.{number}" for number in range(1, total + 1)]
    missing = [part.name for part in parts if not part.is_file()]
    if missing:
        return f"parcel {manifest['number']} of {total}: {', '.join(missing)} not here yet"
    target = store / "site" / manifest["weights"]["path"]
    target.parent.mkdir(parents=True, exist_ok=True)
    digest = hashlib.sha256()
    with target.open("wb") as file:
        for part in parts:
            content = part.read_bytes()
            digest.update(content)
            file.write(content)
    if digest.hexdigest() != manifest["weights"]["sha256"]:
        target.unlink()
        raise ValueError("the joined weights are damaged")
    shutil.rmtree(store / "parcels")
    return f"parcel {manifest['number']} of {total}: the weights are joined, {target.stat().st_size} bytes"


if __name__ == "__main__":
    try:
        print("\n".join(unpack(Path(sys.argv[1]), Path(sys.argv[2]))))
    except (OSError, ValueError, zipfile.BadZipFile) as error:
        sys.exit(f"gpu_unpack: {error}")
