"""The token ids of a prompt, and the token that ends a chat turn."""

from __future__ import annotations

from typing import Any

from redqueen.errors import PromptError
from redqueen.records import Prompt


def encode(tokenizer: Any, prompt: Prompt) -> tuple[int, ...]:
    """Returns the token ids of a prompt: raw text, or one user message in the model's chat template.

    Raises PromptError if there are none, because there is nothing to continue, or if the template cannot be used.
    """
    if not prompt.chat:
        ids = tuple(tokenizer(prompt.text + prompt.prefix).input_ids)
        if not ids:
            raise PromptError("an empty prompt: this tokenizer adds no first token, so write at least one letter")
        return ids
    # The template writes the special tokens itself; the tokenizer could add the first one a second time.
    try:
        text = _in_template(tokenizer, [{"role": "user", "content": prompt.text}])
    except PromptError as error:
        raise PromptError(f"the base {error}") from error
    return tuple(tokenizer(text + prompt.prefix, add_special_tokens=False).input_ids)


def chat_fault(tokenizer: Any) -> str:
    """Returns why no chat can be posed with a tokenizer, as the end of a sentence; "" if it can."""
    try:
        _in_template(tokenizer, [{"role": "user", "content": "What is 2 + 2?"}])
    except PromptError as error:
        return str(error)
    return ""


def _in_template(tokenizer: Any, messages: list[dict[str, str]]) -> str:
    """Returns messages as the template writes them, ready to go on. Raises PromptError if that fails."""
    if not tokenizer.chat_template:
        raise PromptError("has no chat template")
    try:
        return tokenizer.apply_chat_template(
            messages, tokenize=False, add_generation_prompt=messages[-1]["role"] == "user"
        )
    except Exception as error:
        # A template is a small program of the model's author, which may raise anything.
        reason = (str(error).strip().splitlines() or [""])[0]
        raise PromptError(f"has a chat template that fails ({type(error).__name__}: {reason})") from error


def end_of_turn(tokenizer: Any) -> int | None:
    """Returns the special token that the chat template writes after an assistant's message, if there is one.

    It may be another one than the tokenizer's own end: a base of Qwen2.5 ends texts with `<|endoftext|>` and its
    template ends turns with `<|im_end|>`, so that a sampler that knows the first alone would go on to the token limit.
    """
    content = "The answer is 4."
    messages = [{"role": "user", "content": "What is 2 + 2?"}, {"role": "assistant", "content": content}]
    try:
        text = _in_template(tokenizer, messages)
    except PromptError:
        # Then no chat is posed, and there is no turn to end.
        return None
    after = text.rpartition(content)[2]
    for token in tokenizer(after.lstrip(), add_special_tokens=False).input_ids:
        # Not every special token has a role of its own: it may only have been added to the vocabulary as one.
        added = tokenizer.added_tokens_decoder.get(token)
        special = token in tokenizer.all_special_ids or (added is not None and added.special)
        # The first one decides: what follows belongs to the next turn.
        return token if special else None
    return None
