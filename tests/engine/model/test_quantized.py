"""Quantised bases with the real libraries (`make test-quantized`): the oracle is the same model, dequantised."""

from __future__ import annotations

from typing import Any

import pytest
import torch
from torch import Tensor, nn

from redqueen.config import ModelConfig
from redqueen.engine.learning.gradients import ForwardOptions, accumulate
from redqueen.engine.learning.packing import WeightedSample, micro_batches
from redqueen.engine.lora.adapter_bank import AdapterBank
from redqueen.engine.model.base import Base, fingerprint, load
from redqueen.engine.model.dimensions import shape_of
from redqueen.engine.model.hosted import HostedDecoder
from redqueen.records import Sample
from tests import tiny
from tests.hosted import peft_gradient, peft_of
from tests.reference import noisy

KINDS = ("nf4", "int8", "torchao_int8", "torchao_fp8")
LIBRARIES = {"nf4": "bitsandbytes", "int8": "bitsandbytes", "torchao_int8": "torchao", "torchao_fp8": "torchao"}
PROMPT = (5, 9, 31, 2, 60, 17, 8)
TEXTS = ((7, 12, 50, 33), (40, 6))


@pytest.fixture(scope="module", params=KINDS)
def base(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Base:
    """A tiny base that is quantised while it is loaded."""
    kind: str = request.param
    pytest.importorskip(LIBRARIES[kind])
    folder = tiny.make(tmp_path_factory.mktemp("base"), "phi3", hidden=64)
    return load(ModelConfig(name=str(folder), dtype="float32", quantize=kind, threads=1))


def hosted(base: Base) -> HostedDecoder:
    assert isinstance(base.decoder, HostedDecoder)
    return base.decoder


def dequantized(module: Any) -> Tensor:
    """Returns the weight [O, I] that a quantised layer stands for, as its own library says."""
    name = type(module).__name__
    if name == "Linear4bit":
        import bitsandbytes

        return bitsandbytes.functional.dequantize_4bit(module.weight.data, module.weight.quant_state).float()
    if name == "Linear8bitLt":
        state = module.state
        codes, scales = (module.weight.CB, module.weight.SCB) if state.CB is None else (state.CB, state.SCB)
        return codes.float() * scales.float()[:, None] / 127
    return module.weight.dequantize().float()


def plain(base: Base) -> Any:
    """Returns a model in fp32 with the dequantised weights."""
    from transformers import AutoConfig, AutoModelForCausalLM

    config = AutoConfig.from_pretrained(base.name)
    model: Any = AutoModelForCausalLM.from_config(config).eval().requires_grad_(False)
    state = {name: p for name, p in base.model.named_parameters() if p.dtype == torch.float32}
    for site in hosted(base).sites:
        state[f"{site.name}.weight"] = dequantized(base.model.get_submodule(site.name))
    missing = model.load_state_dict(state, strict=False).missing_keys
    assert set(missing) <= {"lm_head.weight"}
    return model


def bank_of(base: Base) -> AdapterBank:
    bank = AdapterBank(base.decoder.sites, 2, 4, 8.0, ("auto",))
    bank.add("a", noisy(bank, 1))
    bank.add("b", noisy(bank, 2, rank=2))
    return bank


def test_layers_are_quantised_and_nothing_else(base: Base) -> None:
    blocks = [base.model.get_submodule(site.name) for site in hosted(base).sites]
    assert len(blocks) == 8
    assert all(type(each) is not nn.Linear or type(each.weight.data) is not Tensor for each in blocks)
    assert base.model.get_input_embeddings().weight.dtype == torch.float32
    assert type(base.model.lm_head) is nn.Linear


def test_a_layer_computes_its_own_output_and_the_update(base: Base) -> None:
    decoder, bank = hosted(base), bank_of(base)
    site = decoder.sites[0]
    layer = base.model.get_submodule(site.name)
    x = torch.randn(2, 3, site.fan_in, generator=torch.Generator().manual_seed(0)).requires_grad_()
    gradients = bank.gradients()
    with decoder._applying(bank.rows([0, 1], [3, 3], gradients)):
        y = layer(x)
    frozen = type(layer).forward(layer, x.detach())
    expected, slope = frozen.clone(), torch.ones_like(frozen) @ dequantized(layer)
    for row, member in enumerate("ab"):
        factors = bank.read(member)[site.name]
        update = 8.0 / factors.a.shape[1] * factors.a @ factors.b
        expected[row] += x[row].detach() @ update
        slope[row] += torch.ones_like(frozen[row]) @ update.T
    torch.testing.assert_close(y.detach(), expected, rtol=1e-5, atol=1e-5)
    y.sum().backward()
    # bitsandbytes computes the gradient of int8 in fp16.
    within = 5e-3 if type(layer).__name__ == "Linear8bitLt" else 1e-5
    torch.testing.assert_close(x.grad, slope, rtol=within, atol=within * float(slope.abs().max()))


def test_gradients_are_those_of_dequantised_weights(base: Base) -> None:
    bank = bank_of(base)
    # A pass without gradients comes first, as sampling does: some layers would change for good by it.
    with torch.no_grad():
        base.model(input_ids=torch.tensor([PROMPT]))
    oracle = peft_of(plain(base), bank, "a")
    items: list[WeightedSample] = []
    loss = torch.zeros(())
    for text in TEXTS:
        sample = Sample(member="a", prompt_ids=PROMPT, token_ids=text, logprobs=(), advantage=1.0)
        items.append(WeightedSample(sample, bank.slots["a"], 0.5))
        logits = oracle(input_ids=torch.tensor([PROMPT + text])).logits[0, len(PROMPT) - 1 : -1]
        loss = loss - 0.5 * logits.log_softmax(-1).gather(1, torch.tensor(text)[:, None]).sum()
    loss.backward()
    gradients = bank.gradients()
    for groups in micro_batches(items, 4096):
        accumulate(base.decoder, bank, gradients, groups, ForwardOptions(temperature=1.0, checkpointing=False))
    found, expected = gradients.flat[bank.slots["a"]], peft_gradient(oracle, bank)
    if LIBRARIES[base_kind(base)] == "bitsandbytes" and base_kind(base) == "int8":
        # Its inputs are rounded to 8 bits as well, so that the forward pass is another one.
        assert torch.cosine_similarity(found, expected, dim=0) > 0.99
    else:
        assert (found - expected).abs().max() <= 1e-4 * expected.abs().max()


def base_kind(base: Base) -> str:
    layer = base.model.get_submodule(hosted(base).sites[0].name)
    kinds = {"Linear4bit": "nf4", "Linear8bitLt": "int8"}
    if type(layer).__name__ in kinds:
        return kinds[type(layer).__name__]
    return "torchao_int8" if "Int8" in type(layer.weight).__name__ else "torchao_fp8"


def test_the_fingerprint_covers_what_is_frozen(base: Base) -> None:
    before = fingerprint(base.model)
    with torch.no_grad():
        base.model(input_ids=torch.tensor([PROMPT]))
    assert fingerprint(base.model) == before
    layer = base.model.get_submodule(hosted(base).sites[0].name)
    parts: list[Tensor] = []
    if hasattr(layer.weight, "__tensor_flatten__"):
        parts += [getattr(layer.weight, name) for name in ("qdata", "scale")]
    else:
        state: dict[str, Any] = layer.state_dict()
        parts += [state[name] for name in state if name in ("weight", "weight.absmax", "SCB")]
    assert len(parts) == 2
    for part in parts:
        flat = part.data.reshape(-1).view(torch.uint8)
        assert flat.data_ptr() == part.data_ptr()
        flat[0] ^= 1
        assert fingerprint(base.model) != before
        flat[0] ^= 1
    assert fingerprint(base.model) == before


def test_the_plan_counts_the_stored_bytes(base: Base) -> None:
    config = ModelConfig(name=base.name, dtype="float32", quantize=base_kind(base))  # pyright: ignore[reportArgumentType]
    held = sum(tensor.nbytes for _, tensor in frozen(base))
    # Scales of small layers take more than the plan counts, and tied embeddings are saved twice.
    assert shape_of(config).stored(torch.float32) == pytest.approx(held, rel=0.1)


def frozen(base: Base) -> list[tuple[str, Tensor]]:
    from redqueen.engine.model.quantized import frozen_tensors

    named = list(frozen_tensors(base.model))
    return [(name, tensor) for name, tensor in named if name != "lm_head.weight"]
