"""llama.cpp as a peer of the sampler: the same base, in the same dtype, without adapters, many sequences in one batch.

Shape suffixes: R rows, T prompt tokens, V vocabulary.
"""

from __future__ import annotations

import ctypes
from pathlib import Path
from typing import Any

import gguf
import torch
from torch import Tensor

from benchmarks.peers import Missing, optional
from benchmarks.timing import BenchmarkError
from redqueen.engine.model.base import fingerprint
from redqueen.engine.model.source import cache_root

_LAYER = {
    "input_layernorm": "attn_norm",
    "self_attn.q_proj": "attn_q",
    "self_attn.k_proj": "attn_k",
    "self_attn.v_proj": "attn_v",
    "self_attn.o_proj": "attn_output",
    "post_attention_layernorm": "ffn_norm",
    "mlp.gate_proj": "ffn_gate",
    "mlp.up_proj": "ffn_up",
    "mlp.down_proj": "ffn_down",
}
_DTYPES = {torch.bfloat16: "bf16", torch.float32: "fp32"}
_FILE_TYPES = {torch.bfloat16: gguf.LlamaFileType.MOSTLY_BF16, torch.float32: gguf.LlamaFileType.ALL_F32}


def converted(model: Any) -> Path:
    """Returns a GGUF file of `model` (transformers, Llama family) in its dtype; it is written once, to the model cache.

    Raises Missing for another family.
    """
    if model.config.model_type != "llama":
        raise Missing(f"our conversion for llama.cpp knows the llama family only, not {model.config.model_type}")
    path = cache_root() / f"bench-{fingerprint(model)[:16]}-{_DTYPES[model.dtype]}.gguf"
    if not path.exists():
        path.parent.mkdir(parents=True, exist_ok=True)
        # The file gets its name when it is complete: a conversion that was interrupted leaves nothing that looks
        # usable.
        unfinished = path.with_suffix(".unfinished")
        convert(model, unfinished)
        unfinished.rename(path)
    return path


def convert(model: Any, path: Path) -> None:
    """Writes weights and sizes to a GGUF file. It has no tokenizer, since the benchmark passes token ids."""
    config = model.config
    writer = gguf.GGUFWriter(path, "llama")
    heads = config.num_attention_heads
    kv_heads = config.num_key_value_heads
    writer.add_block_count(config.num_hidden_layers)
    writer.add_context_length(config.max_position_embeddings)
    writer.add_embedding_length(config.hidden_size)
    writer.add_feed_forward_length(config.intermediate_size)
    writer.add_head_count(heads)
    writer.add_head_count_kv(kv_heads)
    writer.add_rope_freq_base(float(config.rope_parameters["rope_theta"]))
    writer.add_rope_dimension_count(config.head_dim)
    writer.add_layer_norm_rms_eps(config.rms_norm_eps)
    writer.add_vocab_size(config.vocab_size)
    writer.add_file_type(_FILE_TYPES[model.dtype])
    writer.add_tokenizer_model("no_vocab")
    for name, weight in model.state_dict().items():
        # llama.cpp uses the embeddings as the head where the file has no head
        if name == "lm_head.weight" and config.tie_word_embeddings:
            continue
        if name.endswith(("q_proj.weight", "k_proj.weight")):
            weight = interleaved(weight, heads if "q_proj" in name else kv_heads)
        _add(writer, _name(name), weight)
    writer.write_header_to_file()
    writer.write_kv_data_to_file()
    writer.write_tensors_to_file()
    writer.close()


def interleaved(weight: Tensor, heads: int) -> Tensor:
    """Returns a query or key projection with its rows in llama.cpp's order.

    llama.cpp rotates neighbouring pairs of a head, transformers its two halves. RoFormer (section 3.4.2) has pairs; a
    model works with either order if weights and rotation agree.
    """
    out, fan_in = weight.shape
    return weight.view(heads, 2, out // heads // 2, fan_in).transpose(1, 2).reshape(out, fan_in)


def _name(name: str) -> str:
    """Returns the name of a transformers weight in a GGUF file."""
    whole = {
        "model.embed_tokens.weight": "token_embd.weight",
        "model.norm.weight": "output_norm.weight",
        "lm_head.weight": "output.weight",
    }
    if name in whole:
        return whole[name]
    layer, _, part = name.removeprefix("model.layers.").partition(".")
    return f"blk.{layer}.{_LAYER[part.removesuffix('.weight')]}.weight"


def _add(writer: gguf.GGUFWriter, name: str, weight: Tensor) -> None:
    """Adds one weight; NumPy has no bfloat16, so that is passed as bytes."""
    # llama.cpp adds and multiplies norms and biases in fp32 and expects them so in every GGUF file.
    if weight.ndim == 1 or weight.dtype == torch.float32:
        writer.add_tensor(name, weight.float().numpy())
    else:
        data = weight.to(torch.bfloat16).contiguous().view(torch.uint8).numpy()
        writer.add_tensor(name, data, raw_dtype=gguf.GGMLQuantizationType.BF16)


class Llama:
    """A llama.cpp context for batches of up to `rows` sequences of `length` tokens. Raises Missing."""

    def __init__(self, model: Any, rows: int, length: int, threads: int) -> None:
        self.library = library = optional("llama_cpp")
        path = converted(model)
        # Its loader prints hundreds of lines. The callback is kept as an attribute: the library holds only a pointer to
        # it, and Python would free it.
        self._silence = library.llama_log_callback(_say_nothing)
        library.llama_log_set(self._silence, ctypes.c_void_p(0))
        library.llama_backend_init()
        self.model = library.llama_model_load_from_file(str(path).encode(), library.llama_model_default_params())
        if not self.model:
            raise BenchmarkError(f"llama.cpp cannot load {path}: delete it and try again")
        params = library.llama_context_default_params()
        # The context is shared by all sequences, and each one's part is rounded up to llama.cpp's blocks of 256.
        params.n_ctx = rows * (-(-length // 256) * 256)
        params.n_batch = rows * length
        params.n_seq_max = rows
        params.n_threads = params.n_threads_batch = threads
        self.context = library.llama_init_from_model(self.model, params)
        if not self.context:
            raise BenchmarkError(f"llama.cpp has no room for {rows} sequences of {length} tokens: ask for fewer rows")
        self.batch = library.llama_batch_init(rows * length, 0, 1)
        self.vocabulary = int(model.config.vocab_size)

    def generate(self, ids_RT: Tensor, new_tokens: int) -> list[list[int]]:
        """Returns `new_tokens` tokens for each row, sampled at temperature 1, all rows together."""
        self.library.llama_memory_clear(self.library.llama_get_memory(self.context), True)
        width = ids_RT.shape[1]
        logits_RV = self._decode(ids_RT.tolist(), 0)
        drawn = [self._draw(logits_RV)]
        for step in range(new_tokens - 1):
            logits_RV = self._decode([[token] for token in drawn[-1]], width + step)
            drawn.append(self._draw(logits_RV))
        return [list(tokens) for tokens in zip(*drawn, strict=True)]

    def logits(self, ids_RT: Tensor) -> Tensor:
        """Returns the next-token logits after each row, [R, V]."""
        self.library.llama_memory_clear(self.library.llama_get_memory(self.context), True)
        # the library writes the next logits over these
        return self._decode(ids_RT.tolist(), 0).clone()

    def _decode(self, tokens: list[list[int]], start: int) -> Tensor:
        """Appends `tokens[row]` to each row at position `start`; returns the logits [R, V] after each last token.

        Raises BenchmarkError if llama.cpp refuses the batch.
        """
        # Only the last token of a row asks for logits: the head over all prompt tokens would be work that no other
        # contender does.
        batch = self.batch
        n = 0
        for row, ids in enumerate(tokens):
            for i, token in enumerate(ids):
                batch.token[n] = token
                batch.pos[n] = start + i
                batch.n_seq_id[n] = 1
                batch.seq_id[n][0] = row
                batch.logits[n] = i == len(ids) - 1
                n += 1
        batch.n_tokens = n
        if self.library.llama_decode(self.context, batch):
            raise BenchmarkError("llama.cpp could not decode a batch: ask for fewer rows")
        # The tensor is a view of the library's memory. Copying all logits in each step would slow this peer
        # down.
        address = self.library.llama_get_logits(self.context)
        count = len(tokens) * self.vocabulary
        flat = torch.frombuffer(
            (ctypes.c_float * count).from_address(ctypes.addressof(address.contents)), dtype=torch.float32
        )
        return flat.view(len(tokens), self.vocabulary)

    def _draw(self, logits_RV: Tensor) -> list[int]:
        """Returns one token for each row by inverse-CDF sampling of all rows at once.

        llama.cpp's own sampler goes row by row and is slower: a peer is measured at its best.
        """
        cdf_RV = logits_RV.softmax(-1).cumsum_(-1)
        # rounding leaves the last sum slightly off 1, so the draw is scaled to it
        uniform_R = torch.rand(len(logits_RV), 1) * cdf_RV[:, -1:]
        return torch.searchsorted(cdf_RV, uniform_R, right=True).clamp_(max=self.vocabulary - 1)[:, 0].tolist()

    def close(self) -> None:
        """Frees what the library allocated."""
        self.library.llama_batch_free(self.batch)
        self.library.llama_free(self.context)
        self.library.llama_model_free(self.model)


def _say_nothing(level: int, text: bytes, data: Any) -> None:
    del level, text, data
