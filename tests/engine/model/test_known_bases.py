"""The recipes' bases are known without a network: their dimensions, and about how long prompts are."""

from __future__ import annotations

from pathlib import Path

import pytest
from transformers import Qwen2Config

from redqueen.config import ModelConfig
from redqueen.config.recipes import RECIPES, recipe
from redqueen.engine.model.dimensions import KNOWN, known_base, rough_token_counter, shape_in, shape_of, token_counter
from redqueen.engine.model.source import cached
from redqueen.method.prompt_lengths import prompt_lengths

TARGETS = (ModelConfig().targets, ("q_proj", "v_proj"))


@pytest.mark.slow
@pytest.mark.parametrize("targets", TARGETS)
@pytest.mark.parametrize("name", [name for name in KNOWN if name.endswith("Instruct")])
def test_the_dimensions_are_those_of_transformers(name: str, targets: tuple[str, ...]) -> None:
    base = KNOWN[name]
    shell = Qwen2Config(
        vocab_size=base.vocabulary,
        hidden_size=base.hidden,
        num_hidden_layers=base.layers,
        num_attention_heads=base.heads,
        num_key_value_heads=base.kv_heads,
        intermediate_size=base.intermediate,
        tie_word_embeddings=base.tied,
        dtype="bfloat16",
    )
    assert shape_of(ModelConfig(name=name, targets=targets)) == shape_in(shell, targets)


@pytest.mark.slow
def test_they_have_as_many_weights_as_their_makers_say() -> None:
    billions = {name: shape_of(ModelConfig(name=name)).weights / 1e9 for name in KNOWN}
    for size, expected in {"0.5B": 0.49, "1.5B": 1.54, "3B": 3.09, "7B": 7.62, "14B": 14.8, "32B": 32.8}.items():
        assert billions[f"Qwen/Qwen2.5-Coder-{size}"] == pytest.approx(expected, abs=0.06)


def test_a_folder_of_that_name_is_a_base_of_its_own(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    assert known_base("Qwen/Qwen2.5-Coder-7B") is not None
    (tmp_path / "Qwen" / "Qwen2.5-Coder-7B").mkdir(parents=True)
    assert known_base("Qwen/Qwen2.5-Coder-7B") is None
    assert known_base("Qwen/Qwen2.5-Coder-8B") is None


def test_every_recipe_for_a_gpu_has_a_known_base() -> None:
    names = [name for name in RECIPES if name.startswith(("coder", "paper"))]
    assert len(names) == 6
    for name in names:
        config = recipe(name)
        assert known_base(config.model.name) is not None
        assert config.recipe == name
        assert config.model.alpha == 2 * config.model.rank
        # Batches are made to fit the card.
        assert config.sampling.batch_rows == config.sampling.prefill_tokens == config.learning.batch_tokens == 0


@pytest.mark.slow
@pytest.mark.parametrize("references", [2, 4, 6])
def test_without_a_tokenizer_prompts_are_not_taken_to_be_shorter_than_they_are(references: int) -> None:
    if cached() is None:
        pytest.skip("the bundled model is not converted yet")
    config = recipe("paper_7b").override([f"game.references={references}", "model.name=smollm2-135m-instruct"])
    # The shipped tokenizer has a third of the tokens of the recipes' bases, so it makes more of a text.
    counted = prompt_lengths(config.play_settings, token_counter(config.model))
    rough = prompt_lengths(config.play_settings, rough_token_counter())
    assert counted.proposal <= rough.proposal < 1.2 * counted.proposal
