"""What flash attention takes of a GPU's memory, besides q, k, v and its results."""

from __future__ import annotations

from redqueen.config import Config
from redqueen.policy.model.dimensions import Shape
from redqueen.records import PromptLengths


def keys_of_a_token(config: Config, lengths: PromptLengths) -> float:
    """Returns how many keys flash attention has for each token of a micro-batch of attempts."""
    # Keys and values are laid out anew, a prompt's before each of its continuations. The shorter these are, the more of
    # all keys are a prompt's; they are taken to have a quarter of the most tokens.
    attempts = config.game.attempts
    text = _text_tokens(config)
    laid_out = lengths.attempt + attempts * (lengths.attempt + text)
    return laid_out / (lengths.attempt + attempts * text)


def _text_tokens(config: Config) -> int:
    """Returns how many tokens an attempt is taken to have where short ones need more memory."""
    return max(1, config.sampling.attempt_tokens // 4)


def backward_bytes(config: Config, shape: Shape, lengths: PromptLengths, tokens: int) -> int:
    """Returns what the backward pass of flash attention allocates in one layer, besides its results.

    As in FlashAttention-2: the gradient of q in fp32, with up to 128 rows more for each sequence, and gradients of k
    and v for all heads of q, where several of these share one of k and v.
    """
    width = shape.heads * shape.head_size
    attempts = config.game.attempts
    # A prompt is a sequence of its own, and so is each of its continuations.
    sequences = tokens * (attempts + 1) / (lengths.attempt + attempts * _text_tokens(config))
    wide = 4 * (width + shape.heads) * (tokens + 128 * sequences)
    keys = tokens * keys_of_a_token(config, lengths) if shape.heads > shape.kv_heads else 0
    return int(wide + 2 * 2 * width * keys)
