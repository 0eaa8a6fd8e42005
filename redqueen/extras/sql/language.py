"""SQL: a program is a query, an input is a database, an output is what SQLite gives for it in the jail."""

from __future__ import annotations

import ast
import re
from collections.abc import Mapping, Sequence
from dataclasses import replace
from functools import cache
from importlib import resources
from pathlib import Path

from redqueen.extras.sql import seeds
from redqueen.extras.sql.database import in_order, read_database, read_rows
from redqueen.extras.sql.grammar import parse
from redqueen.extras.sql.meaning import meaning
from redqueen.extras.sql.tokens import ForbiddenError, QueryError, Token, fingerprint, tokens, without_comments
from redqueen.extras.sql.tree import shape, tree_of
from redqueen.jail import (
    GAME,
    Job,
    LiteralError,
    Outcome,
    OversizeError,
    Status,
    canonical,
    encode_arguments,
    to_literal,
)
from redqueen.records import Draft, Pair
from redqueen.tasks.kinds.calls import Literals
from redqueen.tasks.kinds.language import Half, Words
from redqueen.tasks.kinds.work import Run
from redqueen.tasks.programs.tracing import ARROW

_WHOLE = frozenset({"with", "union", "intersect", "except"})
_LATER = frozenset({"group", "having", "order", "limit"})


def clauses(query: str) -> list[tuple[str, str]]:
    """Returns the text of each step and the query whose rows it leaves, the whole query last.

    These are the work of a query. `SELECT name FROM t WHERE age > 3 ORDER BY name` has two steps:

        WHERE age > 3 -> [('bo', 4), ('al', 7)]
        SELECT name ORDER BY name -> (('al',), ('bo',))

    A query of several SELECTs is one step. Raises QueryError if the text cannot be read.
    """
    words = [token for token in tokens(query) if token.sort != "end"]
    top = _top_level(words)
    source = top.get("from")
    if source is None or not _WHOLE.isdisjoint(top):
        return [(_text(words), query)]
    later = min((at for word, at in top.items() if word in _LATER), default=len(words))
    where = top.get("where", later)
    steps: list[tuple[str, str]] = []
    if any(word in top for word in ("join", ",")) and where - source > 2:
        steps.append((_text(words[source:where]), f"SELECT * {_text(words[source:where])}"))
    if where < later:
        steps.append((_text(words[where:later]), f"SELECT * {_text(words[source:later])}"))
    return [*steps, (_text([*words[:source], *words[later:]]), query)]


def _top_level(words: Sequence[Token]) -> dict[str, int]:
    """Returns where each word stands first outside all brackets; a comma counts behind FROM."""
    places: dict[str, int] = {}
    depth = 0
    for at, token in enumerate(words):
        depth += (token.text == "(") - (token.text == ")")
        counts = token.sort == "word" or (token.text == "," and "from" in places and "order" not in places)
        if depth == 0 and counts:
            places.setdefault(token.text, at)
    return places


def _text(words: Sequence[Token]) -> str:
    """Returns words as a person spaces them, keywords in capitals."""
    text = ""
    before = Token("", "(")
    for token in words:
        opens = token.text == "(" and before.sort == "name"
        space = "" if opens or before.text in "(." or token.text in ").," else " "
        text += space + (token.text.upper() if token.sort == "word" else token.text)
        before = token
    return text


class _Bare(ast.NodeTransformer):
    """Leaves out of a program what does nothing when it runs: docstrings, types, and what is imported for them."""

    def visit_Expr(self, node: ast.Expr) -> ast.Expr | ast.Pass:
        return ast.Pass() if isinstance(node.value, ast.Constant) else node

    def visit_ImportFrom(self, node: ast.ImportFrom) -> None:
        return None

    def visit_arg(self, node: ast.arg) -> ast.arg:
        return ast.arg(node.arg)

    def visit_AnnAssign(self, node: ast.AnnAssign) -> ast.stmt:
        return ast.Pass() if node.value is None else ast.Assign([node.target], node.value)

    def visit_FunctionDef(self, node: ast.FunctionDef) -> ast.FunctionDef:
        node.returns = None
        self.generic_visit(node)
        return node

    def visit_Assign(self, node: ast.Assign) -> ast.stmt:
        # An alias of a type.
        return ast.Pass() if ast.unparse(node.targets[0]) == "Row" else node


@cache
def runner() -> str:
    """Returns the program of every job."""
    text = (resources.files("redqueen.extras.sql") / "runner.py").read_text(encoding="utf-8")
    return ast.unparse(ast.fix_missing_locations(_Bare().visit(ast.parse(text))))


STEPS = 1_000_000
"""What SQLite's virtual machine may do for one answer, of 1,000 steps each time it is asked; half of it to be valid."""

ORDERED = canonical(())[:1]
"""How the identity of an ordered result begins."""

# What it means that a query cannot be asked of a database.
_STATUS: dict[type[Exception], Status] = {
    OversizeError: "oversize",
    LiteralError: "malformed",
    ForbiddenError: "forbidden",
    QueryError: "error",
}
_ARROW = re.compile(r"(\{.*\})\s*->\s*(\S.*)")
_INPUT_GAP = re.compile(r"([\[(].*[\])])\s*<-\s*\?")


class Sql(Literals):
    """The language (see `redqueen.tasks.kinds.language.Language`)."""

    name = "sql"
    words = Words(
        name="SQL",
        fence="sql",
        function="the query",
        rules=(
            "The program is one query for SQLite: SELECT with joins, subqueries, WITH, GROUP BY, HAVING, CASE, set "
            "operations, ORDER BY and LIMIT. It uses the aggregates count, sum, avg, min, max, total and the functions "
            "abs, length, lower, upper, trim, substr, replace, instr, coalesce, ifnull, nullif, round. What it gives "
            "must not depend on how rows are stored: no LIMIT without ORDER BY, no ties in ORDER BY, no column beside "
            "an aggregate that is not in GROUP BY. An input is a database, a Python dict of tables; a table is a list "
            "of rows, the first of which names the columns, e.g. {'t': [('a', 'b'), (1, 'x'), (2, None)]}. Values are "
            "whole numbers, texts and None for NULL. An output is the list of rows; where the query orders them, it is "
            "a tuple."
        ),
    )
    prefix = "SELECT"
    profile = replace(GAME, modules=("sqlite3",))
    warm_starts: Mapping[str, Path] = {"completion": Path(__file__).with_name("warm")}
    identity = Draft("SELECT * FROM t", seeds.IDENTITY, "all rows")

    def trace(self, program: str, given: str, run: Run) -> tuple[str, ...] | None:
        lines: list[str] = []
        for text, query in clauses(program):
            job = self.job(query, (given,), loose=True)
            outputs = run(job.program, job.inputs) if isinstance(job, Job) else ()
            if not outputs:
                return None
            lines.append(f"{text}{ARROW}{self.spell(outputs[0])}")
        return tuple(lines)

    def fingerprint(self, program: str) -> str:
        return fingerprint(program)

    def posed(self, program: str) -> str:
        return without_comments(program)

    def shape(self, program: str) -> str:
        return shape(program)

    def tree(self, program: str) -> ast.Module:
        return tree_of(parse(program))

    def job(
        self,
        program: str,
        inputs: Sequence[str],
        *,
        validate: bool = False,
        expected: tuple[bytes, ...] | None = None,
        one_processor: bool = False,
        loose: bool = False,
    ) -> Job | Outcome:
        """Returns the job of a query on databases; `loose` asks for None where rows tie, which else is an error."""
        # A query has no way to learn on which processor it runs.
        del one_processor
        try:
            query = parse(program)
        except ForbiddenError as error:
            return Outcome(status="forbidden", detail=str(error))
        except QueryError as error:
            return Outcome(status="malformed", detail=str(error))
        packed: list[bytes] = []
        for index, given in enumerate(inputs):
            where = f" on input {index}" if len(inputs) > 1 else ""
            try:
                database = read_database(given)
                asked = meaning(query, database)
            except tuple(_STATUS) as error:
                return Outcome(status=_STATUS[type(error)], detail=f"{error}{where}")
            bag = expected is not None and not expected[index].startswith(ORDERED)
            rows = (asked.width, asked.keys, asked.first, asked.count)
            steps = STEPS // 2 if validate else STEPS
            packed.append(encode_arguments((asked.sql, database.value(), *rows, bag, loose, steps)))
        return Job(runner(), tuple(packed), validate=validate, expected=expected)

    def identity_of(self, value: str) -> bytes:
        return canonical(read_rows(value))

    def spell(self, value: str) -> str:
        return to_literal(read_rows(value))

    def input_identity(self, given: str) -> bytes:
        database = read_database(given)
        # The order of rows is no part of a database.
        return canonical({name: (table.columns, in_order(table.rows)) for name, table in database.tables.items()})

    def spell_input(self, given: str) -> str:
        return read_database(given).text()

    def comment(self, text: str) -> str:
        return f"-- {text}"

    def uncomment(self, line: str) -> str:
        return line.removeprefix("--").strip()

    def call(self, given: str) -> str:
        return given

    def split_calls(self, text: str) -> tuple[str, tuple[str, ...]]:
        return seeds.split_databases(text)

    def ask_output(self, given: str) -> str:
        return f"{given} ->"

    def ask_input(self, output: str) -> str:
        return f"{output} <-"

    def write_input(self, given: str) -> str:
        return f" {given}"

    def read_input(self, text: str) -> str | None:
        return text.strip() or None

    def equation(self, given: str, output: str) -> str:
        return f"{output} <- ?" if given == "?" else f"{given} -> {output}"

    def read_equation(self, line: str) -> Pair | None:
        match = _ARROW.fullmatch(line.strip())
        return Pair(match[1], match[2]) if match else None

    def read_output_gap(self, line: str) -> str | None:
        pair = self.read_equation(line)
        return pair.input if pair is not None and pair.output == "?" else None

    def read_input_gap(self, line: str) -> str | None:
        match = _INPUT_GAP.fullmatch(line)
        return match[1] if match else None

    def seeds(self, own: str | None = None) -> tuple[Draft, ...]:
        return seeds.seeds_of(own)

    def reserved(self, half: Half | None = None) -> tuple[Draft, ...]:
        return seeds.reserved(half)


SQL = Sql()
