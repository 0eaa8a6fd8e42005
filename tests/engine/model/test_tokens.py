"""Tokens of several families: the one that ends a chat turn is the template's, and texts go on where prompts end."""

from __future__ import annotations

from pathlib import Path

import pytest
from tokenizers import AddedToken
from transformers import AutoTokenizer, LlamaTokenizer

from redqueen.config import ModelConfig
from redqueen.engine.model.base import load
from redqueen.engine.model.source import decode, encode, end_of_turn
from redqueen.engine.sampling.tokens import Row, extend
from redqueen.errors import PromptError
from redqueen.records import Prompt, SamplingParams
from tests import tiny

LOOP = "{% for m in messages %}"
QWEN = (
    LOOP + "{{ '<|im_start|>' + m.role + '\n' + m.content + '<|im_end|>\n' }}{% endfor %}"
    "{% if add_generation_prompt %}{{ '<|im_start|>assistant\n' }}{% endif %}"
)
LLAMA = (
    LOOP
    + "{{ '<|start_header_id|>' + m.role + '<|end_header_id|>\n\n' + m.content | trim + '<|eot_id|>' }}{% endfor %}"
)
MISTRAL = (
    LOOP + "{% if m.role == 'user' %}{{ '[INST] ' + m.content + ' [/INST]' }}{% else %}{{ ' ' + m.content + '</s>' }}"
)
MISTRAL += "{% endif %}{% endfor %}"
GEMMA = LOOP + "{{ '<start_of_turn>' + m.role + '\n' + m.content + '\n<end_of_turn>\n' }}{% endfor %}"
PLAIN = LOOP + "{{ m.role + ': ' + m.content + '\n' }}{% endfor %}"
SPECIAL = ("<|im_start|>", "<|im_end|>", "<|eot_id|>", "</s>", "<end_of_turn>")


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A tiny model whose tokenizer knows the special tokens of several families; its own end is another one."""
    folder = tiny.make(tmp_path_factory.mktemp("tokens"))
    tokenizer = AutoTokenizer.from_pretrained(folder)
    tokenizer.add_tokens([AddedToken(token, special=True) for token in SPECIAL])
    tokenizer.save_pretrained(folder)
    return folder


@pytest.mark.parametrize(
    ("template", "end"),
    [
        (QWEN, "<|im_end|>"),
        (LLAMA, "<|eot_id|>"),
        (MISTRAL, "</s>"),
        (GEMMA, "<end_of_turn>"),
        (PLAIN, None),
        (None, None),
        # What cannot be rendered poses no chat, so no turn has to end.
        ("{% for m in messages %}{{", None),
    ],
)
def test_the_end_of_a_turn_is_what_the_template_writes(folder: Path, template: str | None, end: str | None) -> None:
    tokenizer = AutoTokenizer.from_pretrained(folder)
    tokenizer.chat_template = template
    found = end_of_turn(tokenizer)
    assert (None if found is None else tokenizer.convert_ids_to_tokens(found)) == end


def test_a_base_ends_its_texts_at_the_end_of_a_turn_too(folder: Path) -> None:
    tokenizer = AutoTokenizer.from_pretrained(folder)
    tokenizer.chat_template = QWEN
    tokenizer.save_pretrained(folder)
    base = load(ModelConfig(name=str(folder), dtype="float32", threads=1, workers=1))
    ends = {base.tokenizer.convert_ids_to_tokens(token) for token in base.end_ids}
    assert ends == {"<end>", "<|im_end|>"}


@pytest.mark.parametrize(
    ("template", "reason"),
    [
        (None, "the base has no chat template"),
        ("{% for m in messages %}{{", "the base has a chat template that fails (TemplateSyntaxError: "),
        ("{{ messages[9].content.x }}", "the base has a chat template that fails (UndefinedError: "),
    ],
)
def test_a_chat_that_cannot_be_posed_is_one_line(folder: Path, template: str | None, reason: str) -> None:
    tokenizer = AutoTokenizer.from_pretrained(folder)
    tokenizer.chat_template = template
    with pytest.raises(PromptError) as caught:
        encode(tokenizer, Prompt("What is 2 + 2?", (), chat=True))
    assert str(caught.value).startswith(reason)
    assert "\n" not in str(caught.value)
    assert encode(tokenizer, Prompt("2", ()))


@pytest.fixture(scope="module")
def pieces() -> LlamaTokenizer:
    """A tokenizer as Llama 2, Mistral and Phi-3 have: a space is part of a word, and rare characters are bytes."""
    words = ["<unk>", "<s>", "</s>", *(f"<0x{byte:02X}>" for byte in range(256)), "▁", *map(chr, range(33, 127))]
    merges = [("▁", "▁"), ("▁▁", "▁▁"), ("▁", "r"), ("▁r", "e")]
    vocabulary = {word: number for number, word in enumerate([*words, *(a + b for a, b in merges)])}
    return LlamaTokenizer(vocab=vocabulary, merges=merges)


def test_a_text_that_goes_on_with_spaces_keeps_them(pieces: LlamaTokenizer) -> None:
    head, body = 'def f(x):\n    """Doc."""\n', "    y = x\n    return y"
    ids = pieces(head).input_ids
    whole = pieces(head + body).input_ids
    assert whole[: len(ids)] == ids
    # The tokenizer by itself loses one.
    assert pieces.decode(whole[len(ids) :]) == body[1:]
    assert decode(pieces, whole[len(ids) :]) == body


@pytest.mark.parametrize("text", ["ab", "a😀", "a é", "€", "x😀é"])
def test_a_stop_string_after_a_character_of_several_bytes_ends_a_text_at_once(
    pieces: LlamaTokenizer, text: str
) -> None:
    ids = pieces(text + "\n\ncdef", add_special_tokens=False).input_ids
    row = Row(0, (), SamplingParams(max_tokens=100), ("\n\n",))
    extend(row, ids, [0.0] * len(ids), (), pieces)
    assert row.finish_reason == "stop"
    assert decode(pieces, row.token_ids).endswith(text[1:] + "\n\n")
