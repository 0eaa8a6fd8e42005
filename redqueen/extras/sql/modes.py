"""The three kinds of tasks in SQL, where they differ from those of any language."""

from __future__ import annotations

import random
from collections.abc import Sequence
from dataclasses import replace

from redqueen.extras.sql.database import in_order, more_databases, read_database, written_rows
from redqueen.extras.sql.language import ORDERED, SQL
from redqueen.extras.sql.tokens import QueryError, constants
from redqueen.jail import CodecError, Job, Outcome, canonical, to_literal
from redqueen.records import Draft, Pair, Prompt, Proposal, Task, Verdict
from redqueen.tasks.kinds.abduction import Abduction
from redqueen.tasks.kinds.deduction import Deduction
from redqueen.tasks.kinds.induction import Induction
from redqueen.tasks.kinds.kind import LINE, Answer, InputCounts, Question, QuestionError, TaskKind, Trial, fence

SHOWN = 2
"""The databases that a student sees who writes a query."""
DRAWN = 8
"""The databases that are drawn beside a teacher's: hidden ones, on which a query is judged."""
_UNDECIDED = to_literal(None)


class SqlTask(TaskKind):
    """What the kinds have in common: a query whose result is not determined is no task."""

    def task(
        self, proposal: Proposal, outcome: Outcome, counts: InputCounts, max_input_bytes: int
    ) -> tuple[Verdict, Task | None]:
        if outcome.detail.startswith("Undecided") or _UNDECIDED in outcome.outputs:
            detail = "which rows it gives, or in which order, depends on how they are stored"
            outcome = replace(outcome, status="nondeterministic", detail=detail)
        return super().task(proposal, outcome, counts, max_input_bytes)

    def proposal_form(self, counts: InputCounts) -> str:
        del counts
        return "a ```sql block with the query and an ```input block with the database"


class SqlDeduction(SqlTask, Deduction):
    """The student predicts the rows."""

    title = "predict the rows that a query gives"
    puzzle = "predict the rows"
    asks = "the rows are asked"

    def trial(self, answer: Answer, text: str) -> Trial | Verdict:
        (expected,) = answer.expected
        # The order counts if the query gives one, whatever the answer's brackets are.
        rows = written_rows(text) if expected.startswith(ORDERED) else in_order(written_rows(text))
        correct = canonical(rows) == expected
        return Verdict(status="correct" if correct else "wrong", output=to_literal(rows))

    def chat_question(self, task: Task) -> str:
        asked = "Which rows does this query give on this database?"
        return "\n\n".join([asked, fence("sql", self.posed(task)), fence("input", task.pairs[0].input)])

    def answer_form(self) -> str:
        return "one ```output block with the rows as a Python list of tuples"


class SqlAbduction(SqlTask, Abduction):
    """The student finds rows of the given tables. Any that give the result are right."""

    title = "find rows of the tables that give the result"
    puzzle = "find the rows of the tables"
    asks = "the database is asked"

    def trial(self, answer: Answer, text: str) -> Trial | Verdict:
        found = read_database(text)
        for given in answer.inputs:
            schema = read_database(given).schema
            if found.schema != schema:
                return Verdict(status="wrong", detail=f"its tables are {found.schema} and not {schema}")
        return super().trial(answer, text)

    def question(self, task: Task) -> Prompt:
        asked = SQL.ask_input(task.pairs[0].output)
        return Prompt(f"{_with_tables(task, self.posed(task))}\n{asked}", LINE)

    def chat_question(self, task: Task) -> str:
        asked = "Find rows for these tables, at which the query gives this output; any that do are right."
        return "\n\n".join(
            [asked, fence("sql", _with_tables(task, self.posed(task))), fence("output", task.pairs[0].output)]
        )

    def answer_form(self) -> str:
        return "one ```input block with the database, e.g. {'t': [('a', 'b'), (1, 'x')]}"

    def write_question(self, task: Task) -> str:
        return f"{_with_tables(task, task.program)}\n{SQL.equation('?', task.pairs[0].output)}"

    def miss(self, verdict: Verdict) -> str:
        return f"the query gives {verdict.output}" if verdict.output else verdict.detail


class SqlInduction(SqlTask, Induction):
    """The student writes the query. It is judged on hidden databases: the teacher's later ones, and drawn ones."""

    title = "write the query from a question and examples"
    puzzle = "write the query"

    def of_program(self, whole: Task, rng: random.Random | None = None) -> Task | None:
        return super().of_program(whole, rng) if _differ(whole.pairs) else None

    def shown(self, task: Task) -> tuple[Pair, ...]:
        return task.pairs[:SHOWN]

    def judged_on(self, task: Task) -> tuple[Pair, ...]:
        return task.pairs[SHOWN:]

    def job(self, draft: Draft) -> Job | Outcome:
        """Returns what decides whether a draft is a task: its query on the teacher's databases and on drawn ones."""
        try:
            drawn = _drawn(draft)
        except (CodecError, QueryError):
            # What is wrong is said where the databases are read.
            drawn = ()
        return SQL.job(draft.program, (*draft.inputs, *drawn), validate=True, loose=True)

    def task(
        self, proposal: Proposal, outcome: Outcome, counts: InputCounts, max_input_bytes: int
    ) -> tuple[Verdict, Task | None]:
        own = len(proposal.draft.inputs)
        if outcome.status != "ok" or _UNDECIDED in outcome.outputs[:own]:
            return super().task(proposal, outcome, counts, max_input_bytes)
        # A drawn database on which the rows tie is left out.
        given = (*proposal.draft.inputs, *_drawn(proposal.draft))
        kept = [(text, output) for text, output in zip(given, outcome.outputs, strict=True) if output != _UNDECIDED]
        proposal = replace(proposal, draft=replace(proposal.draft, inputs=tuple(text for text, _ in kept)))
        outcome = replace(outcome, outputs=tuple(output for _, output in kept))
        return super().task(proposal, outcome, counts, max_input_bytes)

    def made(
        self, proposal: Proposal, pairs: tuple[Pair, ...], verdict: Verdict, counts: InputCounts
    ) -> tuple[Verdict, Task | None]:
        if not _differ(pairs):
            return replace(verdict, status="malformed", detail="it gives the same rows on every database"), None
        return super().made(proposal, pairs, verdict, replace(counts, least=max(counts.least, SHOWN + 1)))

    def write_proposal(self, task: Task, counts: InputCounts) -> str:
        # More databases are drawn. Those that teachers write would only lengthen the text.
        return super().write_proposal(replace(task, pairs=task.pairs[: max(SHOWN, counts.least)]), counts)

    def read_question(self, lines: Sequence[str]) -> Question | None:
        question = super().read_question(lines)
        if question is not None and len(question.pairs) <= SHOWN:
            raise QuestionError(f"{SHOWN} examples are shown and the others judge the answer: write more")
        return question

    def chat_question(self, task: Task) -> str:
        asked = "Write the SQL query that this message asks for; it will be judged on other databases."
        shown = [f"{fence('input', pair.input)}\n{fence('output', pair.output)}" for pair in self.shown(task)]
        return "\n\n".join([asked, fence("message", task.message), *shown])

    def answer_form(self) -> str:
        return "one ```sql block with the query"

    def proposal_form(self, counts: InputCounts) -> str:
        return f"{counts.least} or more ```input blocks with a database each, and a ```message block with the question"

    def goal(self, counts: InputCounts) -> str:
        return (
            f"Below is a SQL query. Write {counts.least} or more different databases for it and a question in plain "
            "words, so that somebody who sees the question and two of the databases with their results can, with real "
            "reasoning, write the query. The question must not contain code."
        )


def _differ(pairs: Sequence[Pair]) -> bool:
    """Returns whether the pairs have different results: else a query without a table would do."""
    return len({pair.output for pair in pairs}) > 1


def _with_tables(task: Task, query: str) -> str:
    """Returns a task's query, as it is shown, and, as a comment below it, the tables that it is about."""
    given = task.pairs[0].input
    # A person's question has the comment already, and no database.
    return f"{query}\n{SQL.comment(read_database(given).schema)}" if given else task.program


def _drawn(draft: Draft) -> tuple[str, ...]:
    """Returns the hidden databases that are drawn for a draft: always the same ones."""
    given = [read_database(text) for text in draft.inputs]
    seed = "\0".join([SQL.fingerprint(draft.program), *draft.inputs])
    return tuple(database.text() for database in more_databases(given, constants(draft.program), DRAWN, seed))


KINDS = (SqlDeduction("sql_o", SQL), SqlAbduction("sql_i", SQL), SqlInduction("sql_f", SQL))
