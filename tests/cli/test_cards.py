"""What fits which GPU, and how long it would take: `recipes --cards`, `train --dry-run --for`, the table in GPU.md."""

from __future__ import annotations

import pytest

from redqueen.cli.dry_run import RECIPES
from redqueen.engine.kernels.flash import flash_takes_pages
from tests.cli.running import redqueen
from tools import write_cards


@pytest.mark.slow
def test_the_table_of_the_readme_is_what_the_command_prints() -> None:
    if not flash_takes_pages():
        pytest.skip("the table is for torch from 2.12 on")
    done = redqueen("recipes", "--cards")
    assert done.returncode == 0
    (table,) = write_cards.TABLE.findall(write_cards.TARGET.read_text(encoding="utf-8"))
    assert table == done.stdout, "run python -m tools.write_cards"


@pytest.mark.slow
def test_every_recipe_for_a_gpu_is_in_it_and_larger_cards_are_faster() -> None:
    lines = redqueen("recipes", "--cards").stdout.splitlines()
    assert [line.split("`")[1] for line in lines[2:]] == list(RECIPES)
    for line in lines[2:]:
        cells = [cell.strip() for cell in line.strip("|").split("|")[1:]]
        hours = [float(cell.split()[-2]) for cell in cells if cell != "does not fit"]
        assert len(hours) >= 2
        assert hours == sorted(hours, reverse=True)


@pytest.mark.parametrize(("name", "size", "fits"), [("coder_7b", "80GB", True), ("coder_7b", "24GB", False)])
def test_a_plan_for_a_card_needs_neither_the_base_nor_a_network(
    monkeypatch: pytest.MonkeyPatch, name: str, size: str, fits: bool
) -> None:
    def refuse(*_: object) -> None:
        raise AssertionError("nothing is asked of the Hub")

    monkeypatch.setattr("redqueen.engine.model.source.source", refuse)
    done = redqueen("train", name, "--dry-run", "--for", size)
    assert done.stderr == f"planning {name} ...\n"
    first, *others = done.stdout.splitlines()
    assert done.returncode == (0 if fits else 1)
    if not fits:
        assert first.startswith("does not fit: 'Qwen/Qwen2.5-Coder-7B-Instruct' with 8 members needs at least")
        assert ", of which " in first
        assert others == []
        return
    assert first.startswith("it fits")
    assert first.endswith(" 78,400 MB are free there")
    assert others[1].startswith("batches: 512 rows at once")
    assert others[2].startswith("time, modelled, without the sandbox: ")
    assert others[2].split(":")[0].count("modelled") == 1
    assert len(others) == 4


def test_where_vllm_samples_no_time_is_modelled() -> None:
    done = redqueen("train", "coder_0_5b", "sampling.engine=vllm", "--dry-run", "--for", "24GB")
    assert done.returncode == 0
    assert "time: not modelled where vLLM samples" in done.stdout


@pytest.mark.slow
def test_a_base_in_fewer_bits_has_no_pages_and_no_modelled_time(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("redqueen.engine.model.is_installed", lambda _name: True)
    done = redqueen("train", "coder_7b", "model.quantize=nf4", "--dry-run", "--for", "24GB")
    assert "time: not modelled for a base that transformers computes" in done.stdout, done.stderr
    assert done.returncode == 0
    assert "batches: 64 rows at once, prompts in passes" in done.stdout
    assert "sampling.cache_tokens" not in done.stdout
