"""Held-out scores: fixed tasks on reserved programs, attempted once by each member; and the answers that are kept.

No teacher wrote them, nothing was trained on them or on anything alike, and no reward is paid on them. So the score
does not move with the opponents. The fitness `held_out` scores by one half of the programs. What is reported is
measured on the other half, which no selection has seen.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from itertools import product, zip_longest

from redqueen.base import streams
from redqueen.base.intervals import Interval, clustered
from redqueen.config import ConfigError, GameConfig, LeagueConfig
from redqueen.errors import UserError
from redqueen.method.judging import ask_attempts
from redqueen.method.planting import seed_tasks, verified_tasks
from redqueen.method.self_play import SelfPlay
from redqueen.records import Attempted, Kind, Request, Task, Verifier
from redqueen.tasks.kinds import Half, Language, find, held_out_kinds, languages, names, task_on

Examples = dict[Kind, list[Task]]
"""Worked examples by kind."""


def most_tasks(half: Half | None, kinds: Sequence[Kind]) -> int:
    """Returns how many tasks the programs of a half, or all, make at most: each is posed once in each kind."""
    return sum(len(find(kind).language.reserved(half)) for kind in kinds)


def reserved_tasks(half: Half | None, kinds: Sequence[Kind], count: int, seed: int, verifier: Verifier) -> list[Task]:
    """Returns `count` tasks on the programs of a half, or of both, in the order that `seed` draws.

    The kinds take turns. A program comes again, in another kind, only after all others have come. There are fewer tasks
    if a kind cannot be made of some programs. Raises UserError if a program fails in the sandbox.
    """
    by_language = [_of_language(language, half, kinds, count, seed, verifier) for language in languages(kinds)]
    # Several languages take turns as well.
    tasks = [task for turn in zip_longest(*by_language) for task in turn if task is not None]
    return tasks[:count]


def _of_language(
    language: Language, half: Half | None, kinds: Sequence[Kind], count: int, seed: int, verifier: Verifier
) -> list[Task]:
    own = [kind for kind in kinds if find(kind).language.name == language.name]
    # Half of 70 programs in three kinds makes 210 tasks. Only the programs that are needed run in the sandbox.
    name_of_half = half or "all"
    drafts = {f"reserved-{name_of_half}-{number}": draft for number, draft in enumerate(language.reserved(half))}
    # All are drawn and then cut: what `sample` draws first depends on how many it is asked for.
    drawn = streams.python(seed, "reserved", name_of_half).sample(list(drafts), len(drafts))
    names = drawn[:count]
    programs = verified_tasks(verifier, {name: drafts[name] for name in names}, language)
    if len(programs) < len(names):
        raise UserError(
            f"{len(names) - len(programs)} of {len(names)} reserved programs failed in the sandbox: see redqueen doctor"
        )
    tasks: list[Task] = []
    for turn in range(len(own)):
        for number, program in enumerate(programs):
            kind = own[(number + turn) % len(own)]
            task = task_on(program, kind, streams.python(seed, "reserved", program.id, kind))
            tasks += [] if task is None else [task]
    return tasks


def worked_examples(kinds: Sequence[Kind], shots: int, seed: int, verifier: Verifier) -> Examples:
    """Returns `shots` seed programs as worked examples of each kind: what is asked about is never shown."""
    examples: Examples = {kind: [] for kind in kinds}
    for language in languages(kinds):
        numbers = streams.python(seed, "reserved", "shots").sample(range(len(language.seeds())), shots)
        for whole in seed_tasks(verifier, language, numbers):
            for kind in kinds:
                made = task_on(whole, kind, streams.python(seed, "reserved", whole.id, kind))
                if made is not None:
                    examples[kind].append(made)
    return examples


@dataclass(frozen=True, slots=True, kw_only=True)
class HeldOutEvaluation:
    """Holds fixed tasks and lets members attempt them."""

    play: SelfPlay
    """Poses, samples and judges; its seed names the random numbers of the attempts."""
    tasks: Sequence[Task]
    examples: Examples
    """The worked examples that every prompt of a kind shows."""

    def attempt(self, members: Sequence[str]) -> list[Attempted]:
        """Returns one judged attempt of each member at each task, by member and then by task."""
        # All members answer the same prompts with the same random numbers (the stream's name holds no member), so a
        # difference of two scores is due to the members and not to their luck.
        play = self.play
        prompt_of = {task: play.prompts.attempt(task, self.examples[task.kind]) for task in self.tasks}
        sampling = play.sampling.params(play.sampling.attempt_tokens)
        # The members take turns in the requests, so that they are sampled side by side in mixed batches.
        tasks: list[Task] = []
        requests: list[Request] = []
        for task, member in product(self.tasks, members):
            seed = (play.seed, "probe", task.id)
            tasks.append(task)
            requests.append(Request(member=member, prompt=prompt_of[task], sampling=sampling, seed=seed))
        attempted = ask_attempts(play.sampler, play.verifier, play.prompts, tasks, requests, None)
        order = {member: number for number, member in enumerate(members)}
        # The sort is stable: the tasks of a member stay in order.
        return sorted(attempted, key=lambda one: order[one.rollout.member])


def run_evaluation(play: SelfPlay, half: Half, kinds: Sequence[Kind], count: int) -> HeldOutEvaluation:
    """Returns a run's evaluation on `count` tasks of a half: the same for all its members, and after a resume.

    The tasks are of these `kinds` in turn, so their order is a part of what is asked.

    Raises UserError if a program fails in the sandbox.
    """
    return HeldOutEvaluation(
        play=play,
        tasks=reserved_tasks(half, kinds, count, play.seed, play.verifier),
        examples=worked_examples(kinds, play.game.shots, play.seed, play.verifier),
    )


def check_held_out(game: GameConfig, league: LeagueConfig) -> None:
    """Raises ConfigError if students are to be scored by more held-out tasks than there are."""
    count = league.held_out_tasks
    most = most_tasks("selection", held_out_kinds(game.kinds))
    if league.student_fitness == "held_out" and count > most:
        raise ConfigError(f"league.held_out_tasks={count}: there are {most} held-out tasks, choose at most that")


# The answers of a run's students to held-out problems, beside those of the adapter that they started from.

OWN = "own"
"""The benchmark of the user's own tasks that a run has held out."""
START = "start"
"""The name of the adapter that all members started from."""


@dataclass(frozen=True, slots=True, kw_only=True)
class HeldOutAnswer:
    """A member's answer to a held-out problem."""

    member: str
    """Its name, or `START`."""
    benchmark: str
    problem: str
    text: str
    status: str
    """What the grader says: "correct", "wrong", "infra_error" and others."""
    tokens: int
    cut_off: bool
    """Whether the token limit ended the text."""

    @property
    def right(self) -> bool | None:
        """Whether it is right; None after a fault of the machine."""
        return None if self.status == "infra_error" else self.status == "correct"


Problem = tuple[str, str]
"""A benchmark and a problem of it."""


def judged(answers: Iterable[HeldOutAnswer]) -> dict[str, dict[Problem, bool]]:
    """Returns by member which problems it answered rightly; what the machine lost is left out."""
    by_member: dict[str, dict[Problem, bool]] = {}
    for answer in answers:
        right = answer.right
        if right is not None:
            by_member.setdefault(answer.member, {})[answer.benchmark, answer.problem] = right
    return by_member


def kind_of(problem: str) -> Kind | None:
    """Returns the kind that a problem is posed in; None for a benchmark's own problem.

    >>> kind_of("reserved-report-12-code_o"), kind_of("HumanEval/12")
    ('code_o', None)
    """
    kind = problem.rpartition("-")[2]
    return kind if kind in names() else None


def program_of(problem: str) -> str:
    """Returns the name of the program that a problem is posed on; a benchmark's own problem stands for itself.

    Each kind makes a problem of a reserved program, and who understands it solves them all. So they are no independent
    observations.

    >>> program_of("reserved-report-12-code_o"), program_of("HumanEval/12")
    ('reserved-report-12', 'HumanEval/12')
    """
    kind = kind_of(problem)
    return problem if kind is None else problem.removesuffix(f"-{kind}")


def gain_over(start: Mapping[Problem, bool], member: Mapping[Problem, bool]) -> Interval | None:
    """Returns the share of problems that a member solves less that of the start, over the problems that both answered.

    The difference is paired, problem by problem, and its interval is over programs.
    """
    both = [problem for problem in member if problem in start]
    values = [int(member[problem]) - int(start[problem]) for problem in both]
    return clustered(values, [f"{benchmark} {program_of(problem)}" for benchmark, problem in both])
