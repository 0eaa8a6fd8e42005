"""Fills a run's task bank with fixed tasks: seed programs in all kinds, or the user's tasks, less those held out.

Of what is the user's a share of the programs is held out, similar ones together: students are tested on these, and the
bank refuses them. Which ones follows from the programs alone, so every run on a file is tested on the same.
"""

from __future__ import annotations

import random
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from math import ceil

from redqueen.base import streams
from redqueen.config import GameConfig
from redqueen.errors import UserError
from redqueen.method.judging import judge_proposals
from redqueen.method.seeds import AUTHOR, OWN, SeedError, is_reserved
from redqueen.method.self_play import SelfPlay
from redqueen.method.task_bank import Likeness, fingerprint_of, likeness_of
from redqueen.records import Draft, Kind, Proposal, Task, Verdict, Verifier
from redqueen.tasks.kinds import Language, find, held_out_kinds, languages, task_on
from redqueen.tasks.programs.normal_form import hashed

LEAST = 10
"""The fewest of the user's programs that are held out, but never more than half of them."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Planted:
    """What became of the fixed tasks that a run was given."""

    programs: int
    """The different programs that the bank got."""
    left_out: int = 0
    """The tasks of `game.tasks` that are neither in the bank nor held out."""
    held_out: tuple[Task, ...] = ()
    """The user's tasks that nothing is trained on, in the kinds in which students are tested."""


def held_out_of(programs: Iterable[tuple[Likeness, str]], share: float) -> frozenset[Likeness]:
    """Returns which likenesses of some programs, each with its fingerprint, are held out.

    They have a `share` of the programs and at least `LEAST`, but at most half, and fewer where similar ones are many.
    """
    groups: dict[Likeness, set[str]] = {}
    for likeness, program in programs:
        groups.setdefault(likeness, set()).add(program)
    count = sum(map(len, groups.values()))
    wanted = min(max(LEAST, ceil(share * count)), count // 2) if share else 0
    chosen: set[Likeness] = set()
    # In an order of chance that a longer file keeps.
    for likeness in sorted(groups, key=lambda likeness: hashed("\0".join(likeness))):
        if len(groups[likeness]) <= wanted:
            wanted -= len(groups[likeness])
            chosen.add(likeness)
    return frozenset(chosen)


def language_of_seeds(game: GameConfig) -> Language:
    """Returns the language of the user's file `game.seeds`. Raises SeedError if the kinds are of several languages."""
    found = languages(game.kinds)
    if len(found) > 1:
        raise SeedError(f"{game.seeds} is of one language, and game.kinds are of several: choose kinds of one")
    return found[0]


def plant_seeds(play: SelfPlay, share: float = 0.0, *, students_alone: bool = False) -> Planted:
    """Adds `game.seed_tasks` seed programs in all kinds to the task bank; a `share` of the user's is held out.

    Raises SeedError if there are too many of them, or a kind cannot be played.
    """
    game = play.game
    own = game.seeds
    if own is not None:
        language_of_seeds(game)
    programs = planted = 0
    tested: list[Task] = []
    for language in languages(game.kinds):
        tasks, held_out = _seed_programs(play, language, 0.0 if own is None else share)
        programs += len(set(map(fingerprint_of, tasks)))
        for task in tasks:
            for kind in game.kinds:
                posed = task_on(task, kind, planted_by(play.seed, task, kind), game.min_inputs)
                planted += posed is not None and play.task_bank.add(posed, None)
        for whole in held_out:
            # One question a kind, and the same in every run.
            asked = (task_on(whole, kind, planted_by(0, whole, kind)) for kind in held_out_kinds(game.kinds))
            tested += [task for task in asked if task is not None]
    # What a checkpoint holds, so that a resumed run refuses the same.
    play.task_bank.hold_out(map(likeness_of, tested))
    if planted > len(play.task_bank):
        raise SeedError(f"there are more than game.bank_size={game.bank_size} seeds of a kind: raise it")
    _check_kinds(play, students_alone)
    return Planted(programs=programs, held_out=tuple(tested))


def _check_kinds(play: SelfPlay, students_alone: bool) -> None:
    """Raises SeedError if a kind cannot be played, since the seeds make no tasks of it."""
    planted = {entry.task.kind for entry in play.task_bank.entries()}
    languages_there = [language.name for language in languages(planted)]
    for name in play.game.kinds:
        kind = find(name)
        no_start = kind.starts_from_program and kind.language.name not in languages_there
        # Students alone are posed what is in the task bank; a teacher may begin without references.
        if name not in planted and (no_start or students_alone):
            raise SeedError(f"the seed programs make no task of the kind {name}: choose other game.kinds")


def _seed_programs(play: SelfPlay, language: Language, share: float) -> tuple[list[Task], list[Task]]:
    """Returns the seed programs of a language with all their inputs: those that are planted, and those held out."""
    game = play.game
    own = game.seeds
    drafts = language.seeds(own)
    # No shipped seed is reserved.
    numbers = [
        number for number, draft in enumerate(drafts) if own is None or not is_reserved(draft.program, language.name)
    ]
    if not numbers:
        raise SeedError(f"all programs of {own} are similar to held-out ones: write others")
    if game.seed_lines is not None:
        numbers = [number for number in numbers if len(drafts[number].program.splitlines()) <= game.seed_lines]
    if not numbers:
        raise SeedError(
            f"no seed program has at most game.seed_lines={game.seed_lines} lines: use game.seed_lines=none"
        )
    if game.seed_tasks == 0:
        return verified_tasks(play.verifier, {"identity": language.identity}, language), []
    likenesses: dict[int, Likeness] = {}
    if share:
        likenesses = {number: (language.name, language.shape(drafts[number].program)) for number in numbers}
    chosen = held_out_of(
        ((likeness, language.fingerprint(drafts[number].program)) for number, likeness in likenesses.items()), share
    )
    held_out = [number for number, likeness in likenesses.items() if likeness in chosen]
    numbers = [number for number in numbers if likenesses.get(number) not in chosen]
    if game.seed_tasks is not None and game.seed_tasks < len(numbers):
        numbers = streams.python(play.seed, "seed tasks").sample(numbers, game.seed_tasks)
    # In the order of the files, as all seeds are.
    planted = verified_seeds(play.verifier, {number: drafts[number] for number in sorted(numbers)}, language, own)
    return planted, verified_seeds(play.verifier, {number: drafts[number] for number in held_out}, language, own)


def plant_tasks(play: SelfPlay, tasks: Sequence[Task], share: float = 0.0) -> Planted:
    """Adds the tasks of `game.tasks` to the task bank, as far as the verifier finds them valid here.

    A `share` of their programs is held out. Raises SeedError if one of the run's kinds has no task then.
    """
    source = f"game.tasks={play.game.tasks}"
    valid = list(_valid(play, tasks))
    fingerprints = [(likeness_of(task), fingerprint_of(task)) for task in valid]
    chosen = held_out_of(fingerprints, share)
    play.task_bank.hold_out(chosen)
    held_out = [task for task in valid if likeness_of(task) in chosen]
    added = sum(play.task_bank.add(task, None) for task in valid)
    if added > len(play.task_bank):
        raise SeedError(f"{source} has more than game.bank_size={play.task_bank.capacity} tasks of a kind: raise it")
    there = {entry.task.kind for entry in play.task_bank.entries()}
    missing = [kind for kind in play.game.kinds if kind not in there]
    if missing:
        raise SeedError(
            f"{source} has no valid task of the kind {' and '.join(missing)}: choose other game.kinds, or other tasks"
        )
    programs = {fingerprint_of(entry.task) for entry in play.task_bank.entries()}
    left_out = len(tasks) - added - len(held_out)
    return Planted(programs=len(programs), left_out=left_out, held_out=tuple(map(_as_tested, held_out)))


def _valid(play: SelfPlay, tasks: Sequence[Task]) -> Iterable[Task]:
    """Yields the tasks that are of the run's kinds, are valid here, give the outputs that they say, and are no others.

    What is similar to a reserved program is left out too.
    """
    kinds = play.game.kinds
    run = {number: task for number, task in enumerate(tasks) if find(task.kind).has_program(task)}
    proposals = [
        Proposal(id=f"fixed-{number}", kind=task.kind, author=OWN, step=0, draft=task.draft)
        for number, task in run.items()
    ]
    judged = judge_proposals(play.verifier, proposals)
    refuse_lost([verdict for verdict, _ in judged])
    # The file's outputs may be of another version of Python, or made up.
    valid = {
        number: made for number, (_, made) in zip(run, judged, strict=True) if made and made.pairs == run[number].pairs
    }
    seen: set[tuple[object, ...]] = set()
    for number, task in enumerate(tasks):
        # What a person expects is right by itself where no program gives it.
        made = valid.get(number) if number in run else replace(task, id=f"fixed-{number}", author=OWN, step=0)
        if made is None or made.kind not in kinds:
            continue
        same = (made.kind, fingerprint_of(made), made.message, made.pairs)
        if same not in seen and not is_reserved(made.program, made.kind):
            seen.add(same)
            yield made


def _as_tested(task: Task) -> Task:
    """Returns a task in the kind in which students are tested."""
    return replace(task, kind=find(task.kind).held_out_as)


def seed_tasks(verifier: Verifier, language: Language, numbers: Sequence[int] | None = None) -> list[Task]:
    """Returns the shipped seed programs with these numbers, by default all, as `verified_tasks` does."""
    drafts = language.seeds()
    chosen = range(len(drafts)) if numbers is None else numbers
    return verified_seeds(verifier, {number: drafts[number] for number in chosen}, language, None)


def planted_by(seed: int, whole: Task, kind: Kind) -> random.Random:
    """Returns the random generator that chooses which input of a seed program becomes the question in this kind."""
    return streams.python(seed, "plant", whole.id, kind)


def verified_seeds(verifier: Verifier, drafts: Mapping[int, Draft], language: Language, own: str | None) -> list[Task]:
    """Returns the seeds with these numbers as `verified_tasks` does.

    Raises SeedError, which names the first, if one of the user's file `own` gives no outputs.
    """
    tasks = verified_tasks(verifier, {f"seed-{number}": draft for number, draft in drafts.items()}, language)
    if own is not None and len(tasks) < len(drafts):
        valid = {task.id for task in tasks}
        failed = next(draft for number, draft in drafts.items() if f"seed-{number}" not in valid)
        raise SeedError(
            f"{len(drafts) - len(tasks)} of {len(drafts)} programs of {own} give no outputs in the sandbox, first "
            f"'# {failed.message}': try it with redqueen verify"
        )
    return [replace(task, author=AUTHOR if own is None else OWN) for task in tasks]


def verified_tasks(verifier: Verifier, drafts: Mapping[str, Draft], language: Language) -> list[Task]:
    """Runs drafts, each under the id that its task gets. Returns those that work, with all inputs and their outputs.

    They are of no kind yet: `TaskKind.of_program` makes tasks of them.
    """
    # The language's name stands for that. A kind may need more inputs than a program written by hand has.
    kind = language.name
    proposals = [Proposal(id=name, kind=kind, author=AUTHOR, step=0, draft=draft) for name, draft in drafts.items()]
    judged = judge_proposals(verifier, proposals)
    refuse_lost([verdict for verdict, _ in judged])
    return [task for _, task in judged if task is not None]


def refuse_lost(verdicts: Sequence[Verdict]) -> None:
    """Raises UserError if the machine lost some programs: a run that begins without them would be another run."""
    lost = [verdict for verdict in verdicts if verdict.status == "infra_error"]
    if lost:
        raise UserError(
            f"the sandbox lost {len(lost)} of {len(verdicts)} programs ({lost[0].detail}): see redqueen doctor"
        )
