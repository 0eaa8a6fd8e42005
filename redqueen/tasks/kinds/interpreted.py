"""Languages with an interpreter of their own: their programs run in this process, by code that the language brings.

A subclass of `Interpreted` says what a program gives (`run`), and which seed and reserved programs there are. It is
trusted code, so it must bound the work and the size of values itself: no sandbox does it.
"""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

from redqueen.jail import (
    CodecError,
    Outcome,
    OversizeError,
    Status,
    canonical,
    parse_arguments,
    to_literal,
)
from redqueen.records import Draft
from redqueen.tasks.kinds.calls import Calls
from redqueen.tasks.kinds.language import Half, Words, halved, read_own
from redqueen.tasks.programs.normal_form import ENTRY


class Fault(Exception):  # noqa: N818 - it is the program's fault, and no error of this process
    """A program that gives nothing: `Fault("error", "division by zero")`."""

    def __init__(self, status: Status, detail: str) -> None:
        """`status` is malformed (it is no program), error (it failed) or oversize (it is too large)."""
        super().__init__(detail)
        self.status: Status = status
        self.detail = detail


class Interpreted(Calls):
    """A language that is run by `run` (see `redqueen.tasks.kinds.language.Language`)."""

    name: str
    rules = ""
    """Sentences for chat prompts: what a program may be, and what inputs and outputs are."""
    identity: Draft
    seed_drafts: tuple[Draft, ...] = ()
    reserved_drafts: tuple[Draft, ...] = ()
    """The reserved programs, from which every second one is for each half."""

    def __init__(self) -> None:
        self.words = Words(name=self.name, fence=self.name, function=f"`{ENTRY}`", rules=self.rules)

    def run(self, program: str, arguments: tuple[Any, ...]) -> Any:
        """Returns what a program gives for these arguments. Raises Fault if it gives nothing.

        The program is any text that a model wrote, and the arguments are any literals.
        """
        raise NotImplementedError(f"{self.name} runs nothing")

    def job(
        self,
        program: str,
        inputs: Sequence[str],
        *,
        validate: bool = False,
        expected: tuple[bytes, ...] | None = None,
        one_processor: bool = False,
    ) -> Outcome:
        # What the interpreter gives depends on nothing else, so nothing is run twice.
        del validate, one_processor
        outputs: list[str] = []
        for number, given in enumerate(inputs):
            try:
                value = self.run(program, parse_arguments(given))
                outputs.append(to_literal(value))
            except Fault as fault:
                return Outcome(status=fault.status, outputs=tuple(outputs), detail=fault.detail)
            except CodecError as error:
                status: Status = "oversize" if isinstance(error, OversizeError) else "malformed"
                return Outcome(status=status, outputs=tuple(outputs), detail=str(error))
            if expected is not None and canonical(value) != expected[number]:
                return Outcome(status="wrong", outputs=tuple(outputs), detail=f"input {number} gives {outputs[-1]}")
        return Outcome(status="ok", outputs=tuple(outputs))

    def ask_output(self, given: str) -> str:
        return f"{self.call(given)} =="

    def ask_input(self, output: str) -> str:
        return f"{output} == {ENTRY}("

    def seeds(self, own: str | None = None) -> tuple[Draft, ...]:
        return self.seed_drafts if own is None else read_own(Path(own))

    def reserved(self, half: Half | None = None) -> tuple[Draft, ...]:
        return halved(self.reserved_drafts, half)
