"""Compares the decoder with the transformers model whose weights it uses, and checks which models it refuses."""

from __future__ import annotations

import copy
from collections.abc import Callable
from typing import Any

import pytest
import torch
from transformers import AutoConfig, AutoModelForCausalLM

from redqueen.config import ModelConfig
from redqueen.engine.lora.adapter_bank import AdapterBank
from redqueen.engine.model.attention import SharedPrefix, SharedPrefixAttention
from redqueen.engine.model.base import Base
from redqueen.engine.model.decoder import FAMILIES, decoder_of
from redqueen.errors import ModelError
from tests.reference import logits, noisy

SEQUENCES = [[5, 6, 7, 8, 9], [200], [9, 8, 7, 6, 5, 4, 3, 2, 1, 0, 100, 101], [3, 3]]
YARN = {"rope_type": "yarn", "factor": 4.0, "original_max_position_embeddings": 512}
LLAMA3 = {
    "rope_type": "llama3",
    "factor": 8.0,
    "low_freq_factor": 1.0,
    "high_freq_factor": 4.0,
    "original_max_position_embeddings": 64,
}


def model(family: str = "llama", **options: Any) -> Any:
    """Returns a random model of this family, with weights so large that each part affects the logits."""
    torch.manual_seed(0)
    sizes = {
        "vocab_size": 211,
        "hidden_size": 24,
        "intermediate_size": 40,
        "num_hidden_layers": 2,
        "num_attention_heads": 4,
        "num_key_value_heads": 2,
        "head_dim": 6,
        "max_position_embeddings": 2048,
        "initializer_range": 0.3,
        "tie_word_embeddings": False,
    }
    result: Any = AutoModelForCausalLM.from_config(AutoConfig.for_model(family, **{**sizes, **options}))
    for name, parameter in result.named_parameters():
        # Norms begin at one and biases at zero, where a mistake in them would not show.
        if "norm" in name or name.endswith("bias"):
            parameter.data.normal_()
    return result.requires_grad_(False).eval()


def largest_difference(own: Any, dtype: torch.dtype = torch.float32) -> float:
    """Returns the largest difference between the logits of transformers and those of the decoder."""
    # transformers runs before `decoder_of`, which replaces its weights by views.
    own = own.to(dtype)
    with torch.no_grad():
        expected = [own(torch.tensor([ids])).logits[0].float() for ids in SEQUENCES]
    found = logits(decoder_of(own), SEQUENCES)
    assert all(x.std() > 0.5 for x in expected if len(x) > 1)
    return max(float((x.float() - y).abs().max()) for x, y in zip(found, expected, strict=True))


@pytest.mark.parametrize("tied", [False, True])
@pytest.mark.parametrize("family", FAMILIES)
def test_the_logits_are_those_of_transformers(family: str, tied: bool) -> None:
    assert largest_difference(model(family, tie_word_embeddings=tied)) < 1e-4


@pytest.mark.usefixtures("both_ways")
@pytest.mark.parametrize("family", FAMILIES)
def test_in_bf16_the_decoder_is_no_further_from_the_exact_logits_than_transformers(family: str) -> None:
    # Flash attention takes heads of a multiple of 8. For others a GPU has plain products only, which round the scores,
    # as transformers' plain attention does.
    own = model(family, head_dim=8).bfloat16()
    exact = copy.deepcopy(own).double()
    # Errors differ between texts: over 12 of them the ratio of the two was off by 10 %, over 100 it is by 3 %.
    ids_RT = torch.randint(0, 211, (100, 25), generator=torch.Generator().manual_seed(0))
    with torch.no_grad():
        expected_RTV = exact(ids_RT).logits
        theirs_RTV = own(ids_RT).logits
    ours = logits(decoder_of(own), ids_RT.tolist())
    assert all(x.dtype == torch.bfloat16 for x in ours)
    assert 0 < (torch.stack(ours) - expected_RTV).norm() < 1.05 * (theirs_RTV - expected_RTV).norm()


@pytest.mark.parametrize(
    ("family", "options"),
    [
        ("llama", {"attention_bias": True, "mlp_bias": True}),
        ("llama", {"num_key_value_heads": 4}),
        ("llama", {"num_key_value_heads": 1, "head_dim": 8}),
        ("qwen3", {"attention_bias": True}),
        ("llama", {"rope_parameters": {"rope_type": "default", "rope_theta": 500.0}}),
        ("llama", {"rope_parameters": {"rope_type": "linear", "factor": 3.0, "rope_theta": 1e4}}),
        ("llama", {"rope_parameters": {**LLAMA3, "rope_theta": 1e4}}),
        ("qwen2", {"rope_parameters": {**YARN, "rope_theta": 1e4}}),
        ("mistral", {"rms_norm_eps": 0.1}),
    ],
)
def test_options_of_a_family_are_computed_too(family: str, options: dict[str, Any]) -> None:
    assert largest_difference(model(family, **options)) < 1e-4


@pytest.mark.parametrize("family", FAMILIES)
def test_the_model_by_itself_is_unchanged_to_the_bit_and_its_weights_are_the_decoders(family: str) -> None:
    own = model(family)
    names, ids = {name: p.clone() for name, p in own.named_parameters()}, torch.tensor([SEQUENCES[2]])
    with torch.no_grad():
        before = own(ids).logits
        decoder = decoder_of(own)
        assert torch.equal(own(ids).logits, before)
    assert {name: torch.equal(p, names[name]) for name, p in own.named_parameters()} == dict.fromkeys(names, True)
    # Nothing is held twice: each linear layer is a view of one of the decoder's tensors.
    homes = {site.weight.untyped_storage().data_ptr() for site in decoder.sites}
    for site in decoder.sites:
        for projection in site.projections:
            weight = own.get_submodule(projection.name).weight
            assert weight.untyped_storage().data_ptr() in homes
            assert torch.equal(weight, site.weight[projection.start : projection.end])


def test_members_do_not_move_with_the_position_of_their_rows(tiny_base: Base) -> None:
    bank = AdapterBank(tiny_base.decoder.sites, 2, 3, 6.0, ModelConfig().targets)
    for seed, name in enumerate("ab"):
        bank.add(name, noisy(bank, seed))
    rows = bank.rows([0, 0, 0, 1], [len(ids) for ids in SEQUENCES])
    together = logits(tiny_base.decoder, SEQUENCES, rows)
    for ids, slot, found in zip(SEQUENCES, (0, 0, 0, 1), together, strict=True):
        (alone,) = logits(tiny_base.decoder, [ids], bank.rows([slot], [len(ids)]))
        torch.testing.assert_close(found, alone, atol=1e-4, rtol=1e-4)


def test_checkpointing_changes_no_gradient(tiny_base: Base) -> None:
    found = []
    for checkpointing in (False, True):
        bank = AdapterBank(tiny_base.decoder.sites, 2, 3, 6.0, ModelConfig().targets)
        for seed, name in enumerate("ab"):
            bank.add(name, noisy(bank, seed))
        prefixes = [SharedPrefix(0, 4, (2, 3)), SharedPrefix(9, 5)]
        ids = torch.arange(14) + 30
        position = torch.tensor([0, 1, 2, 3, 4, 5, 4, 5, 6, 0, 1, 2, 3, 4])
        attention = SharedPrefixAttention(prefixes, ids.device)
        gradients = bank.gradients()
        rows = bank.rows([0, 1], [9, 5], gradients)
        hidden = tiny_base.decoder.hidden(ids, position, attention, rows, checkpointing=checkpointing)
        hidden.square().sum().backward()
        assert gradients.flat.any(1).all()
        found.append(gradients.flat)
    assert torch.equal(*found)


def test_an_unknown_architecture_is_refused_by_name() -> None:
    gpt2 = AutoModelForCausalLM.from_config(
        AutoConfig.for_model("gpt2", n_layer=1, n_embd=8, n_head=2, vocab_size=16, bos_token_id=0, eos_token_id=0)
    )
    with pytest.raises(ModelError, match="'gpt2' is not supported: choose one of llama, mistral, qwen2, qwen3"):
        decoder_of(gpt2)


def test_rotary_embeddings_that_depend_on_the_sequence_are_refused_by_name() -> None:
    own = model(rope_parameters={"rope_type": "dynamic", "factor": 2.0, "rope_theta": 1e4})
    with pytest.raises(ModelError, match="type 'dynamic' are not supported: default, linear, llama3, yarn are"):
        decoder_of(own)


def test_another_activation_is_refused_by_name() -> None:
    with pytest.raises(ModelError, match="the activation 'gelu' is not supported"):
        decoder_of(model(hidden_act="gelu"))


def test_a_bias_on_some_layers_of_a_site_only_is_refused() -> None:
    own = model("qwen2")
    own.model.layers[0].self_attn.k_proj.bias = None
    with pytest.raises(ModelError, match=r"model.layers.0.self_attn: a bias on some of q_proj, k_proj, v_proj only"):
        decoder_of(own)


@pytest.mark.parametrize(
    ("family", "options", "window"),
    [
        ("mistral", {"sliding_window": 64}, 64),
        ("mistral", {"sliding_window": None}, 0),
        ("qwen2", {}, 0),
        ("llama", {}, 0),
    ],
)
def test_the_sliding_window_is_known(family: str, options: dict[str, Any], window: int) -> None:
    assert decoder_of(model(family, **options)).window == window


def test_up_to_the_sliding_window_nothing_slides(new_base: Callable[..., Base]) -> None:
    own = model("mistral", sliding_window=12)
    assert largest_difference(own) < 1e-4, "the longest of these sequences has 12 tokens"
