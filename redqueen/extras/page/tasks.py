"""The tasks of a run: the browser with its filters, and one proposal with its answers, its pay and its way."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict
from itertools import chain
from typing import Any, cast, get_args

from redqueen.cli.show import work_and_answer
from redqueen.config import GameConfig
from redqueen.errors import UserError
from redqueen.extras.page.live_run import LiveRun, UnknownError
from redqueen.method.prompts import taken_apart
from redqueen.method.seeds import is_fixed
from redqueen.records import Kind, Status
from redqueen.store.archive import queries
from redqueen.store.archive.queries import Sort, TaskQuery, Where
from redqueen.store.archive.reader import ArchiveReader
from redqueen.store.archive.rows import (
    BANK,
    AttemptRow,
    MatchRow,
    MeasureRow,
    MemberRow,
    ProposalRow,
    TaskRow,
    written_by,
)
from redqueen.store.directory import RunError
from redqueen.store.files import damage_of
from redqueen.store.tasks import given_program
from redqueen.tasks.kinds import find_or_plain, names

PAGE = 50
"""Tasks on one page."""
_STATUSES = (
    "valid",
    "refused",
    *(status for status in get_args(Status) if status not in ("valid", "correct", "wrong")),
)


class TaskQueryError(UserError):
    """A query string that asks for nothing that can be; the message says which part."""


def browse(run: LiveRun, query: Mapping[str, str]) -> dict[str, object]:
    """Returns a page of tasks, and the names that the filters offer. Raises TaskQueryError if `query` is wrong."""
    kinds = _kinds(run)
    with run.archive() as archive:
        listing = _search(archive, run, query, kinds) if query.get("text") else _page(archive, query, kinds)
        members = archive.every(MemberRow)
    return {
        **listing,
        "teachers": [row.name for row in members if row.role != "student"],
        "students": [row.name for row in members if row.role != "teacher"],
        "statuses": _STATUSES,
        "kinds": kinds,
    }


def _kinds(run: LiveRun) -> tuple[str, ...]:
    """Returns the kinds that tasks can be of: those that are known here, and those of the run."""
    return tuple(dict.fromkeys((*names(), *run.config().game.kinds)))


def _page(archive: ArchiveReader, query: Mapping[str, str], kinds: tuple[str, ...]) -> dict[str, object]:
    """Returns a page of the tasks that the filters ask for."""
    wanted = read_filter(query, kinds)
    sort, descending = _sort(query.get("sort") or "-step")
    page = _number(query, "page", int, low=1) or 1
    total = queries.count(archive, wanted)
    lines = queries.find(archive, wanted, sort, descending=descending, limit=PAGE, offset=(page - 1) * PAGE)
    pages = max(1, -(-total // PAGE))
    return {"tasks": [asdict(line) for line in lines], "total": total, "page": page, "pages": pages}


def _search(
    archive: ArchiveReader, run: LiveRun, query: Mapping[str, str], kinds: tuple[str, ...]
) -> dict[str, object]:
    """Returns the newest of these tasks that have a text, and how far back was looked for it."""
    where: Where = "answers" if _choice(query, "in", get_args(Where)) == "answers" else "tasks"
    newest = run.newest()
    last = _number(query, "before", int, low=1) or (newest["step"] if newest else 0)
    found = queries.containing(archive, query["text"], where, read_filter(query, kinds), last=last, limit=PAGE)
    return {
        "tasks": [asdict(line) for line in queries.lines_of(archive, found.ids)],
        "searched": {"first": found.first, "last": found.last, "complete": found.complete},
        "total": len(found.ids),
        "page": 1,
        "pages": 1,
    }


def read_filter(query: Mapping[str, str], kinds: tuple[str, ...]) -> TaskQuery:
    """Returns the filter that a query string asks for: `kind=NAME&status=refused&from=3&to=9&least=0.5&novel=1`."""
    status = _choice(query, "status", ("any", *_STATUSES)) or "valid"
    novel = _choice(query, "novel", ("0", "1"))
    return TaskQuery(
        kind=_choice(query, "kind", kinds),
        teacher=query.get("teacher") or None,
        student=query.get("student") or None,
        first=_number(query, "from", int),
        last=_number(query, "to", int),
        status=None if status == "any" else status,
        least=_number(query, "least", float),
        most=_number(query, "most", float),
        nodes=_number(query, "nodes", int),
        novel=None if novel is None else novel == "1",
    )


def _sort(text: str) -> tuple[Sort, bool]:
    """Returns what `-rho` sorts by, and whether the largest comes first."""
    name = text.removeprefix("-")
    if name not in get_args(Sort):
        raise TaskQueryError(f"sort={text}: choose one of {', '.join(get_args(Sort))}, with - for the largest first")
    return cast(Sort, name), text.startswith("-")


def _choice(query: Mapping[str, str], name: str, values: tuple[str, ...]) -> str | None:
    text = query.get(name) or None
    if text is not None and text not in values:
        raise TaskQueryError(f"{name}={text}: choose one of {', '.join(values)}")
    return text


def _number(query: Mapping[str, str], name: str, kind: Callable[[str], Any], low: float | None = None) -> Any:
    text = query.get(name) or None
    if text is None:
        return None
    try:
        value = kind(text)
    except ValueError:
        raise TaskQueryError(f"{name}={text} is no number") from None
    # SQLite takes no whole number of more than 64 bits.
    if not -(2**53) <= value <= 2**53 or (low is not None and value < low):
        raise TaskQueryError(f"{name}={text} is out of range")
    return value


# Why a text was paid what it was paid, in words.

_FAULTS: dict[Status, str] = {
    "malformed": "it could not be read",
    "forbidden": "its program does something that is not allowed",
    "error": "its program failed",
    "timeout": "its program took too long",
    "memory": "its program needed too much memory",
    "oversize": "its values were too long",
    "unsupported": "its values have a type that cannot be compared",
    "nondeterministic": "its program did not give the same result again",
}


def why_proposal(row: ProposalRow, task: TaskRow | None, pay: GameConfig) -> str:
    """Returns why a teacher was paid `row.reward`."""
    if row.teacher == BANK:
        return "A fixed task: no teacher wrote it, so no teacher is paid for it."
    if row.reward is None:
        return "Not paid: the machine failed, or no attempt could be judged. The proposal counts nowhere."
    if row.status != "valid":
        cut = " (the token limit cut it off)" if row.finish_reason == "length" else ""
        reason = _FAULTS.get(row.status, row.status)
        return f"{_sum(row.reward)}: no valid task, because {reason}{cut}."
    rho = None if task is None else task.rho
    if rho is None:
        return f"{_sum(row.reward)}."
    solved = f"{rho:.0%} of the judged attempts solved it"
    if pay.teacher_reward == "learnability":
        return f"{_sum(row.reward)} = 4 rho (1 - rho): {solved}."
    if pay.teacher_reward != "populora":
        return f"{_sum(row.reward)}, by the reward '{pay.teacher_reward}': {solved}."
    if rho == 0:
        return f"{_sum(row.reward)}: no attempt solved it, which pays game.teacher_unsolved."
    return f"{_sum(row.reward)} = 1 - rho: {solved}."


def why_attempt(row: AttemptRow, pay: GameConfig) -> str:
    """Returns why a student was paid `row.reward`."""
    if row.reward is None and row.status == "nondeterministic":
        return "Not paid: the task was withdrawn, because its program did not give the same result again."
    if row.reward is None:
        return "Not paid: the machine failed, so this attempt counts nowhere."
    if row.status == "correct":
        reason = "correct"
    elif row.status == "malformed":
        cut = ": the token limit cut it off" if row.finish_reason == "length" else ""
        reason = f"no answer in the right form{cut}"
    elif row.status == "wrong":
        reason = "an answer in the right form, but wrong"
    else:
        reason = f"an answer in the right form, but {_FAULTS.get(row.status, row.status)}"
    rule = "" if pay.student_reward == "azr" or row.status == "malformed" else f", by the reward '{pay.student_reward}'"
    return f"{_sum(row.reward)}{rule}: {reason}."


def _sum(reward: float) -> str:
    """Formats a reward with its sign: `+0.83`; nothing is `0`."""
    return f"{reward:+.2f}" if reward else "0"


SHOWN = 12
"""How many of the tasks are shown that a task led to."""


def task_view(run: LiveRun, name: str) -> dict[str, Any]:
    """Returns a proposal, its task if it is valid, and all attempts, each with its pay and the reason.

    Raises UnknownError if the run has no such proposal.
    """
    config = run.config()
    pay = config.game
    with run.archive() as archive:
        row = archive.one(ProposalRow, name)
        if row is None:
            raise UnknownError(f"this run has no task '{name}'")
        task = archive.one(TaskRow, name)
        match = archive.one(MatchRow, row.match)
        measures = archive.one(MeasureRow, name)
        attempts = queries.attempts_at(archive, name)
        existing = queries.existing(archive, row.reference_ids)
    return {
        "kind": f"{row.kind}: {find_or_plain(row.kind).title}",
        "fixed": row.teacher == BANK,
        "author": written_by(row.teacher if task is None else task.author),
        "proposal": {**asdict(row), "why": why_proposal(row, task, pay), "given": given_program(row)},
        "task": None if task is None else _task(task),
        "measures": None if measures is None else asdict(measures),
        "student": None if match is None else match.student,
        "match": None if match is None else asdict(match),
        "references": [{"id": reference, "here": reference in existing} for reference in row.reference_ids],
        "attempts": [
            {
                **asdict(attempt),
                "detail": _counted(row.kind, attempt.detail),
                "why": why_attempt(attempt, pay),
                "work": taken_apart(config.model.prompts, row.kind, attempt.text).work,
            }
            for attempt in attempts
        ],
    }


def _task(row: TaskRow) -> dict[str, object]:
    """Returns a task. A student is shown the first pairs and judged on the others, or is asked for part of one."""
    kind = find_or_plain(row.kind)
    shown = len(kind.shown(row.task())) if kind.shows_examples else len(row.pairs)
    return {**asdict(row), "shown": shown, "asks": kind.asks}


def _counted(kind: Kind, detail: str) -> str:
    """Returns the jail's reason as people count: "output 0 differs" is "hidden example 1 differs"."""
    # Of other kinds a student is asked for one pair alone.
    several = find_or_plain(kind).shows_examples
    return re.sub(r"^output (\d+)", lambda at: f"hidden example {int(at[1]) + 1}" if several else "the output", detail)


MOST_ANSWERS = 3
"""So many different answers of the example are shown: the most frequent ones, a right one among them."""


def example(run: LiveRun) -> dict[str, object] | None:
    """Returns the newest task that was solved sometimes but not always, else the newest one, with equal answers once.

    It is None before the first task, and where the archive cannot be read: the curves are still to be had.
    """
    try:
        with damage_of(run.directory.path), run.archive() as archive:
            wanted = (TaskQuery(least=0.01, most=0.99), TaskQuery())
            found = (queries.find(archive, each, "step", descending=True, limit=1, offset=0) for each in wanted)
            line = next(chain.from_iterable(found), None)
            row = None if line is None else archive.one(TaskRow, line.id)
            return None if row is None else _example(run, row, queries.attempts_at(archive, row.id))
    except RunError:
        return None


def _example(run: LiveRun, row: TaskRow, attempts: Sequence[AttemptRow]) -> dict[str, object]:
    kind = find_or_plain(row.kind)
    task = row.task()
    prompts = run.config().model.prompts
    found = [(attempt.status, *work_and_answer(prompts, row.kind, attempt.text)) for attempt in attempts]
    counts = Counter((status, answer) for status, _, answer in found)
    # Equal answers stand for one of them: the first one's work is shown.
    works = {(status, answer): work for status, work, answer in reversed(found)}
    shown = counts.most_common(MOST_ANSWERS)
    # A right answer is among them if there is one.
    right = next((each for each in counts.most_common() if each[0][0] == "correct"), None)
    if right is not None and right not in shown:
        shown[-1] = right
    return {
        "id": row.id,
        "step": row.step,
        "kind": f"{row.kind}: {kind.title}",
        "fixed": is_fixed(task),
        "author": written_by(row.author),
        "question": kind.write_question(task),
        "answer": kind.recorded_answer(task),
        "solved": sum(attempt.status == "correct" for attempt in attempts),
        # Those that the machine lost were not judged.
        "attempts": sum(attempt.reward is not None for attempt in attempts),
        "answers": [{"status": each[0], "work": works[each], "text": each[1], "count": count} for each, count in shown],
        "more": max(0, len(counts) - MOST_ANSWERS),
    }


def task_with_way(run: LiveRun, name: str) -> dict[str, object]:
    """Returns `task_view` with the task's way. Raises UnknownError if the run has no such proposal."""
    return {**task_view(run, name), **_way(run, name)}


def _way(run: LiveRun, name: str) -> dict[str, object]:
    newest = run.newest()
    with run.archive() as archive:
        row = archive.one(ProposalRow, name)
        assert row is not None, "it was found a moment ago, and a run removes nothing"
        came_from = queries.lines_of(archive, sorted(queries.existing(archive, row.reference_ids)))
        # A task can be shown from the step after its own.
        last = newest["step"] if newest else row.step
        found = queries.led_to(archive, name, first=row.step + 1, last=last, limit=SHOWN)
        children = queries.lines_of(archive, found.ids[:SHOWN])
    return {
        "came_from": [asdict(line) for line in came_from],
        "led_to": {
            "tasks": [asdict(line) for line in children],
            "more": len(found.ids) - len(children),
            "last": found.last,
            "complete": found.complete,
        },
    }
