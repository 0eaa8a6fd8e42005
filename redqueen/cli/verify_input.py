"""Reads one line of the input of `redqueen verify`: the question that it asks, or why it is a bad line."""

from __future__ import annotations

import json
from dataclasses import dataclass, replace
from typing import Any, cast

from redqueen.jail import MAX_INPUTS, LiteralError, OversizeError
from redqueen.records import Answer, Draft, Pair, Proposal, Verdict
from redqueen.tasks.kinds import TaskKind, find, is_kind, names

# A line that has one of these without an answer is more likely an attempt that lost its answer than a proposal. Judging
# it as a proposal would report "valid" for something that was never asked.
_ONLY_ATTEMPTS = ("output", "hidden", "examples")


class BadLineError(ValueError):
    """A line that asks nothing that can be judged."""

    def __init__(self, id: str | int | None, reason: str) -> None:
        """Keeps the line's id, or None if it could not be read, so that the verdict can name it."""
        super().__init__(reason)
        self.id = id


@dataclass(frozen=True, slots=True, kw_only=True)
class VerifyEntry:
    """A line that can be judged."""

    id: str | int
    question: Proposal | Answer | Verdict
    """The question for the verifier, or the verdict if the line alone decides it."""


def read_entry(raw: bytes) -> VerifyEntry:
    """Reads a proposal `{"id", "kind", "program", "input"}`, or an attempt, which has an `"answer"`. Runs no program.

    With an answer, deduction needs `"output"`, abduction `"program"` and `"output"`, and induction `"hidden"`. If an
    abduction attempt has an `"input"`, the program has to give the output for it too. Other fields are ignored. Raises
    BadLineError if the line is no JSON object, or if a field is missing or of the wrong type.
    """
    fields = _fields(raw)
    name = fields.get("id")
    # In Python a bool is an int, but `true` as an id is a mistake.
    if not isinstance(name, str | int) or isinstance(name, bool):
        raise BadLineError(None, '"id" must be a text or a whole number')
    try:
        kind = fields.get("kind")
        if not isinstance(kind, str) or not is_kind(kind):
            raise BadLineError(name, f'"kind" must be one of {", ".join(names())}')
        question = _attempt(name, find(kind), fields) if "answer" in fields else _proposal(name, find(kind), fields)
    except OversizeError as error:
        question = Verdict(status="oversize", detail=str(error))
    except BadLineError as error:
        raise BadLineError(name, str(error)) from None
    return VerifyEntry(id=name, question=question)


def _proposal(name: str | int, kind: TaskKind, fields: dict[str, Any]) -> Proposal:
    for field in _ONLY_ATTEMPTS:
        if field in fields:
            raise BadLineError(name, f'"{field}" without "answer": neither a proposal nor an attempt')
    draft = Draft(_text(fields, "program"), (_text(fields, "input"),))
    # The line asks whether the program is valid, not whether it makes a good game: one input is enough.
    judged_as = kind.language.name if kind.shows_examples else kind.name
    return Proposal(id=str(name), kind=judged_as, author="", step=0, draft=draft)


def _attempt(name: str | int, kind: TaskKind, fields: dict[str, Any]) -> Answer:
    answer = _text(fields, "answer")
    if kind.shows_examples:
        pairs = tuple(_pairs(fields, "hidden"))
        if not 0 < len(pairs) <= MAX_INPUTS:
            raise BadLineError(name, f'"hidden" must hold 1 to {MAX_INPUTS} pairs')
    else:
        pairs = (Pair("", _text(fields, "output")),)
    inputs = tuple(pair.input for pair in pairs) if kind.shows_examples else ()
    program = ""
    if kind.runs_program:
        program = _text(fields, "program")
        inputs = (_text(fields, "input"),) if "input" in fields else ()
    # A bad input is the line's fault, and not that of the answer, which would fail on it.
    for text in inputs:
        try:
            kind.language.spell_input(text)
        except LiteralError as error:
            raise BadLineError(name, f"the recorded input: {error}") from None
    try:
        return replace(kind.answer(program, pairs, answer), inputs=inputs)
    except LiteralError as error:
        raise BadLineError(name, f"the expected output: {error}") from None


def _fields(raw: bytes) -> dict[str, Any]:
    if not raw.strip():
        raise BadLineError(None, "an empty line")
    try:
        fields = json.loads(raw.decode("utf-8-sig"))
    except (ValueError, RecursionError) as error:
        # ValueError is also raised for bytes that are no UTF-8 and for numbers with too many digits.
        raise BadLineError(None, f"not JSON: {str(error)[:200]}") from None
    if not isinstance(fields, dict):
        raise BadLineError(None, "not a JSON object")
    return cast("dict[str, Any]", fields)


def _text(fields: dict[str, Any], field: str) -> str:
    value = fields.get(field)
    if not isinstance(value, str):
        raise BadLineError(None, f'"{field}" is missing' if value is None else f'"{field}" must be a text')
    # What some editors write in front of a file: no part of a program or a value.
    return value.removeprefix("\ufeff")


def _pairs(fields: dict[str, Any], field: str) -> list[Pair]:
    items = fields.get(field)
    pairs: list[Pair] = []
    for item in cast("list[Any]", items) if isinstance(items, list) else []:
        texts = cast("list[Any]", item) if isinstance(item, list) else []
        if len(texts) != 2 or not all(isinstance(text, str) for text in texts):
            raise BadLineError(None, f'"{field}" must be a list of [input, output] texts')
        pairs.append(Pair(texts[0], texts[1]))
    return pairs
