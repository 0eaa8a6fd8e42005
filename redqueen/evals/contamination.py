"""Which programs of benchmarks a run has played: its tasks are compared with them up to names and constants."""

from __future__ import annotations

import ast
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from redqueen.errors import UserError
from redqueen.evals.benchmark import ProblemSet
from redqueen.method.seeds import seeds_of
from redqueen.store.archive.reader import ArchiveReader
from redqueen.store.directory import RunDirectory
from redqueen.tasks.programs.normal_form import shape


@dataclass(frozen=True, slots=True, kw_only=True)
class Overlap:
    """What a run's tasks have in common with the programs of one benchmark."""

    run: str
    benchmark: str
    programs: int
    """Programs of the benchmark that were compared."""
    alike: tuple[str, ...]
    """The problems whose program is similar to one of the run's tasks or of its seeds."""
    tasks: int
    """Different programs of the run and its seeds."""


def overlaps(run: str, benchmarks: Sequence[ProblemSet]) -> list[Overlap]:
    """Returns an overlap for each benchmark that has programs.

    Raises RunError if the run has no archive that can be read, SeedError if its own seeds cannot be.
    """
    compared = [loaded for loaded in benchmarks if loaded.programs]
    if not compared:
        return []
    played = _shapes(run)
    results: list[Overlap] = []
    for loaded in compared:
        pairs = zip(loaded.problems, loaded.programs, strict=True)
        alike = tuple(problem.id for problem, program in pairs if plain_shape(program) in played)
        results.append(
            Overlap(
                run=run, benchmark=loaded.benchmark.name, programs=len(loaded.programs), alike=alike, tasks=len(played)
            )
        )
    return results


def notes(runs: Sequence[str], benchmarks: Sequence[ProblemSet]) -> tuple[list[Overlap], list[str]]:
    """Returns the overlaps of all runs, and what to say about them in plain sentences."""
    every: list[Overlap] = []
    sentences: list[str] = []
    for run in runs:
        try:
            every += overlaps(run, benchmarks)
        except UserError as error:
            sentences.append(f"The tasks of {run} were not compared with the benchmarks: {error}.")
    for overlap in every:
        which = f": {', '.join(overlap.alike[:10])}" if overlap.alike else ""
        more = f" and {len(overlap.alike) - 10} more" if len(overlap.alike) > 10 else ""
        sentences.append(
            f"{len(overlap.alike)} of {overlap.programs} programs of {overlap.benchmark} are alike, up to names and "
            f"constants, to one of {overlap.tasks} programs of {overlap.run} and its seeds{which}{more}."
        )
    return every, sentences


def _shapes(run: str) -> frozenset[str]:
    """Returns the shapes of all programs that a run has played, and of its seeds: its own ones or the shipped ones."""
    directory = RunDirectory(Path(run))
    with ArchiveReader(directory.archive) as archive:
        programs = [program for (program,) in archive.select("SELECT DISTINCT program FROM tasks")]
    programs += [draft.program for draft in seeds_of(directory.config().game)]
    return frozenset(map(plain_shape, programs))


def plain_shape(program: str) -> str:
    r"""Returns the shape of a program without its annotations and what is imported for them alone.

    >>> written = "from typing import List\n\ndef total(x: List[int]) -> int:\n    return sum(x)"
    >>> plain_shape(written) == plain_shape("def f(x):\n    return sum(x)")
    True
    """
    # `shape` itself keeps all imports: by it runs tell what is new, and they write few annotations.
    try:
        tree = _Unannotated().visit(ast.parse(program))
        used = {node.id for node in ast.walk(tree) if isinstance(node, ast.Name)}
        return shape(ast.unparse(_Imports(used).visit(tree)))
    except (SyntaxError, ValueError, RecursionError, MemoryError):
        # A program of another language, or one that `ast` cannot write.
        return shape(program)


class _Unannotated(ast.NodeTransformer):
    """Removes all annotations."""

    def visit_arg(self, node: ast.arg) -> ast.arg:
        """Removes a parameter's."""
        node.annotation = None
        return node

    def visit_FunctionDef(self, node: ast.FunctionDef | ast.AsyncFunctionDef) -> ast.AST:
        """Removes what a function is said to return."""
        node.returns = None
        return self.generic_visit(node)

    visit_AsyncFunctionDef = visit_FunctionDef

    def visit_AnnAssign(self, node: ast.AnnAssign) -> ast.AST:
        """Makes a plain assignment of an annotated one."""
        return node if node.value is None else ast.copy_location(ast.Assign([node.target], node.value), node)


class _Imports(ast.NodeTransformer):
    """Removes imports of names that are not used."""

    def __init__(self, used: set[str]) -> None:
        self.used = used

    def visit_Import(self, node: ast.Import | ast.ImportFrom) -> ast.AST | None:
        """Keeps the names that are used, or that are not known."""
        node.names = [alias for alias in node.names if self._stays(alias)]
        return node if node.names else None

    visit_ImportFrom = visit_Import

    def _stays(self, alias: ast.alias) -> bool:
        return alias.name == "*" or (alias.asname or alias.name.partition(".")[0]) in self.used
