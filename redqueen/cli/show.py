"""`redqueen show`: the tasks of a run with the answers, in the terminal."""

# No import here may load torch: the archive is read at once (see `redqueen.cli.app`).

from __future__ import annotations

from collections import Counter
from pathlib import Path

from rich.console import Console
from rich.text import Text

from redqueen.errors import UserError
from redqueen.members.question import write_question
from redqueen.method.prompts import taken_apart
from redqueen.records import Kind
from redqueen.run.recording.plain_console import table_console
from redqueen.store.allowed import NOTHING, Permissions, check_kind, playable
from redqueen.store.archive.reader import ArchiveReader
from redqueen.store.archive.rows import BANK, AttemptRow, MemberRow, written_by
from redqueen.store.directory import RunDirectory
from redqueen.store.files import damage_of, printable
from redqueen.store.tasks import Order, TaskHistory, given_program, proposals, select
from redqueen.tasks.kinds import TaskKind, find_or_plain

_INDENT = "    "
_NEW_LINE = "\n"


def run_show(
    run: Path,
    step: int | None,
    member: str | None,
    kind: Kind | None,
    order: Order,
    limit: int,
    allowed: Permissions = NOTHING,
) -> int:
    """Prints at most `limit` tasks; returns the exit code. `step` counts from 1.

    Raises RunError if there is no such run, UserError if it has no such step or member, or there is no such kind.
    """
    if allowed.plugins:
        playable(RunDirectory(run), allowed)
    with damage_of(run):
        name = None if member is None else _name(run, member)
        prompts = RunDirectory(run).config().model.prompts
        every = proposals(run, step)
    if not every:
        raise UserError(f"{run} has no step {step}" if step is not None else f"{run} has played no step yet")
    check_kind(kind, [proposed.proposal.kind for proposed in every])
    console = table_console()
    with damage_of(run):
        chosen = select(every, name, kind, order)
        for proposed in chosen[:limit]:
            _print(console, proposed, prompts)
    console.print(printable(_summary(every, chosen, limit, order)), soft_wrap=True)
    own = {proposed.proposal.kind for proposed in chosen[:limit]}
    if plain := sorted(kind for kind in own if type(find_or_plain(kind)) is TaskKind):
        console.print(
            f"{', '.join(plain)}: defined by the run's own modules; --load-plugins shows these tasks in their wording"
        )
    return 0


def indented(text: str) -> Text:
    """Returns a program or a question, four spaces to the right."""
    return Text("\n".join(f"{_INDENT}{line}" for line in printable(text).split("\n")))


def _name(run: Path, member: str) -> str:
    """Returns the name of the member that is meant. Raises UserError, which lists the members, if there is none."""
    with ArchiveReader(RunDirectory(run).archive) as archive:
        names = [row.name for row in archive.every(MemberRow)]
    for name in names:
        if name.casefold() == member.casefold():
            return name
    raise UserError(f"no member '{member}' ever lived in {run}: choose one of {', '.join(names)}")


def _print(console: Console, proposed: TaskHistory, prompts: str) -> None:
    row = proposed.proposal
    author = written_by(row.teacher if proposed.task is None else proposed.task.author)
    by = author if row.teacher == BANK else f"by {author}"
    head = f"step {row.step}  {row.kind} {by} for {proposed.student}  ({row.id})"
    console.print(Text(printable(head), style="bold"))
    if proposed.task is None:
        if program := given_program(row):
            console.print(Text("  it was given the program"))
            console.print(indented(program))
            console.print(Text("  and wrote"))
        console.print(indented(row.text.strip("\n")))
        console.print(_line(f"refused, {row.status}", row.detail, row.reward, row.teacher), style="red")
    else:
        task = proposed.task.task()
        console.print(indented(write_question(task)))
        kind = find_or_plain(task.kind)
        answer = kind.recorded_answer(task)
        if kind.shows_examples:
            shown, judged = len(kind.shown(task)), len(kind.judged_on(task))
            others = f"the other {judged}" if judged < len(task.pairs) else f"all {judged}"
            console.print(Text(f"  shown: the first {shown}, judged on {others}"))
        elif answer:
            whose = "the" if row.teacher == BANK else f"{author}'s"
            console.print(Text(printable(f"  {whose} answer  {answer}")))
        judged = [attempt for attempt in proposed.attempts if attempt.reward is not None]
        solved = sum(attempt.status == "correct" for attempt in judged)
        lost = len(proposed.attempts) - len(judged)
        said = f"valid, solved {solved} of {len(judged)}" + f" ({lost} more were not judged)" * bool(lost)
        console.print(_line(said, "", row.reward, row.teacher))
        _print_attempts(console, proposed, prompts)
    console.print()


def _line(what: str, detail: str, reward: float | None, teacher: str) -> Text:
    """Returns what became of a proposal, and what its teacher was paid for it."""
    lost = "no teacher is paid" if teacher == BANK else "the machine failed, nothing is paid"
    pay = lost if reward is None else f"{teacher} is paid {reward:+.2f}"
    return Text(printable(f"  {what}{f' ({detail})' if detail else ''}; {pay}"))


def _print_attempts(console: Console, proposed: TaskHistory, prompts: str) -> None:
    """Prints equal answers once, with their number and the work of one of them, the most frequent first."""
    kind = proposed.proposal.kind
    counts: Counter[tuple[str, str, float | None]] = Counter()
    works: dict[tuple[str, str, float | None], str] = {}
    for attempt in proposed.attempts:
        work, answer = work_and_answer(prompts, kind, attempt.text)
        key = (attempt.status, _with_reason(answer, attempt), attempt.reward)
        counts[key] += 1
        works.setdefault(key, work)
    for key, count in counts.most_common():
        status, answer, reward = key
        style = "green" if status == "correct" else ""
        pay = "" if reward is None else f"{reward:+.2f}"
        first, _, rest = answer.partition("\n")
        head = printable(f"  {proposed.student}  {count} x  {status:<12} {pay:<5}  ")
        # A function begins on a line of its own, below the verdict.
        if rest:
            console.print(Text(head.rstrip(), style=style))
            console.print(indented(answer))
        else:
            console.print(Text(f"{head}{first}", style=style))
        if works[key]:
            console.print(indented(works[key]), style="dim")


def _with_reason(answer: str, attempt: AttemptRow) -> str:
    """Returns an answer, and why it is no right one if the verdict has a reason."""
    if not attempt.detail:
        return answer
    return f"{answer}{_NEW_LINE if _NEW_LINE in answer else '   '}({printable(attempt.detail)})"


def work_and_answer(prompts: str, kind: Kind, text: str) -> tuple[str, str]:
    """Returns an attempt's work, which most formats have none of, and its answer, in a run with such prompts."""
    if prompts == "completion":
        return "", answer_text(text, kind)
    parts = taken_apart(prompts, kind, text)
    return parts.work, printable((parts.answer or "").strip("\n").rstrip())


def answer_text(text: str, kind: Kind) -> str:
    """Returns what a member wrote as an answer, without the blank lines and spaces around it."""
    lines = printable(text.strip("\n").rstrip())
    if _NEW_LINE in lines:
        return lines
    return find_or_plain(kind).written(lines)


def _summary(every: list[TaskHistory], chosen: list[TaskHistory], limit: int, order: Order) -> str:
    """Returns the last line: how much there is that was not printed."""
    refused = Counter(proposed.proposal.status for proposed in every if proposed.task is None)
    remarks = [f"{min(limit, len(chosen))} of {len(chosen)} shown"]
    if not chosen:
        kinds = dict.fromkeys(proposed.proposal.kind for proposed in every)
        remarks.append(f"there are {len(every)} proposals, of the kinds {', '.join(kinds)}")
    if len(chosen) > limit:
        remarks.append("more with --limit N")
    if refused and order == "newest":
        reasons = ", ".join(f"{status} {count}" for status, count in refused.most_common())
        remarks.append(f"{sum(refused.values())} of {len(every)} proposals were refused ({reasons}): see --worst")
    return "; ".join(remarks)
