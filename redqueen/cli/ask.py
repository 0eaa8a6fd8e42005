"""`redqueen ask`: poses one task to a member of a run, and shows its answer with the verdict."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

from rich.console import Console
from rich.text import Text

from redqueen.cli.show import answer_text, indented
from redqueen.members.asking import AnsweredTask, asked
from redqueen.method.questions import write_question
from redqueen.records import Completion, Task, Verdict
from redqueen.run.recording.lines import Lines
from redqueen.run.recording.plain_console import PlainConsole
from redqueen.store.allowed import Permissions
from redqueen.store.files import printable
from redqueen.tasks.kinds import find


def run_ask(
    run: Path, name: str, question: Sequence[str], step: int | None, attempts: int, allowed: Permissions
) -> int:
    """Asks the member `name` and prints its answers, as `asked` returns them; returns the exit code."""
    console = PlainConsole(soft_wrap=True)
    show_answers(console, asked(run, name, question, step, attempts, allowed, Lines(console)))
    return 0


def show_answers(console: Console, asked: AnsweredTask) -> None:
    """Prints a task, what was answered, and the verdicts. Equal answers are printed once."""
    found = asked.found
    task = asked.task
    answers = asked.answers
    if found is None:
        who = "the base, without an adapter"
    else:
        who = f"{found.member.name} ({found.member.role}, after step {found.saved.step})"
    console.print(Text(f"asked: {who}", style="bold"))
    console.print(indented(write_question(task)))
    kind = find(task.kind)
    if kind.shows_examples:
        shown, judged = len(kind.shown(task)), len(kind.judged_on(task))
        console.print(f"  it sees the first {shown}, and is judged on the other {judged}")
    _show_different(console, task, answers)
    solved = sum(verdict.status == "correct" for _, verdict in answers)
    if len(answers) > 1:
        console.print(f"solved {solved} of {len(answers)}")
    if kind.only_answer(task) and solved < len(answers):
        console.print(Text(f"right is: {printable(kind.only_answer(task))}"))


def _show_different(console: Console, task: Task, answers: Sequence[tuple[Completion, Verdict]]) -> None:
    # Equal answers are printed once. How long a program ran tells nothing here.
    counts = Counter(
        (answer_text(completion.text, task.kind), replace(verdict, cpu_ms=0.0)) for completion, verdict in answers
    )
    for (answer, verdict), count in counts.most_common():
        times = f"  ({count} of {len(answers)})" if len(answers) > 1 else ""
        console.print(Text(f"answer{times}:", style="bold"))
        console.print(indented(answer))
        style = "green" if verdict.status == "correct" else "red"
        console.print(Text(f"verdict: {verdict.status}{_reason(task, verdict)}", style=style))


def _reason(task: Task, verdict: Verdict) -> str:
    """Returns why an answer was not right, from its verdict."""
    why = find(task.kind).miss(verdict) if verdict.status == "wrong" else verdict.detail
    return f", {printable(why)}" if why else ""
