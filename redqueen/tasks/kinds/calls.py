"""Calls `f(...)` with values that are Python's literals: the text of every language that has no better one."""

from __future__ import annotations

import ast
import random
import re
from collections.abc import Mapping
from functools import cached_property
from pathlib import Path

from redqueen.jail import GAME, Profile, canonical, parse_arguments, parse_literal, to_literal
from redqueen.records import Draft, Pair
from redqueen.tasks.kinds.language import Half
from redqueen.tasks.kinds.work import Run
from redqueen.tasks.programs.normal_form import ENTRY, hashed, split_calls

_OUTPUT_GAP = re.compile(r"f\((.*)\)\s*==\s*\?")
_INPUT_GAP = re.compile(r"f\(\s*\?\s*\)\s*==\s*(\S.*)")
_NO_INPUT = re.compile(r"\s*\?\s*")


class Literals:
    """What most languages (`redqueen.tasks.kinds.Language`) have in common: their values are Python's literals.

    By itself a program is known by its text, and no measure of programs applies to it.
    """

    prefix = ""
    profile: Profile = GAME
    warm_starts: Mapping[str, Path] = {}

    def fingerprint(self, program: str) -> str:
        return hashed(program.strip())

    def posed(self, program: str) -> str:
        return program

    def shape(self, program: str) -> str:
        return self.fingerprint(program)

    def tree(self, program: str) -> ast.Module | None:
        del program

    def called(self, program: str) -> str | None:
        del program

    def trace(self, program: str, given: str, run: Run) -> tuple[str, ...] | None:
        del program, given, run

    def drawn(self, rng: random.Random) -> Draft | None:
        del rng

    def reserved(self, half: Half | None = None) -> tuple[Draft, ...]:
        del half
        return ()

    def is_reserved(self, program: str) -> bool:
        return self.shape(program) in self._reserved_shapes

    @cached_property
    def _reserved_shapes(self) -> frozenset[str]:
        return frozenset(self.shape(draft.program) for draft in self.reserved())

    def identity_of(self, value: str) -> bytes:
        return canonical(parse_literal(value))

    def spell(self, value: str) -> str:
        return to_literal(parse_literal(value))

    def input_identity(self, given: str) -> bytes:
        return canonical(parse_arguments(given))

    def spell_input(self, given: str) -> str:
        return ", ".join(to_literal(value) for value in parse_arguments(given))

    def comment(self, text: str) -> str:
        return f"# {text}"

    def uncomment(self, line: str) -> str:
        return line.removeprefix("#").strip()


class Calls(Literals):
    """The part of a language that writes and reads calls and questions as well."""

    def call(self, given: str) -> str:
        return f"{ENTRY}({given})"

    def split_calls(self, text: str) -> tuple[str, tuple[str, ...]]:
        return split_calls(text)

    def ask_output(self, given: str) -> str:
        return f"assert {ENTRY}({given}) =="

    def ask_input(self, output: str) -> str:
        return f"assert {output} == {ENTRY}("

    def write_input(self, given: str) -> str:
        return f"{given})"

    def read_input(self, text: str) -> str | None:
        # The prompt opened the call's parenthesis, so the answer must close it.
        return text[:-1] if text.endswith(")") else None

    def equation(self, given: str, output: str) -> str:
        return f"{ENTRY}({given}) == {output}"

    def read_equation(self, line: str) -> Pair | None:
        # A text in the arguments may hold "==" or brackets, so the line is parsed and not split.
        text = line.strip()
        try:
            tree = ast.parse(text, mode="eval").body
        except (SyntaxError, ValueError, RecursionError, MemoryError):
            return None
        match tree:
            case ast.Compare(left=ast.Call(func=ast.Name(id="f")) as call, ops=[ast.Eq()], comparators=[result]):
                written = ast.get_source_segment(text, call) or ""
                arguments = written.partition("(")[2].rpartition(")")[0]
                return Pair(arguments.strip(), ast.get_source_segment(text, result) or "")
            case _:
                return None

    def read_output_gap(self, line: str) -> str | None:
        match = _OUTPUT_GAP.fullmatch(line)
        # With two gaps an input is asked for.
        return None if match is None or _NO_INPUT.fullmatch(match[1]) else match[1]

    def read_input_gap(self, line: str) -> str | None:
        match = _INPUT_GAP.fullmatch(line)
        return None if match is None else match[1]
