"""What can be a base, by config.json alone."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from redqueen.base.optional import MissingLibraryError, is_installed
from redqueen.config import ModelConfig
from redqueen.engine.model import check_model, check_quantized, refusal
from redqueen.engine.model.source import read_config
from redqueen.errors import ModelError

FULL = ["full_attention", "full_attention"]
REFUSED: list[tuple[dict[str, Any], str]] = [
    ({"model_type": "t5"}, "it has an encoder"),
    ({"model_type": "some_new_thing", "is_encoder_decoder": True}, "it has an encoder"),
    ({"model_type": "roberta", "architectures": ["RobertaForMaskedLM"]}, "it has an encoder"),
    ({"model_type": "mamba"}, "layers with a state"),
    ({"model_type": "rwkv"}, "layers with a state"),
    ({"model_type": "new", "layer_types": [*FULL, "linear_attention"]}, "layers of type linear_attention"),
    ({"model_type": "llama4_text", "layer_types": ["chunked_attention"]}, "layers of type chunked_attention"),
    ({"model_type": "gpt2"}, "Conv1D and not Linear"),
    ({"model_type": "qwen2", "architectures": ["Qwen2ForSequenceClassification"]}, "which gives no next token"),
    ({"model_type": "qwen2", "architectures": ["Qwen2ForRewardModel"]}, "which gives no next token"),
    ({"model_type": "gpt_oss", "quantization_config": {"quant_method": "mxfp4"}}, "by MXFP4"),
    ({"model_type": "llama", "quantization_config": {"quant_method": "gptq", "bits": 4}}, "by GPTQ"),
    ({"model_type": "llama", "quantization_config": {"quant_method": "awq"}}, "by AWQ"),
    ({"model_type": "qwen3", "quantization_config": {"quant_method": "fp8"}}, "by FP8"),
    ({"model_type": "llama", "quantization_config": {"quant_method": "brand-new"}}, "by brand-new"),
    ({"model_type": None}, "names no model_type"),
    ({}, "names no model_type"),
]
TRIED: list[dict[str, Any]] = [
    {"model_type": "llama", "architectures": ["LlamaForCausalLM"]},
    {"model_type": "gemma3_text", "layer_types": ["sliding_attention", "full_attention"]},
    {"model_type": "gemma3", "architectures": ["Gemma3ForConditionalGeneration"], "vision_config": {}},
    {"model_type": "gpt_oss", "layer_types": FULL},
    {"model_type": "phi3", "quantization_config": {"quant_method": "bitsandbytes", "load_in_4bit": True}},
    {"model_type": "phi3", "quantization_config": {"quant_method": "torchao"}},
]


@pytest.mark.parametrize(("config", "says"), REFUSED)
def test_what_cannot_be_a_base_is_refused_with_its_reason(config: dict[str, Any], says: str) -> None:
    assert says in refusal(config)


@pytest.mark.parametrize("config", TRIED)
def test_every_other_decoder_is_tried(config: dict[str, Any]) -> None:
    assert refusal(config) == ""


def test_a_refusal_says_what_is_near(tmp_path: Path) -> None:
    (tmp_path / "config.json").write_text('{"model_type": "gema2"}')
    with pytest.raises(ModelError, match=r"transformers .* does not know it; near are .*gemma2"):
        read_config(str(tmp_path))
    (tmp_path / "config.json").write_text('{"model_type": "clip"}')
    with pytest.raises(ModelError, match="knows it, but not as a causal decoder"):
        read_config(str(tmp_path))
    assert "choose a causal decoder, e.g. of Llama" in refusal({"model_type": "mamba"})


def test_a_folder_is_refused_before_torch_is_imported(tmp_path: Path) -> None:
    (tmp_path / "config.json").write_text('{"model_type": "mamba"}')
    code = (
        "import sys\nfrom redqueen.cli.app import main\nsys.argv = ['redqueen', 'train', '--model', sys.argv[1]]\n"
        "try:\n    main()\nfinally:\n    assert not {'torch', 'transformers'} & sys.modules.keys()"
    )
    done = subprocess.run([sys.executable, "-c", code, str(tmp_path)], capture_output=True, text=True, check=False)
    assert done.returncode == 2, done.stderr
    assert "layers with a state" in done.stderr
    assert "Assertion" not in done.stderr


def test_what_is_no_folder_is_left_to_others(tmp_path: Path) -> None:
    check_model(ModelConfig(name="owner/name"))
    (tmp_path / "config.json").write_text("{")
    check_model(ModelConfig(name=str(tmp_path)))


def test_weights_are_not_quantised_twice() -> None:
    config = {"model_type": "llama", "quantization_config": {"quant_method": "torchao"}}
    with pytest.raises(ModelError, match="quantised already, by torchao"):
        check_quantized(ModelConfig(quantize="nf4"), config)


@pytest.mark.parametrize(
    ("quantize", "library", "extra"), [("nf4", "bitsandbytes", "bnb"), ("torchao_fp8", "torchao", "torchao")]
)
def test_a_missing_library_is_named_with_its_extra(quantize: Any, library: str, extra: str, tmp_path: Path) -> None:
    if is_installed(library):
        pytest.skip(f"{library} is installed")
    with pytest.raises(MissingLibraryError, match=rf"model.quantize={quantize} needs {library}.*'\.\[{extra}\]'"):
        check_model(ModelConfig(quantize=quantize))
    quantization = {"quant_method": library}
    (tmp_path / "config.json").write_text(json.dumps({"model_type": "llama", "quantization_config": quantization}))
    with pytest.raises(MissingLibraryError, match=rf"'\.\[{extra}\]'"):
        check_model(ModelConfig(name=str(tmp_path)))
