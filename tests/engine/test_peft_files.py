"""Adapters on disk are PEFT's own: PEFT reads ours, we read PEFT's, and what we cannot represent is refused."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from peft import LoraConfig, PeftModel, get_peft_model
from safetensors.torch import load_file, save_file

from redqueen.engine.adapters import CONFIG, WEIGHTS, Factors, load_adapter, refit, save_adapter
from redqueen.engine.lora.adapter_bank import AdapterBank
from redqueen.engine.model.base import Base
from redqueen.engine.model.decoder import FAMILIES
from redqueen.errors import AdapterError
from tests.reference import LOGIT_ROUNDING, member_logits, merged

TARGETS = ("q_proj", "v_proj", "down_proj")
IDS = torch.tensor([[5, 6, 7, 8, 9], [9, 8, 7, 6, 5]])


def noisy(shapes: dict[str, tuple[int, int]], rank: int, seed: int = 0) -> dict[str, Factors]:
    g = torch.Generator().manual_seed(seed)
    return {
        name: Factors(
            torch.randn(fan_in, rank, generator=g) / fan_in**0.5, 0.05 * torch.randn(rank, fan_out, generator=g)
        )
        for name, (fan_in, fan_out) in shapes.items()
    }


SHAPES = {
    "model.layers.0.self_attn.q_proj": (8, 8),
    "model.layers.0.mlp.down_proj": (16, 8),
    "model.layers.1.self_attn.q_proj": (8, 8),
    "model.layers.1.mlp.down_proj": (16, 8),
}


@pytest.fixture
def saved(tmp_path: Path) -> Path:
    save_adapter(tmp_path / "a", noisy(SHAPES, 3), alpha=6.0, base="some/base")
    return tmp_path / "a"


def update(factors: Factors, scale: float) -> torch.Tensor:
    return scale * factors.a.double() @ factors.b.double()


def test_what_was_saved_is_loaded_bit_for_bit(saved: Path) -> None:
    loaded, alpha = load_adapter(saved)
    adapter = noisy(SHAPES, 3)
    assert alpha == 6.0
    assert loaded.keys() == adapter.keys()
    for name, factors in adapter.items():
        for one, other in ((loaded[name].a, factors.a), (loaded[name].b, factors.b)):
            assert torch.equal(one, other)
            assert one.is_contiguous()


def test_the_folder_is_what_peft_writes(saved: Path) -> None:
    config = json.loads((saved / CONFIG).read_text())
    assert (config["peft_type"], config["task_type"], config["r"], config["bias"]) == ("LORA", "CAUSAL_LM", 3, "none")
    assert config["base_model_name_or_path"] == "some/base"
    assert sorted(config["target_modules"]) == ["down_proj", "q_proj"]
    tensors = load_file(saved / WEIGHTS)
    assert tensors["base_model.model.model.layers.1.mlp.down_proj.lora_A.weight"].shape == (3, 16)
    assert tensors["base_model.model.model.layers.1.mlp.down_proj.lora_B.weight"].shape == (8, 3)
    assert len(tensors) == 2 * len(SHAPES)


@pytest.mark.parametrize(("alpha", "kind"), [(6.0, int), (6.5, float), (32, int)])
def test_a_whole_alpha_is_an_int_in_the_file(tmp_path: Path, alpha: float, kind: type) -> None:
    save_adapter(tmp_path, noisy(SHAPES, 3), alpha=alpha, base="b")
    written = json.loads((tmp_path / CONFIG).read_text())["lora_alpha"]
    assert (written, type(written)) == (alpha, kind)
    assert load_adapter(tmp_path)[1] == alpha


def test_bf16_files_come_back_as_fp32(tmp_path: Path) -> None:
    adapter = noisy(SHAPES, 3)
    save_adapter(tmp_path, adapter, alpha=6.0, base="b", dtype=torch.bfloat16)
    assert {t.dtype for t in load_file(tmp_path / WEIGHTS).values()} == {torch.bfloat16}
    for name, factors in load_adapter(tmp_path)[0].items():
        assert factors.a.dtype == factors.b.dtype == torch.float32
        assert torch.equal(factors.a, adapter[name].a.bfloat16().float())


def logits(base: Base, bank: AdapterBank) -> torch.Tensor:
    return torch.stack(member_logits(base, bank, ["a", "a"], IDS.tolist()))


# PEFT applies the factors, ours applies them, and the oracle has them in its weights: three ways to the same numbers
@pytest.mark.parametrize("family", FAMILIES)
@pytest.mark.parametrize(("rank", "alpha"), [(4, 8.0), (4, 10.5), (2, 8.0)])
def test_peft_computes_the_same_logits_from_our_folder(
    tmp_path: Path, new_base: Callable[..., Base], family: str, rank: int, alpha: float
) -> None:
    ours, theirs = new_base(family), new_base(family)
    bank = AdapterBank(ours.decoder.sites, 2, 4, alpha, TARGETS)
    bank.add("other", noisy(dict(bank.shapes()), 4, seed=1))
    bank.add("a", noisy(dict(bank.shapes()), rank))
    save_adapter(tmp_path, bank.read("a"), alpha=alpha, base=ours.name)
    with torch.no_grad():
        plain = theirs.model(IDS).logits
        peft = PeftModel.from_pretrained(theirs.model, str(tmp_path))
        expected = peft(input_ids=IDS).logits
        oracle = merged(ours, bank, "a")(IDS).logits
    assert (logits(ours, bank) - expected).abs().max() < LOGIT_ROUNDING
    assert (oracle - expected).abs().max() < LOGIT_ROUNDING
    assert (expected - plain).abs().max() > 0.1


@pytest.mark.parametrize("family", FAMILIES)
def test_our_bank_computes_the_same_logits_from_pefts_folder(
    tmp_path: Path, new_base: Callable[..., Base], family: str
) -> None:
    ours, theirs = new_base(family), new_base(family)
    torch.manual_seed(0)
    config = LoraConfig(r=3, lora_alpha=2, target_modules=list(TARGETS), init_lora_weights=False, task_type="CAUSAL_LM")
    peft = get_peft_model(theirs.model, config).eval()
    peft.save_pretrained(str(tmp_path))
    adapter, alpha = load_adapter(tmp_path)
    bank = AdapterBank(ours.decoder.sites, 1, 3, alpha, TARGETS)
    bank.add("a", adapter)
    with torch.no_grad():
        expected = peft(input_ids=IDS).logits
        plain = ours.model(IDS).logits
        oracle = merged(ours, bank, "a")(IDS).logits
    assert (logits(ours, bank) - expected).abs().max() < LOGIT_ROUNDING
    assert (oracle - expected).abs().max() < LOGIT_ROUNDING
    assert (expected - plain).abs().max() > 0.1


@pytest.mark.parametrize(
    ("change", "named"),
    [
        ({"use_dora": True}, "use_dora"),
        ({"use_rslora": True}, "use_rslora"),
        ({"rank_pattern": {"q_proj": 8}}, "rank_pattern"),
        ({"alpha_pattern": {"q_proj": 8}}, "alpha_pattern"),
        ({"fan_in_fan_out": True}, "fan_in_fan_out"),
        ({"modules_to_save": ["lm_head"]}, "modules_to_save"),
        ({"layer_replication": [[0, 1]]}, "layer_replication"),
        ({"use_dora": True, "use_rslora": True}, "use_dora, use_rslora"),
        ({"peft_type": "IA3"}, "IA3"),
        # These were trained on a base that their start had changed.
        ({"init_lora_weights": "pissa_niter_4"}, "init_lora_weights=pissa_niter_4"),
        ({"init_lora_weights": "loftq"}, "init_lora_weights=loftq"),
        ({"init_lora_weights": "lora_ga", "lora_ga_config": {"direction": "ArB2r"}}, "init_lora_weights=lora_ga"),
        ({"init_lora_weights": "LoRA_GA"}, "init_lora_weights=lora_ga"),
        # A start that is not known may be one of them.
        ({"init_lora_weights": "some_later_one"}, "init_lora_weights=some_later_one"),
        ({"kasa_config": {"beta": 1e-4}}, "kasa_config"),
        ({"use_qalora": True}, "use_qalora"),
    ],
)
def test_a_variant_is_refused_by_name(saved: Path, change: dict[str, object], named: str) -> None:
    config = json.loads((saved / CONFIG).read_text())
    (saved / CONFIG).write_text(json.dumps({**config, **change}))
    with pytest.raises(AdapterError) as caught:
        load_adapter(saved)
    assert f"{saved}: only plain LoRA is supported, this uses {named}" == str(caught.value)


@pytest.mark.parametrize("start", [True, False, None, "gaussian", "eva", "orthogonal", "mica"])
def test_an_adapter_whose_start_left_the_base_as_it_is_is_loaded(saved: Path, start: object) -> None:
    config = json.loads((saved / CONFIG).read_text())
    (saved / CONFIG).write_text(json.dumps({**config, "init_lora_weights": start}))
    assert load_adapter(saved)[0].keys() == SHAPES.keys()


@pytest.mark.parametrize(
    "options",
    [
        {"use_dora": True},
        {"use_rslora": True},
        {"rank_pattern": {"q_proj": 2}},
        {"modules_to_save": ["lm_head"]},
        # The next two train biases, which are in the weights and would be left out silently.
        {"bias": "lora_only"},
        {"lora_bias": True},
    ],
    ids=lambda o: next(iter(o)),
)
def test_what_peft_itself_writes_for_a_variant_is_refused(
    tmp_path: Path, new_base: Callable[..., Base], options: dict[str, object]
) -> None:
    # qwen2's q_proj has a bias
    config = LoraConfig(r=3, lora_alpha=6, target_modules=["q_proj"], task_type="CAUSAL_LM", **options)  # type: ignore[arg-type]
    get_peft_model(new_base("qwen2").model, config).save_pretrained(str(tmp_path))
    with pytest.raises(AdapterError) as caught:
        load_adapter(tmp_path)
    assert str(tmp_path) in str(caught.value)


# Tensors that are no LoRA factors belong to an update that we would not apply.
@pytest.mark.parametrize(
    "name", ["lora_magnitude_vector", "lora_B.bias", "base_layer.bias", "lora_embedding_A", "modules_to_save.weight"]
)
def test_weights_that_are_no_factors_are_refused(saved: Path, name: str) -> None:
    tensors = load_file(saved / WEIGHTS)
    tensors[f"base_model.model.model.layers.0.self_attn.q_proj.{name}"] = torch.ones(8)
    save_file(tensors, saved / WEIGHTS)
    with pytest.raises(AdapterError):
        load_adapter(saved)


def refused(folder: Path) -> str:
    with pytest.raises(AdapterError) as caught:
        load_adapter(folder)
    assert str(folder) in str(caught.value)
    assert "\n" not in str(caught.value)
    return str(caught.value)


def test_a_missing_half_is_refused(saved: Path) -> None:
    tensors = load_file(saved / WEIGHTS)
    del tensors["base_model.model.model.layers.0.self_attn.q_proj.lora_B.weight"]
    save_file(tensors, saved / WEIGHTS)
    assert "model.layers.0.self_attn.q_proj.lora_B" in refused(saved)


# The opposite case: a loader that lists sites by lora_A would leave the site out silently.
def test_the_other_missing_half_is_refused_too(saved: Path) -> None:
    tensors = load_file(saved / WEIGHTS)
    del tensors["base_model.model.model.layers.0.self_attn.q_proj.lora_A.weight"]
    save_file(tensors, saved / WEIGHTS)
    assert "model.layers.0.self_attn.q_proj" in refused(saved)


def test_an_adapter_without_weights_is_refused(saved: Path) -> None:
    save_file({}, saved / WEIGHTS)
    assert "holds no LoRA weights" in refused(saved)


@pytest.mark.parametrize("name", [CONFIG, WEIGHTS])
@pytest.mark.parametrize("content", [None, b"", b"{", b"\xff\xfe", b"[]", b"null", b"{}"])
def test_an_unreadable_folder_is_refused_in_one_line(saved: Path, name: str, content: bytes | None) -> None:
    (saved / name).unlink()
    if content is not None:
        (saved / name).write_bytes(content)
    refused(saved)


def test_a_folder_that_is_not_there_is_refused(tmp_path: Path) -> None:
    assert "is not a readable PEFT adapter" in refused(tmp_path / "absent")


@pytest.mark.parametrize("alpha", [None, "many", [1]])
def test_a_configuration_without_a_usable_alpha_is_refused(saved: Path, alpha: object) -> None:
    config = json.loads((saved / CONFIG).read_text())
    (saved / CONFIG).write_text(json.dumps({**config, "lora_alpha": alpha}))
    refused(saved)
    del config["lora_alpha"]
    (saved / CONFIG).write_text(json.dumps(config))
    refused(saved)


@given(
    st.integers(1, 4),
    st.integers(0, 4),
    st.floats(0.1, 8),
    st.floats(0.1, 8),
    st.integers(0, 2**32),
)
def test_refitting_keeps_the_update_at_any_rank_and_scale(
    rank: int, spare: int, scale: float, new_scale: float, seed: int
) -> None:
    adapter = noisy(SHAPES, rank)
    fitted = refit(adapter, scale, rank + spare, new_scale, torch.Generator().manual_seed(seed))
    assert fitted.keys() == adapter.keys()
    for name, factors in fitted.items():
        fan_in, fan_out = SHAPES[name]
        assert factors.a.shape == (fan_in, rank + spare)
        assert factors.b.shape == (rank + spare, fan_out)
        expected = update(adapter[name], scale)
        torch.testing.assert_close(
            update(factors, new_scale), expected, rtol=1e-5, atol=1e-5 * expected.abs().max().item()
        )


def test_refitting_to_the_same_rank_and_scale_changes_no_bit() -> None:
    adapter = noisy(SHAPES, 3)
    fitted = refit(adapter, 2.0, 3, 2.0, torch.Generator())
    assert all(torch.equal(fitted[n].a, f.a) and torch.equal(fitted[n].b, f.b) for n, f in adapter.items())


def test_spare_components_can_learn() -> None:
    # with a zero B row and a zero A column neither would ever get a gradient
    fitted = refit(noisy(SHAPES, 2), 1.0, 5, 1.0, torch.Generator().manual_seed(0))
    for factors in fitted.values():
        assert not factors.b[2:].any()
        assert (factors.a[:, 2:].abs().sum(0) > 0).all()
        assert torch.linalg.matrix_rank(factors.a) == 5


def test_an_update_that_does_not_fit_is_refused_with_a_way_out() -> None:
    with pytest.raises(AdapterError, match=r"has rank 4, model\.rank is 2: raise model\.rank, or use"):
        refit(noisy(SHAPES, 4), 1.0, 2, 1.0, torch.Generator())


PAIR = "base_model.model.model.layers.0.self_attn.q_proj.lora_{}.weight"


@pytest.mark.parametrize(
    ("a", "b", "reason"),
    [
        (torch.zeros(4, 8), torch.zeros(8, 2), "do not have the rank of the configuration, 4"),
        (torch.zeros(2, 8), torch.zeros(8, 2), "do not have the rank of the configuration, 4"),
        (torch.zeros(0, 8), torch.zeros(8, 0), "are not those of two matrices"),
        (torch.zeros(8), torch.zeros(8), "are not those of two matrices"),
        (torch.zeros(()), torch.zeros(()), "are not those of two matrices"),
        (torch.zeros(2, 4, 8), torch.zeros(8, 4, 1), "are not those of two matrices"),
        (torch.zeros(4, 8, dtype=torch.int32), torch.zeros(8, 4), "its numbers are torch.int32 and torch.float32"),
        (torch.full((4, 8), float("nan")), torch.zeros(8, 4), "it holds NaN or an infinity"),
        (torch.zeros(4, 8), torch.full((8, 4), float("-inf")), "it holds NaN or an infinity"),
    ],
)
def test_tensors_that_are_no_pair_are_refused(tmp_path: Path, a: torch.Tensor, b: torch.Tensor, reason: str) -> None:
    save_adapter(tmp_path, noisy(SHAPES, 4), alpha=8.0, base="base")
    save_file({PAIR.format("A"): a, PAIR.format("B"): b}, tmp_path / WEIGHTS)
    with pytest.raises(AdapterError, match=r"layers\.0\.self_attn\.q_proj is no LoRA pair: ") as caught:
        load_adapter(tmp_path)
    assert reason in str(caught.value)


@pytest.mark.parametrize("alpha", [float("nan"), float("inf"), -5, 0, "nan", 10**400])
def test_a_scale_that_is_no_positive_number_is_refused(tmp_path: Path, alpha: object) -> None:
    save_adapter(tmp_path, noisy(SHAPES, 4), alpha=8.0, base="base")
    config = json.loads((tmp_path / CONFIG).read_text())
    (tmp_path / CONFIG).write_text(json.dumps({**config, "lora_alpha": alpha}))
    with pytest.raises(AdapterError):
        load_adapter(tmp_path)


def test_layers_beside_a_tower_of_pictures_are_named_in_full(tmp_path: Path) -> None:
    name = "model.language_model.layers.0.self_attn.q_proj"
    factors = Factors(torch.ones(4, 2), torch.ones(2, 3))
    save_adapter(tmp_path, {name: factors}, alpha=4.0, base="base")
    assert json.loads((tmp_path / "adapter_config.json").read_text())["target_modules"] == [name]
