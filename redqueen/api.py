"""Runs from Python: `redqueen.Run` reads a run, starts one, goes on with one, and uses its members."""

# What needs torch is imported when it is used, as in `redqueen.cli.app`: reading a run takes no second of loading.
# ruff: noqa: PLC0415

from __future__ import annotations

import html
import reprlib
import shlex
import sys
from collections.abc import Generator, Mapping, Sequence
from contextlib import closing, contextmanager
from dataclasses import asdict, dataclass, fields
from pathlib import Path
from typing import Any, Literal, Self, cast

from redqueen.base.machine import set_library_defaults
from redqueen.base.optional import require
from redqueen.config import Config, ConfigError
from redqueen.config.keys import as_text
from redqueen.config.recipes import configured
from redqueen.errors import UserError
from redqueen.records import Status, Verifier
from redqueen.store.allowed import Permissions, remaining, with_own_parts
from redqueen.store.archive.reader import ArchiveReader
from redqueen.store.archive.rows import AttemptRow, MatchRow
from redqueen.store.dataset import TaskRecord, read_tasks
from redqueen.store.directory import RunDirectory
from redqueen.store.lineage import Life, lives
from redqueen.store.metrics import StepMetrics, numbers
from redqueen.store.tasks import TaskHistory, proposals

Settings = Mapping[str, object]


@dataclass(frozen=True, slots=True, kw_only=True)
class Answer:
    """What a member answered, and what the verifier says of it."""

    text: str
    """The whole text that it wrote."""
    status: Status
    """`correct`, `wrong`, `malformed`, or what went wrong when it ran."""
    detail: str
    """One line for people; "" if there is nothing to say."""

    @property
    def right(self) -> bool:
        """Whether it is a right answer."""
        return self.status == "correct"


class Run:
    """A run's folder. It is read anew at each call, so it can be followed while it is trained.

    Errors that a user can correct are `redqueen.errors.UserError`; each is one line that says what to do.
    """

    def __init__(self, path: str | Path) -> None:
        """Opens the run in the folder `path`. Raises RunError if it holds none."""
        self.path = Path(path)
        self._directory = RunDirectory(self.path)
        self._directory.config()

    def __repr__(self) -> str:
        return f"Run({str(self.path)!r})"

    def _repr_html_(self) -> str:
        """Returns what a notebook shows: what was trained, how far it is, and how its living members stand."""
        from redqueen.run.recording.terminal import number

        config = self.config
        lines = self.steps()
        population = config.population
        who = f"{population.teachers} teachers, {population.students} students"
        what = f"recipe {config.recipe} on {config.model.name}, {who}, step {len(lines)} of {config.run.steps}"
        rate = lines[-1]["solve_rate"] if lines else None
        solved = "" if rate is None else f"; solved {rate:.0%} in the last step, in sample"
        columns = ("member", "role", "fitness", "games", "born", "operator", "parents")
        rows = [
            (life.name, life.role, number(life.last), life.games, life.born, life.operator, ", ".join(life.parents))
            for life in (self.members() if self._directory.archive.exists() else ())
            if life.died is None
        ]
        head = "".join(f"<th>{column}</th>" for column in columns)
        body = "".join(f"<tr>{''.join(f'<td>{html.escape(str(cell))}</td>' for cell in row)}</tr>" for row in rows)
        title = html.escape(f"{self.path}: {what}{solved}")
        return f"<p><b>Run</b> {title}</p><table><tr>{head}</tr>{body}</table>"

    @classmethod
    def train(
        cls,
        recipe: str = "quickstart",
        settings: Settings | None = None,
        *,
        path: str | Path,
        recorders: Sequence[Any] = (),
        verifier: Verifier | None = None,
        progress: bool = True,
    ) -> Self:
        """Trains a new run in the folder `path`, as `redqueen train` does, and returns it when it is done.

        `settings` are those of `redqueen keys`: {"run.steps": 20, "game.kinds": ["code_o"]}. Each of `recorders`, which
        are `redqueen.run.recording.recorder.Recorder`s, hears of each step, and is closed when the training ends.
        `verifier` judges in place of the run's own and stays open. A line for each step, and for each minute without
        one, goes to standard error; without `progress` only warnings are told, to Python's logging, as `redqueen`. A
        script that trains with more than one worker process must start under `if __name__ == "__main__":`. Ctrl-C stops
        the run.
        Raises UserError if a setting is impossible, if the folder holds something, or if the run does not fit into
        memory; KeyboardInterrupt if it was stopped.
        """
        directory = RunDirectory(Path(path))
        set_library_defaults()
        config = configured(recipe, _settings(settings))
        from redqueen.run.session import start

        with _attached(config.run.steps, recorders, verifier, progress=progress) as attached:
            start(config, directory, attached)
        return cls(path)

    def resume(
        self,
        settings: Settings | None = None,
        *,
        recorders: Sequence[Any] = (),
        verifier: Verifier | None = None,
        load_plugins: bool = False,
        progress: bool = True,
    ) -> Self:
        """Trains the steps that are left, as `redqueen train --resume` does, and returns the run when it is done.

        `settings` may change what does not change results: {"run.steps": 40} extends the run. Nothing happens if no
        step is left. `recorders`, `verifier` and `progress` are as for `train`, and are given anew. A run with own
        parts needs `load_plugins`, which imports the modules that its config.json names.
        Raises UserError as `train` does, KeyboardInterrupt if the run was stopped.
        """
        # People who know `Run.train(...)` also write `Run.resume(PATH)`.
        if not isinstance(cast("object", self), Run):
            raise UserError(f"resume is asked of a run: redqueen.Run({str(self)!r}).resume()")
        set_library_defaults()
        assignments = _assignments(settings)
        config = remaining(self._directory, assignments)
        if config is not None:
            config = with_own_parts(config, self._directory.config_file, allowed=load_plugins)
            from redqueen.run.session import resume

            given = {assignment.partition("=")[0] for assignment in assignments}
            with _attached(config.run.steps, recorders, verifier, progress=progress) as attached:
                resume(config, self._directory, attached, given)
        return self

    @property
    def config(self) -> Config:
        """The whole configuration."""
        return self._directory.config()

    def steps(self) -> list[StepMetrics]:
        """Returns what was measured in each step: the lines of metrics.jsonl (docs/reference/METRICS.md)."""
        return self._directory.metrics()

    def steps_frame(self) -> Any:
        """Returns a `pandas.DataFrame` with one row a step, `step` as its index, and one column for each number.

        A nested number has a name like `solve_rate_by_kind/code_o`; a number that a step does not have is NaN.
        Raises MissingLibraryError if pandas is not installed.
        """
        pandas = require("pandas", "data", "steps_frame()")
        lines = self.steps()
        index = pandas.Index([line["step"] for line in lines], name="step")
        return pandas.DataFrame([numbers(line) for line in lines], index=index, dtype="float64")

    def tasks(self, step: int | None = None) -> list[TaskHistory]:
        """Returns the valid tasks of `step`, or of all steps, newest step first, each with its attempts.

        `.task` has the program, its inputs and outputs and the solve rate, `.proposal` the teacher's text and its
        reward, `.attempts` what the student wrote, each with its verdict and reward.
        """
        return [proposed for proposed in proposals(self.path, step) if proposed.task is not None]

    def tasks_frame(self) -> Any:
        """Returns a `pandas.DataFrame` with one row for each valid task, oldest first.

        The columns are those of `redqueen tasks export` (docs/DATA.md). Raises MissingLibraryError if pandas is not
        installed.
        """
        return _frame(TaskRecord, read_tasks(self.path), "tasks_frame()")

    def members(self) -> list[Life]:
        """Returns every member that ever lived, in order of birth: role, parents, fitness, and when it was replaced."""
        return lives(self.path)

    def members_frame(self) -> Any:
        """Returns a `pandas.DataFrame` with one row for each member that ever lived: the fields of `members`.

        Raises MissingLibraryError if pandas is not installed.
        """
        return _frame(Life, self.members(), "members_frame()")

    def matches_frame(self) -> Any:
        """Returns a `pandas.DataFrame` with one row a match: who met whom, the score, the game and the ratings.

        Raises MissingLibraryError if pandas is not installed.
        """
        with ArchiveReader(self._directory.archive) as archive:
            return _frame(MatchRow, archive.every(MatchRow), "matches_frame()")

    def attempts_frame(self) -> Any:
        """Returns a `pandas.DataFrame` with one row an attempt: its text, its verdict and its reward.

        `task` is the `id` of `tasks_frame`. Raises MissingLibraryError if pandas is not installed.
        """
        with ArchiveReader(self._directory.archive) as archive:
            return _frame(AttemptRow, archive.every(AttemptRow), "attempts_frame()")

    def ask(
        self,
        member: str,
        question: str,
        *,
        attempts: int = 1,
        step: int | None = None,
        load_plugins: bool = False,
    ) -> list[Answer]:
        """Poses a task to a member and returns its answers, each judged in the sandbox, as `redqueen ask` does.

        `member` is a name, "best-student", "best-teacher" or "base"; `question` is the text of a question, or the id of
        a task. One attempt is greedy; several are sampled as in the run. Raises UserError if it cannot be asked.
        """
        set_library_defaults()
        from redqueen.members.asking import asked
        from redqueen.members.question import asked_lines, checked_member
        from redqueen.run.session import Listener

        words = [_one_text(question)]
        allowed = Permissions(load_plugins)
        lines = asked_lines(checked_member(self.path, member, step, allowed), words)
        answered = asked(self.path, member, lines, step, attempts, allowed, Listener())
        return [
            Answer(text=completion.text, status=verdict.status, detail=verdict.detail)
            for completion, verdict in answered.answers
        ]

    def evaluate(
        self,
        benchmarks: str | Sequence[str] | None = None,
        *,
        members: str = "students",
        beside: Sequence[str] = (),
        limit: int | None = None,
        samples: int = 1,
        temperature: float = 0.0,
        template: Literal["chat", "completion", "work", "standard"] | None = None,
        max_tokens: int | None = None,
        data: str | Path | None = None,
        out: str | Path | None = None,
        step: int | None = None,
        load_plugins: bool = False,
    ) -> list[dict[str, Any]]:
        """Scores living members on held-out problems, as `redqueen eval` does, and returns the scores.

        The options are those of the command; `beside` are further targets that answer the same problems, such as "base"
        and "warm-start". A score is {"target", "member", "step", "benchmarks": {name: {"rate", "problems", ...}}, ...}.
        Raises UserError if a target or a benchmark cannot be used.
        """
        set_library_defaults()
        from redqueen.members.evaluating import EvalOptions, document, evaluate_targets
        from redqueen.run.session import Listener

        wanted = EvalOptions(
            benchmarks=[benchmarks] if isinstance(benchmarks, str) else benchmarks,
            data=None if data is None else Path(data),
            limit=limit,
            samples=samples,
            temperature=temperature,
            template=template,
            max_tokens=max_tokens,
            out=None if out is None else Path(out),
            step=step,
            allowed=Permissions(load_plugins),
        )
        evaluated = evaluate_targets(
            [str(self.path), *beside], members, None, wanted, Listener(), lambda what, done, total: None
        )
        scores: Any = document(evaluated.results, evaluated.plan, evaluated.base, [])["scores"]
        return scores

    def export(self, member: str, out: str | Path, *, step: int | None = None, merge: bool = False) -> Path:
        """Writes a member as a PEFT folder with a card, or with `merge` as a whole model, and returns the folder.

        Raises UserError if the folder is not empty or cannot be written, RunError if there is no such member.
        """
        from redqueen.members.exporting import export
        from redqueen.run.session import Listener

        folder = Path(out)
        export(self.path, member, folder, step, Listener(), merge=merge)
        return folder

    def load_model(self, member: str, step: int | None = None) -> tuple[Any, Any]:
        """Returns a member as transformers and PEFT load it, and the base's tokenizer: `model, tokenizer`.

        `member` is as for `adapter`. Raises RunError if there is no such member or no checkpoint that has it,
        ModelError if the base cannot be loaded.
        """
        from redqueen.analysis.replay import find_member
        from redqueen.members.exporting import load_member
        from redqueen.run.session import quiet_libraries

        quiet_libraries()
        found = find_member(self._directory, self.config.evolution_settings, member, step)
        return load_member(self.config.model.name, found.saved.adapters[found.member.name], found.saved.alpha)

    def adapter(self, member: str, step: int | None = None) -> Path:
        """Returns the PEFT folder of a member, after `step` steps or as late as it is kept.

        `member` is a name, "best-student" or "best-teacher". The folder belongs to a checkpoint of the run: read it or
        copy it, but do not change it. Raises RunError if there is no such member or no checkpoint that has it.
        """
        from redqueen.analysis.replay import find_member

        found = find_member(self._directory, self.config.evolution_settings, member, step)
        return self._directory.checkpoints / f"step-{found.saved.step:06d}" / "members" / found.member.name


def compare(runs: Sequence[Run | str | Path], by: str = "run") -> dict[str, list[dict[str, Any]]]:
    """Returns runs side by side, as `redqueen compare --json` prints it: {"arms": ..., "quantities": ..., "runs": ...}.

    Each of the three is a list of rows, which `pandas.DataFrame` takes. Runs with the same value of the setting `by`
    are pooled: "recipe" or another key. Raises UserError for what cannot be read or compared.
    """
    from redqueen.analysis.compare import compare

    if isinstance(runs, str | Path | Run):
        runs = [runs]
    return compare([run.path if isinstance(run, Run) else Path(run) for run in runs], by).document()


def _frame(row: type[Any], rows: Sequence[Any], what: str) -> Any:
    """Returns rows of one class as a data frame, whose columns are its fields."""
    pandas = require("pandas", "data", what)
    return pandas.DataFrame([asdict(record) for record in rows], columns=[field.name for field in fields(row)])


def _settings(settings: object) -> Settings:
    """Returns settings as they were given. Raises ConfigError for what is no mapping of keys."""
    given = {} if settings is None else settings
    if not isinstance(given, Mapping) or not all(isinstance(key, str) for key in given):
        raise ConfigError(f'settings are a mapping such as {{"run.steps": 20}}, not {_kind(given)}')
    return given


def _one_text(question: object) -> str:
    """Returns a question. Raises UserError if it is no text."""
    if not isinstance(question, str):
        raise UserError(f"a question is one text, not {_kind(question)}: join its lines with \\n")
    return question


def _kind(value: object) -> str:
    name = type(value).__name__
    named = "one with other keys" if isinstance(value, Mapping) else f"{'an' if name[0] in 'aeiou' else 'a'} {name}"
    return f"{named} ({reprlib.repr(value)})"


def _assignments(settings: Settings | None) -> list[str]:
    """Returns settings as a command line writes them."""
    return [
        f"{key}={as_text(tuple(value) if isinstance(value, list) else value)}"
        for key, value in _settings(settings).items()
    ]


@contextmanager
def _attached(steps: int, recorders: Sequence[Any], verifier: Verifier | None, *, progress: bool) -> Generator[Any]:
    """Yields what is attached to a run; with `progress`, also what prints how it goes."""
    from redqueen.run.recording.lines import ScriptLines
    from redqueen.run.recording.plain_console import PlainConsole
    from redqueen.run.recording.terminal import Heartbeat, LineReporter
    from redqueen.run.session import Callbacks, Listener

    if not progress:
        yield Callbacks(command=_caller(), listener=Listener(), recorders=recorders, verifier=verifier)
        return
    # Standard output is the script's own.
    console = PlainConsole(stderr=True, soft_wrap=True)
    with closing(Heartbeat(console.print)) as heartbeat:
        watchers = (LineReporter(console, steps, heartbeat), *recorders)
        lines = ScriptLines(console, heartbeat)
        yield Callbacks(command=_caller(), listener=lines, recorders=watchers, verifier=verifier)


def _caller() -> str:
    """Returns what trains a run, for its record."""
    return f"redqueen.Run, in {shlex.join(sys.argv) or 'an interpreter'}"
