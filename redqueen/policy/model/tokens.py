"""The token ids of a prompt."""

from __future__ import annotations

from typing import Any

from redqueen.errors import PromptError
from redqueen.records import Prompt


def encode(tokenizer: Any, prompt: Prompt) -> tuple[int, ...]:
    """Returns the token ids of a prompt: raw text, or one user message in the model's chat template.

    Raises PromptError if there are none, because there is nothing to continue.
    """
    if not prompt.chat:
        ids = tuple(tokenizer(prompt.text + prompt.prefix).input_ids)
        if not ids:
            raise PromptError("an empty prompt: this tokenizer adds no first token, so write at least one letter")
        return ids
    # The template writes the special tokens itself; the tokenizer could add the first one a second time.
    text = tokenizer.apply_chat_template(
        [{"role": "user", "content": prompt.text}], tokenize=False, add_generation_prompt=True
    )
    return tuple(tokenizer(text + prompt.prefix, add_special_tokens=False).input_ids)
