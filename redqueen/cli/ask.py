"""`redqueen ask`: poses one task to a member of a run, or holds a conversation on a base that is loaded once."""

from __future__ import annotations

import atexit
import sys
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from pathlib import Path

from rich.console import Console
from rich.text import Text

from redqueen.analysis.replay import MemberAtStep
from redqueen.base.machine import cache_root, can_write
from redqueen.cli.show import answer_text, indented
from redqueen.errors import UserError
from redqueen.members.asking import AnsweredTask, AskingTable, asked, found_member, open_table, task_of
from redqueen.members.question import asked_lines, write_question
from redqueen.method.verifier import LocalVerifier
from redqueen.records import Completion, Task, Verdict
from redqueen.run.recording.lines import Lines
from redqueen.run.recording.plain_console import PlainConsole
from redqueen.store.allowed import Permissions, playable
from redqueen.store.directory import RunDirectory
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


# `redqueen ask` without a question: a conversation with the members of a run, on a base that is loaded once.

try:
    import readline
except ImportError:
    # Not every Python has it. A line can be typed all the same.
    readline = None

HELP = """\
write a task:  a program, then f(4) == ? or f(?) == 8; or "# what to do" and examples f(1) == 2, then an empty line
a task by id:  seed-12, or an id that redqueen show prints
propose [KIND] a member writes a task (the best teacher, if a student is asked), and who is asked answers it
again          the same task once more
member NAME    ask another: its name, best-student, best-teacher or base
attempts N     so many answers to each task; 1 is greedy
help, exit     or Ctrl-D; Ctrl-C drops what was begun"""
_WORDS = ("propose", "again", "member", "attempts", "help", "exit", "quit")


def run_conversation(run: Path, name: str, step: int | None, attempts: int, allowed: Permissions) -> int:
    """Talks until the input ends; returns the exit code. Raises UserError if no member can be asked."""
    directory = RunDirectory(run)
    config = playable(directory, allowed)
    found = found_member(directory, config.evolution_settings, name, step)
    console = PlainConsole(soft_wrap=True)
    with (
        LocalVerifier(config.sandbox, config.game.min_inputs) as verifier,
        open_table(directory, config, found, step, verifier, Lines(console)) as table,
    ):
        talk = Conversation(directory, table, name, step, attempts, console)
        console.print(Text(f"{directory.path}: {talk.who} is asked; help says what can be written", style="bold"))
        with_terminal = sys.stdin.isatty()
        if with_terminal:
            _remember_lines()
        while _one(lambda: talk.turn(_lines(with_terminal, talk.who)), console, with_terminal=with_terminal):
            pass
    return 0


def _one(turn: Callable[[], bool], console: Console, *, with_terminal: bool) -> bool:
    """Takes one turn; returns whether there is another. An error of the user ends the turn only, and Ctrl-C too."""
    try:
        return turn()
    except UserError as error:
        console.print(Text(str(error), style="red"))
    except KeyboardInterrupt:
        if not with_terminal:
            raise
        console.print("\ndropped; exit or Ctrl-D ends")
    return True


def _lines(with_terminal: bool, who: str) -> Iterator[str]:
    """Yields what is typed, with a prompt in a terminal; the lines below the first have another one."""
    prompt = f"{who}> "
    while True:
        if with_terminal:
            try:
                line = input(prompt)
            except EOFError:
                print()
                return
            yield line
        else:
            line = sys.stdin.readline()
            if not line:
                return
            yield line.rstrip("\n")
        prompt = f"{'.' * len(who)}> "


def _remember_lines() -> None:
    """Gives `input` a history, by the arrow keys, of this conversation and of those before."""
    if readline is None:
        return
    file = cache_root() / "ask_history"
    if not can_write(file.parent):
        return
    file.parent.mkdir(parents=True, exist_ok=True)
    if file.is_file():
        try:
            readline.read_history_file(file)
        except OSError:
            # Another program's file: it is written anew in the end.
            readline.clear_history()
    readline.set_history_length(1000)
    atexit.register(readline.write_history_file, file)


@dataclass(slots=True)
class Conversation:
    """Who is asked, and what was asked last."""

    directory: RunDirectory
    table: AskingTable
    name: str
    step: int | None
    attempts: int
    console: Console
    proposals: int = 0
    last: Task | None = None

    @property
    def who(self) -> str:
        return "base" if self.table.found is None else self.table.found.member.name

    def turn(self, lines: Iterator[str]) -> bool:
        """Reads a task or a command from the lines and carries it out; returns whether the conversation goes on."""
        asked: list[str] = []
        for line in lines:
            if not asked and not line.strip():
                continue
            word, _, rest = line.strip().partition(" ")
            if not asked and word in _WORDS:
                return self._command(word, rest.strip())
            if line.strip():
                asked.append(line)
            if self._is_whole(asked, line):
                break
        if not asked:
            return False
        config = self.table.config
        question = asked_lines(self.directory, asked)
        self._ask(task_of(question, self.directory, config.game, config.run.seed, self.table.verifier))
        return True

    def _found(self, name: str) -> MemberAtStep | None:
        return found_member(self.directory, self.table.config.evolution_settings, name, self.step)

    def _is_whole(self, asked: list[str], line: str) -> bool:
        """Returns whether the lines are a task: an empty line ends one, and a question mark, and an id is one alone."""
        if not line.strip():
            return True
        unanswered = line.startswith("f(") and "==" in line and "?" in line
        return unanswered or (len(asked) == 1 and " " not in line.strip() and "(" not in line)

    def _command(self, word: str, rest: str) -> bool:
        if word in ("exit", "quit"):
            return False
        if word == "help":
            self.console.print(HELP)
        elif word == "member":
            self.table.seat(self._found(rest or self.name))
            self.console.print(f"{self.who} is asked")
        elif word == "attempts":
            if not rest.isdecimal() or int(rest) < 1:
                raise UserError(f"attempts {rest}: give a whole number from 1 on")
            self.attempts = int(rest)
            self.console.print(f"{self.attempts} answers to each task" if self.attempts > 1 else "one greedy answer")
        elif word == "again":
            if self.last is None:
                raise UserError("nothing was asked yet")
            self._ask(self.last)
        else:
            self._propose(rest or self.table.config.game.kinds[self.proposals % len(self.table.config.game.kinds)])
        return True

    def _ask(self, task: Task) -> None:
        self.last = task
        with self.console.status(Text(f"{self.who} answers ...")):
            answers = self.table.answers(task, self.attempts)
        show_answers(self.console, AnsweredTask(found=self.table.found, task=task, answers=answers))

    def _propose(self, kind: str) -> None:
        """Lets a teacher write a task, and the member that is asked answer it."""
        if kind not in self.table.config.game.kinds:
            raise UserError(f"propose {kind}: choose one of {', '.join(self.table.config.game.kinds)}")
        asked = self.table.found
        writer = asked
        if asked is None or asked.member.role == "student":
            writer = self._found("best-teacher")
        assert writer is not None
        self.proposals += 1
        self.table.seat(writer)
        try:
            with self.console.status(Text(f"{writer.member.name} writes a task of the kind {kind} ...")):
                text, verdict, task = self.table.proposal(kind, self.proposals)
        finally:
            self.table.seat(asked)
        self.console.print(Text(f"proposed by {writer.member.name} ({kind}):", style="bold"))
        if task is None:
            self.console.print(indented(text.strip("\n")))
            why = f", {verdict.detail}" if verdict.detail else ""
            self.console.print(Text(f"refused: {verdict.status}{why}", style="red"))
            return
        self._ask(task)
