"""The distance of two updates against the dense oracle."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from redqueen.assets import WARM
from redqueen.config import BUNDLED
from redqueen.config.recipes import configure
from redqueen.engine.adapters import CONFIG, Adapter, Factors, other_base, relative_distance
from redqueen.engine.model.source import CONVERSION
from redqueen.evals.targets import BASE, WARM_START, warnings_about
from redqueen.members import ORIGINAL
from redqueen.run.session import start_of_another_base

SITES = {"q": (6, 4), "up": (5, 9)}


def adapter(seed: int, rank: int = 3, scale: float = 1.0, dtype: torch.dtype = torch.float32) -> dict[str, Factors]:
    g = torch.Generator().manual_seed(seed)
    return {
        name: Factors(
            (torch.randn(i, rank, generator=g) * scale).to(dtype), torch.randn(rank, o, generator=g).to(dtype)
        )
        for name, (i, o) in SITES.items()
    }


def dense(x: Adapter, y: Adapter) -> float:
    def flat(a: Adapter) -> torch.Tensor:
        return torch.cat([(a[name].a.double() @ a[name].b.double()).flatten() for name in SITES])

    return float((flat(x) - flat(y)).norm() / max(flat(x).norm(), flat(y).norm()))


@given(st.integers(0, 1000), st.integers(0, 1000), st.floats(1e-3, 1e3), st.integers(1, 7))
def test_it_is_the_dense_formula_and_a_symmetric_one(one: int, two: int, scale: float, rank: int) -> None:
    x, y = adapter(one, rank), adapter(two, 3, scale)
    assert relative_distance(x, y) == pytest.approx(dense(x, y), abs=1e-6)
    assert relative_distance(x, y) == pytest.approx(relative_distance(y, x), abs=1e-7)
    assert 0.0 <= relative_distance(x, y) <= 2.0 + 1e-9


def test_what_the_factors_say_differently_is_the_same_update() -> None:
    x = adapter(1)
    turn = torch.linalg.qr(torch.randn(3, 3, generator=torch.Generator().manual_seed(0)))[0]
    turned = {name: Factors(f.a @ turn * 4, turn.T @ f.b / 4) for name, f in x.items()}
    assert relative_distance(x, turned) < 1e-6
    assert relative_distance(x, x) < 1e-7


def test_opposites_are_two_apart_and_zero_is_one_away_from_anything() -> None:
    x = adapter(2)
    assert relative_distance(x, {n: Factors(-f.a, f.b) for n, f in x.items()}) == pytest.approx(2.0)
    nothing = {n: Factors(f.a, torch.zeros_like(f.b)) for n, f in x.items()}
    assert relative_distance(x, nothing) == pytest.approx(1.0)
    assert relative_distance(nothing, nothing) == 0.0


def test_bf16_factors_are_taken_as_they_are() -> None:
    x, y = adapter(1, dtype=torch.bfloat16), adapter(2, dtype=torch.bfloat16)
    assert relative_distance(x, y) == pytest.approx(dense(x, y), abs=1e-6)


def test_other_sites_are_refused() -> None:
    x = adapter(1)
    with pytest.raises(ValueError, match="differ in sites"):
        relative_distance(x, {"q": x["q"]})


# Which base an adapter was made for: another one is a line, other spellings of one base are none.


def made_for(folder: Path, base: object) -> Path:
    folder.mkdir(exist_ok=True)
    (folder / CONFIG).write_text(json.dumps({"base_model_name_or_path": base}))
    return folder


@pytest.mark.parametrize(
    ("made", "used"),
    [
        ("Qwen/Qwen2.5-0.5B", "Qwen/Qwen2.5-0.5B"),
        ("qwen/qwen2.5-0.5b/", "Qwen/Qwen2.5-0.5B"),
        ("/data/models/Qwen2.5-0.5B", "Qwen/Qwen2.5-0.5B"),
        ("Qwen/Qwen2.5-0.5B", "../Qwen2.5-0.5B"),
        ("/cache/hub/models--Qwen--Qwen2.5-0.5B/snapshots/0123abcd", "Qwen/Qwen2.5-0.5B"),
        # What exports, checkpoints and PEFT itself write for the bundled model.
        (ORIGINAL, BUNDLED),
        (BUNDLED, BUNDLED),
        (BUNDLED, ORIGINAL),
        (f"/home/me/.cache/redqueen/{CONVERSION}", BUNDLED),
        # It is not said.
        (None, BUNDLED),
        ("", BUNDLED),
        (7, BUNDLED),
    ],
)
def test_another_spelling_of_the_base_is_no_other_base(tmp_path: Path, made: object, used: str) -> None:
    assert other_base(made_for(tmp_path / "a", made), used) == ""


@pytest.mark.parametrize(
    ("made", "used"),
    [
        ("Qwen/Qwen2.5-0.5B-Instruct", "Qwen/Qwen2.5-0.5B"),
        ("Qwen/Qwen2.5-0.5B-Instruct", BUNDLED),
        ("HuggingFaceTB/SmolLM2-135M", BUNDLED),
        ("/cache/hub/models--Qwen--Qwen2.5-0.5B-Instruct/snapshots/0123abcd", "Qwen/Qwen2.5-0.5B"),
    ],
)
def test_another_base_is_one_line(tmp_path: Path, made: str, used: str) -> None:
    folder = made_for(tmp_path / "a", made)
    assert other_base(folder, used) == (
        f"warning: {folder} was made for the base {made}, by its {CONFIG}, and is used on {used}"
    )


def test_two_folders_are_one_base_if_they_are_one_folder(tmp_path: Path) -> None:
    (tmp_path / "one" / "base").mkdir(parents=True)
    (tmp_path / "two" / "base").mkdir(parents=True)
    (tmp_path / "link").symlink_to(tmp_path / "one" / "base")
    folder = made_for(tmp_path / "a", str(tmp_path / "one" / "base"))
    assert other_base(folder, str(tmp_path / "link")) == ""
    assert other_base(folder, f"{tmp_path}/two/../one/base/") == ""
    assert other_base(folder, str(tmp_path / "two" / "base")) != ""


def test_a_folder_that_cannot_be_read_says_nothing_here(tmp_path: Path) -> None:
    assert other_base(tmp_path / "none", BUNDLED) == ""
    (tmp_path / CONFIG).write_text("[1]")
    assert other_base(tmp_path, BUNDLED) == ""


def test_eval_and_train_say_it_of_folders_alone(tmp_path: Path) -> None:
    folder = made_for(tmp_path / "a", "Qwen/Qwen2.5-0.5B")
    config = configure([])
    (line,) = warnings_about([BASE, WARM_START, str(WARM), str(folder)], config.model.name)
    base = config.model.name
    assert line == start_of_another_base(str(folder), base)
    assert start_of_another_base(config.population.init, base) == start_of_another_base(str(WARM), base) == ""
