"""Self-play, the middle of a step: teachers propose, the matched students attempt, and the verifier judges."""

from __future__ import annotations

import random
from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import Future
from dataclasses import dataclass, replace
from functools import partial

from redqueen.base import streams
from redqueen.base.request_stream import FollowUp, sample_stream
from redqueen.config import Config
from redqueen.errors import UserError
from redqueen.method.judging import ask_attempts, attempt_rollout, judge_proposals, submit_attempt, submit_proposal
from redqueen.method.matchmaking import Match
from redqueen.method.prompts import Prompts, prompts, work_of
from redqueen.method.reserved import is_reserved
from redqueen.method.retrial import settled
from redqueen.method.seeds import AUTHOR, SeedError
from redqueen.method.task_bank import TaskBank, fingerprint_of
from redqueen.records import (
    Attempted,
    Completion,
    Draft,
    Kind,
    Progress,
    Prompt,
    Proposal,
    Proposed,
    Request,
    Rollout,
    Sampler,
    Task,
    Verdict,
    Verifier,
)
from redqueen.tasks.kinds import Language, find, languages, task_on


@dataclass(frozen=True, slots=True, kw_only=True)
class _Assignment:
    """One proposal that a teacher is asked for."""

    id: str
    match: Match
    kind: Kind
    prompt: Prompt
    references: tuple[Task, ...]
    """The tasks of the bank that the prompt shows."""
    start: Task | None
    """The task whose program the proposal starts from; None if its kind has the teacher write one."""


class SelfPlay:
    """Plays the middle of a step. Holds the sampler, the verifier and the task bank."""

    def __init__(self, config: Config, sampler: Sampler, verifier: Verifier) -> None:
        self.config = config
        self.sampler = sampler
        self.verifier = verifier
        self.prompts: Prompts = prompts(config.model.prompts, config.game)
        self.task_bank = TaskBank(config.game.bank_size)
        self.seed = config.run.seed

    def add_seed_tasks(self) -> int:
        """Adds `game.seed_tasks` seed programs in all kinds to the task bank. Returns how many programs it adds."""
        kinds = self.config.game.kinds
        least = self.config.game.min_inputs
        added = planted = 0
        own = self.config.game.seeds
        if own is not None and len(languages(kinds)) > 1:
            raise SeedError(f"{own} is of one language, and game.kinds are of several: choose kinds of one")
        for language in languages(kinds):
            tasks = self._seed_programs(language)
            added += len(tasks)
            for task in tasks:
                for kind in kinds:
                    posed = task_on(task, kind, planted_by(self.seed, task, kind), least)
                    planted += posed is not None and self.task_bank.add(posed, None)
        if planted > len(self.task_bank):
            raise SeedError(f"there are more than game.bank_size={self.task_bank.capacity} seeds of a kind: raise it")
        self._check_planted()
        return added

    def _check_planted(self) -> None:
        """Raises SeedError if a kind cannot be played, since the seeds make no tasks of it."""
        planted = {entry.task.kind for entry in self.task_bank.entries()}
        languages_there = [language.name for language in languages(planted)]
        for name in self.config.game.kinds:
            kind = find(name)
            no_start = kind.starts_from_program and kind.language.name not in languages_there
            # Students alone are posed what is in the task bank; a teacher may begin without references.
            if name not in planted and (no_start or not self.config.population.teachers):
                raise SeedError(f"the seed programs make no task of the kind {name}: choose other game.kinds")

    def _seed_programs(self, language: Language) -> list[Task]:
        """Returns the seed programs of a language that this run starts from, with all their inputs."""
        most = self.config.game.seed_lines
        own = self.config.game.seeds
        drafts = language.seeds(own)
        # No shipped seed is reserved.
        numbers = [
            number
            for number, draft in enumerate(drafts)
            if own is None or not is_reserved(draft.program, language.name)
        ]
        if not numbers:
            raise SeedError(f"all programs of {own} are similar to held-out ones: write others")
        if most is not None:
            numbers = [number for number in numbers if len(drafts[number].program.splitlines()) <= most]
        if not numbers:
            raise SeedError(f"no seed program has at most game.seed_lines={most} lines: use game.seed_lines=none")
        count = self.config.game.seed_tasks
        if count == 0:
            return verified_tasks(self.verifier, {"identity": language.identity}, language)
        if count is not None and count < len(numbers):
            numbers = streams.python(self.seed, "seed tasks").sample(numbers, count)
        # In the order of the files, as all seeds are.
        chosen = {number: drafts[number] for number in sorted(numbers)}
        return verified_seeds(self.verifier, chosen, language, own)

    def play(
        self, step: int, matches: Sequence[Match], progress: Progress, on_proposed: Callable[[], None]
    ) -> tuple[list[Proposed], list[Attempted]]:
        """Returns `game.proposals` judged proposals of each kind in each match, and the attempts at their valid tasks.

        The matched student makes `game.attempts` attempts at a task. They are sampled as soon as it is verified, while
        other proposals are still being written, and some are judged twice (`settled`). `on_proposed` is called when the
        last proposal has been written; `progress` counts proposals before, and attempts from there on.
        """
        # All prompts are made before the first proposal is sampled. So every teacher of a step sees the same task bank,
        # whatever the order in which matches were drawn.
        assignments: list[_Assignment] = []
        for match in matches:
            for kind in self.config.game.kinds:
                assignments += [self._assign(match, kind, number) for number in range(self.config.game.proposals)]
        sampling = self.config.sampling.params(self.config.sampling.proposal_tokens)
        requests = [
            Request(
                member=assignment.match.teacher,
                prompt=assignment.prompt,
                sampling=sampling,
                seed=(self.seed, "proposal", assignment.id),
            )
            for assignment in assignments
        ]
        judging = _Judging(self, step, assignments, progress, on_proposed)
        completions = sample_stream(self.sampler, requests, judging.submit, len(requests) * self.config.game.attempts)
        return judging.proposed(completions), self.settle(judging.attempted(completions))

    def settle(self, attempted: Sequence[Attempted]) -> list[Attempted]:
        """Judges a second time what of a step's attempts has to be (`settled`)."""
        return settled(self.verifier, self.prompts, attempted, self.seed)

    def attempt(
        self, posed: Sequence[tuple[str, Task]], attempts: int, progress: Progress | None = None
    ) -> list[Attempted]:
        """Returns `attempts` judged attempts of each member at its task, in the order of `posed`.

        At one task all members draw the same random numbers, so a difference between them is not one of luck.
        """
        # A prompt depends on its task alone, and making one may read the whole task bank. So each is made only once.
        prompt_of = {task: self.pose(task) for _, task in posed}
        tasks: list[Task] = []
        requests: list[Request] = []
        for member, task in posed:
            tasks += [task] * attempts
            requests += self.attempt_requests(member, task, prompt_of[task], attempts)
        attempted = ask_attempts(self.sampler, self.verifier, self.prompts, tasks, requests, progress)
        return [replace(attempt, number=index % attempts) for index, attempt in enumerate(attempted)]

    def attempt_requests(self, member: str, task: Task, prompt: Prompt, attempts: int) -> list[Request]:
        sampling = self.config.sampling.params(self.config.sampling.attempt_tokens)
        return [
            Request(member=member, prompt=prompt, sampling=sampling, seed=(self.seed, "attempt", task.id, number))
            for number in range(attempts)
        ]

    def _assign(self, match: Match, kind: Kind, number: int) -> _Assignment:
        # The stream has the proposal's own name. How much another proposal draws does not change this one's references.
        name = f"{match.id}.{kind}.{number}"
        rng = streams.python(self.seed, "references", name)
        start = self.task_bank.program(kind, rng) if find(kind).starts_from_program else None
        game = self.config.game
        references = self.task_bank.references(kind, game.references, rng, game.references_from)
        prompt = self.prompts.propose(kind, references, start)
        return _Assignment(id=name, match=match, kind=kind, prompt=prompt, references=tuple(references), start=start)

    def pose(self, task: Task) -> Prompt:
        """Returns the prompt of an attempt at `task`, with `game.shots` worked examples from the task bank."""
        shots = self.config.game.shots
        if not shots:
            return self.prompts.attempt(task, ())
        rng = streams.python(self.seed, "shots", task.id)
        # A worked example with the same program would give the answer away.
        drawn = self.task_bank.references(task.kind, shots, rng, without=fingerprint_of(task))
        return self.prompts.attempt(task, drawn)


class _Judging:
    """What became of a step's requests so far. The proposals are the first ones, and attempts are numbered on."""

    def __init__(
        self,
        play: SelfPlay,
        step: int,
        assignments: Sequence[_Assignment],
        progress: Progress,
        on_proposed: Callable[[], None],
    ) -> None:
        self.play = play
        self.step = step
        self.assignments = assignments
        self.progress = progress
        self.on_proposed = on_proposed
        self.proposals: dict[int, Future[tuple[Verdict, Task | None]]] = {}
        # For each attempt in the order in which it was asked for: its proposal, its task and its number.
        self.places: list[tuple[int, Task, int]] = []
        self.attempts: dict[int, Future[Verdict]] = {}

    def submit(self, index: int, completion: Completion) -> FollowUp[list[Request]] | None:
        """Hands a completion to the verifier. Returns the attempts that a proposal leads to."""
        play = self.play
        asked = len(self.assignments)
        if index < asked:
            assignment = self.assignments[index]
            judged = submit_proposal(
                play.verifier,
                play.prompts,
                completion,
                id=assignment.id,
                kind=assignment.kind,
                step=self.step,
                start=assignment.start,
            )
            self.proposals[index] = judged
            self.progress(len(self.proposals), asked)
            if len(self.proposals) == asked:
                self.on_proposed()
            return FollowUp(judged, partial(self._pose, index))

        task = self.places[index - asked][1]
        self.attempts[index - asked] = submit_attempt(play.verifier, play.prompts, task, completion)
        if len(self.proposals) == asked:
            self.progress(len(self.attempts), len(self.places))
        return None

    def _pose(self, index: int, judged: tuple[Verdict, Task | None]) -> list[Request]:
        """Returns the attempts at a proposal's task, if it is valid."""
        task = judged[1]
        if task is None:
            return []
        student = self.assignments[index].match.student
        count = self.play.config.game.attempts
        self.places += [(index, task, number) for number in range(count)]
        return self.play.attempt_requests(student, task, self.play.pose(task), count)

    def proposed(self, completions: Sequence[Completion]) -> list[Proposed]:
        """Returns the judged proposals in the order of the assignments."""
        proposed: list[Proposed] = []
        for index, assignment in enumerate(self.assignments):
            verdict, task = self.proposals[index].result()
            # A group is centred by itself, and a teacher is paid by how its student does. Proposals for another student
            # are therefore another group: pooled, they would be told apart by which student they met.
            rollout = Rollout(
                member=assignment.match.teacher,
                role="teacher",
                kind=assignment.kind,
                group=f"{assignment.match.id}.{assignment.kind}",
                completion=completions[index],
            )
            proposed.append(
                Proposed(
                    id=assignment.id,
                    match=assignment.match.id,
                    student=assignment.match.student,
                    prompt=assignment.prompt.text,
                    references=assignment.references,
                    rollout=rollout,
                    verdict=verdict,
                    task=task,
                )
            )
        return proposed

    def attempted(self, completions: Sequence[Completion]) -> list[Attempted]:
        """Returns the judged attempts in the order of their proposals, whenever they were sampled."""
        attempted: list[Attempted] = []
        for place in sorted(self.attempts, key=lambda place: (self.places[place][0], self.places[place][2])):
            index, task, number = self.places[place]
            student = self.assignments[index].match.student
            completion = completions[len(self.assignments) + place]
            attempted.append(
                Attempted(
                    task=task,
                    number=number,
                    rollout=attempt_rollout(student, task, completion),
                    verdict=self.attempts[place].result(),
                    work=work_of(self.play.prompts, task.kind, completion.text),
                )
            )
        return attempted


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
    return tasks


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
