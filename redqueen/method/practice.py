"""Fixed tasks, the user's own or the seeds: which of them each student is posed in a step.

In a run without teachers, students are posed nothing else. With teachers, `game.own_share` of a student's tasks are
fixed ones; these count in no game, pay no teacher, and are never withdrawn.

`game.pick=in_turn` poses all of a kind before one comes again. `game.pick=difficulty` draws by how much a task can
still teach, which others call difficulty pools or dynamic sampling (DAPO, arXiv:2503.14476) and prioritized replay
(PLR, arXiv:2010.03934). Of each task it keeps how many attempts solved it and how many there were, s and n, which
halve every `HALF_LIFE` rounds of the pool; with p = (s + 1/2) / (n + 1), a task is drawn with a weight of 4 p (1 - p),
at least `FLOOR`. So a contested task is posed often. One that is always or never solved rests, and comes back as what
is known of it fades: an unknown task has the weight 1.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace

from redqueen.base import streams
from redqueen.config import GameConfig, PopulationConfig
from redqueen.method.task_bank import Entry, TaskBank
from redqueen.records import PosedTask

HALF_LIFE = 3.0
"""In rounds; a round is as many posed tasks as the kind has."""
FLOOR = 0.05
"""The least weight of a task, where a contested one has 1."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Practice:
    """A student that is posed fixed tasks in a step."""

    id: str
    """As a match's: the step and the position in it, behind the matches."""
    student: str


def practices(students: Iterable[str], step: int, matches: int, count: int) -> list[Practice]:
    """Returns one practice for each student if it is posed any fixed task, numbered on from the step's matches."""
    names = list(students) if count else []
    return [Practice(id=f"{step}.{matches + number}", student=name) for number, name in enumerate(names)]


def posed_per_kind(game: GameConfig, population: PopulationConfig) -> int:
    """Returns how many fixed tasks of each kind a student is posed in a step."""
    if not population.teachers:
        return game.proposals
    # Where a student plays several matches a step, or some do, each is posed what a student needs on average.
    matches = game.matches or max(population.teachers, population.students)
    return round(game.own_proposals * matches / population.students)


def posed_tasks(
    bank: TaskBank, game: GameConfig, step: int, chosen: Sequence[Practice], count: int, seed: int
) -> list[PosedTask]:
    """Returns `count` fixed tasks of each kind for each practice; fewer if the bank has none of a kind."""
    posed: list[PosedTask] = []
    pools = {kind: bank.fixed(kind) for kind in game.kinds}
    for practice in chosen:
        for kind, pool in pools.items():
            if game.pick == "in_turn":
                drawn = _in_turn(pool, (step - 1) * count, count, (seed, "practise", practice.student, kind))
            else:
                half_life = half_life_of(len(pool), count * len(chosen))
                stream = (seed, "pick", step, practice.student, kind)
                drawn = _by_difficulty(pool, count, step, half_life, stream)
            # The id of a task names what becomes of it in this step.
            for number, entry in enumerate(drawn):
                task = replace(entry.task, id=f"{practice.id}.{kind}.{number}", step=step)
                posed.append(PosedTask(practice=practice.id, student=practice.student, task=task))
    return posed


def half_life_of(pool: int, posed: int) -> float:
    """Returns after how many steps half is forgotten, where `posed` of a pool of tasks are posed in a step."""
    return HALF_LIFE * max(1, pool) / posed


def weight(entry: Entry, step: int, half_life: float) -> float:
    """Returns how much a fixed task is wanted in a step, from `FLOOR` to 1."""
    known = faded(entry, step, half_life)
    rate = (known.solved + 0.5) / (known.tried + 1.0)
    return max(FLOOR, 4.0 * rate * (1.0 - rate))


def faded(entry: Entry, step: int, half_life: float) -> Entry:
    """Returns what is still known of a task at a step."""
    kept = 0.5 ** ((step - entry.posed) / half_life)
    return replace(entry, solved=kept * entry.solved, tried=kept * entry.tried, posed=step)


def note_attempts(bank: TaskBank, results: Iterable[tuple[PosedTask, Sequence[bool]]], step: int) -> None:
    """Remembers of a step's fixed tasks which of their judged attempts were right."""
    done = list(results)
    posed = Counter(one.task.kind for one, _ in done)
    half_lives = {kind: half_life_of(len(bank.fixed(kind)), count) for kind, count in posed.items()}
    for one, right in done:
        entry = bank.entry_of(one.task)
        if entry is not None:
            known = faded(entry, step, half_lives[one.task.kind])
            bank.put(replace(known, solved=known.solved + sum(right), tried=known.tried + len(right)))


def _in_turn(pool: Sequence[Entry], first: int, count: int, stream: tuple[str | int, ...]) -> list[Entry]:
    """Returns `count` entries from the place `first` on, in shuffled rounds that hold each once."""
    rounds: dict[int, list[Entry]] = {}
    drawn: list[Entry] = []
    for index in range(first, first + count if pool else first):
        number, position = divmod(index, len(pool))
        if number not in rounds:
            rounds[number] = list(pool)
            streams.python(*stream, number).shuffle(rounds[number])
        drawn.append(rounds[number][position])
    return drawn


def _by_difficulty(
    pool: Sequence[Entry], count: int, step: int, half_life: float, stream: tuple[str | int, ...]
) -> list[Entry]:
    """Draws `count` entries by their weights, each once; a pool of fewer is drawn again."""
    rng = streams.python(*stream)
    drawn: list[Entry] = []
    while pool and len(drawn) < count:
        # Efraimidis and Spirakis 2006: the largest of u^(1/w) are a draw by weight without replacement.
        keys = [rng.random() ** (1.0 / weight(entry, step, half_life)) for entry in pool]
        order = sorted(range(len(pool)), key=lambda index: -keys[index])
        drawn += [pool[index] for index in order[: count - len(drawn)]]
    return drawn
