"""Writes docs/GALLERY.md of a run: `python -m tools.write_gallery RUN`. Tasks are chosen by rule and not by taste."""

from __future__ import annotations

import sys
from collections import Counter
from collections.abc import Sequence
from pathlib import Path

from redqueen.members.question import write_question
from redqueen.method.prompts import taken_apart
from redqueen.method.seeds import is_reserved
from redqueen.store.directory import RunDirectory
from redqueen.store.tasks import TaskHistory, proposals
from redqueen.tasks.kinds import find_or_plain

TARGET = Path(__file__).resolve().parents[1] / "docs" / "GALLERY.md"
EACH = 2
"""Tasks of each kind and part of the run."""
REFUSED = 6


def page(run: Path) -> str:
    """Returns the page."""
    config = RunDirectory(run).config()
    every = [
        one for one in reversed(proposals(run)) if one.task is None or not is_reserved(one.task.program, one.task.kind)
    ]
    last = max(one.proposal.step for one in every)
    population = config.population
    lines = [
        "# A gallery of tasks",
        "",
        "These tasks were written by a teacher, and these answers by a student, while both were trained: the run",
        f"`{run.resolve().name}` of [the experiment](reports/RESULTS.md), {population.teachers} teacher and "
        f"{population.students} student on `{config.model.name}`, {last} steps. They are chosen by a rule: of each",
        f"kind and third of the run, the {EACH} with the most divided answers (the solve rate nearest to one half,",
        "then the longest program).",
        "`python -m tools.write_gallery RUN` writes this page of any run.",
        "",
    ]
    ends = (0, last // 3, 2 * last // 3, last)
    titles = ("The first steps", "The middle", "The last steps")
    for title, after, until in zip(titles, ends[:-1], ends[1:], strict=True):
        lines += [f"## {title} ({after + 1} to {until})", ""]
        part = [one for one in every if after < one.proposal.step <= until]
        for kind in config.game.kinds:
            for one in divided(part, kind):
                lines += task_lines(one, config.model.prompts)
    lines += ["## What is refused", "", "The sandbox is the only judge of a proposal. The first of each reason:", ""]
    reasons: dict[str, TaskHistory] = {}
    for one in every:
        if one.task is None and one.proposal.status != "valid":
            reasons.setdefault(one.proposal.status, one)
    for status, one in list(reasons.items())[:REFUSED]:
        lines += [f"**{status}**: {one.proposal.detail}", "", "```python", one.proposal.text.strip("\n"), "```", ""]
    return "\n".join(lines)


def divided(part: Sequence[TaskHistory], kind: str) -> list[TaskHistory]:
    """Returns the tasks of a kind whose solve rates are nearest to one half, longer programs first among equals."""
    tasks = [one for one in part if one.task is not None and one.task.kind == kind and one.task.rho is not None]

    def key(one: TaskHistory) -> tuple[float, int]:
        assert one.task is not None
        assert one.task.rho is not None
        return abs(one.task.rho - 0.5), -len(one.task.program)

    return sorted(tasks, key=key)[:EACH]


def task_lines(one: TaskHistory, prompts: str) -> list[str]:
    """Returns one task with its answers, and the work of the first that was right."""
    assert one.task is not None
    task = one.task.task()
    kind = find_or_plain(task.kind)
    written = [(taken_apart(prompts, task.kind, attempt.text), attempt.status) for attempt in one.attempts]
    answers = Counter((parts.answer or "", status) for parts, status in written)
    works = [parts.work for parts, status in written if status == "correct" and parts.work]
    paid = one.proposal.reward
    solved = sum(attempt.status == "correct" for attempt in one.attempts)
    lines = [
        f"**{kind.title}** (`{task.kind}`, step {task.step}): solved {solved} of {len(one.attempts)} times; its "
        f"teacher was paid {0 if paid is None else paid:.2f}",
        "",
        "```python",
        write_question(task),
        "```",
        "",
        "| answer | times | verdict |",
        "|---|---|---|",
    ]
    for (text, status), count in answers.most_common(4):
        shown = text.replace("\n", " ").replace("|", "\\|")[:80]
        lines.append(f"| `{shown or ' '}` | {count} | {status} |")
    if works:
        lines += ["", "The work of the first right answer:", "", "```", works[0], "```"]
    return [*lines, ""]


if __name__ == "__main__":
    TARGET.write_text(page(Path(sys.argv[1])), encoding="utf-8")
    print(f"wrote {TARGET}")
