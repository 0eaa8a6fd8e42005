"""Self-play, the middle of a step: teachers propose, the matched students attempt, the verifier judges, rewards follow.

The result of a step is a tree: a `PlayedStep` has matches, a match has proposals, and a proposal has attempts.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from concurrent.futures import Future
from dataclasses import dataclass, replace
from itertools import chain

from redqueen import streams
from redqueen.config import Config, GameConfig
from redqueen.game.prompts import Prompts, prompts
from redqueen.game.reserved import is_reserved
from redqueen.game.rewards import solve_rate, student_reward, teacher_reward
from redqueen.game.seeds import AUTHOR, IDENTITY, SeedError, seeds, seeds_of
from redqueen.game.task_bank import TaskBank
from redqueen.judging import Progress, ask, faults_of, submit_attempt, submit_proposal, withdrawn
from redqueen.league.matchmaking import Match
from redqueen.programs.normal_form import fingerprint
from redqueen.records import (
    Attempted,
    Completion,
    Draft,
    GradedRollout,
    Kind,
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


@dataclass(frozen=True, slots=True, kw_only=True)
class ScoredAttempt:
    """An attempt with its reward: a leaf of the step's tree."""

    attempted: Attempted
    reward: float | None
    """None after a fault of the machine, and where the task was withdrawn."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ScoredProposal:
    """A proposal with its reward and the attempts at its task."""

    proposed: Proposed
    reward: float | None
    """None after a fault of the machine, its own or that of every attempt."""
    solve_rate: float | None
    """None where no attempt could be judged: the proposal is no valid task, or the machine failed. A task that was
    withdrawn is none: its program did not repeat its own output (`withdrawn`)."""
    novel: bool
    """Whether it is a valid task with a new idea (`redqueen.game.novelty`)."""
    attempts: tuple[ScoredAttempt, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class PlayedMatch:
    """A match with everything that was written in it."""

    match: Match
    proposals: tuple[ScoredProposal, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class PlayedStep:
    """A step's matches when everything is judged and paid, in the order in which they were drawn."""

    step: int
    matches: tuple[PlayedMatch, ...]

    @property
    def proposals(self) -> list[ScoredProposal]:
        """The proposals of all matches."""
        return list(chain.from_iterable(match.proposals for match in self.matches))

    @property
    def attempts(self) -> list[ScoredAttempt]:
        """The attempts of all matches."""
        return list(chain.from_iterable(proposal.attempts for proposal in self.proposals))

    def graded(self) -> list[GradedRollout]:
        """Returns all rollouts that have a reward, teachers' first."""
        # No member caused a fault of the machine. Paid as a failure, it would teach members to avoid what they wrote
        # on a machine that happened to be busy, so such a rollout has no reward and is not trained on.
        paid = [(proposal.proposed.rollout, proposal.reward) for proposal in self.proposals]
        paid += [(attempt.attempted.rollout, attempt.reward) for attempt in self.attempts]
        return [GradedRollout(rollout=rollout, reward=reward) for rollout, reward in paid if reward is not None]


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
    """The task whose program a code_f proposal begins with; None for the other kinds."""


class SelfPlay:
    """Runs the propose and solve phases. Holds the sampler, the verifier and the task bank."""

    def __init__(self, config: Config, sampler: Sampler, verifier: Verifier) -> None:
        self.config = config
        self.sampler = sampler
        self.verifier = verifier
        self.prompts: Prompts = prompts(config.model.prompts, config.game)
        self.task_bank = TaskBank(config.game.bank_size)
        self.seed = config.run.seed

    def add_seed_tasks(self) -> int:
        """Adds `game.seed_tasks` seed programs in all kinds to the task bank. Returns how many programs it adds."""
        most = self.config.game.seed_lines
        drafts = seeds_of(self.config.game)
        own = self.config.game.seeds
        # No shipped seed is reserved.
        numbers = [number for number, draft in enumerate(drafts) if own is None or not is_reserved(draft.program)]
        if not numbers:
            raise SeedError(f"all programs of {own} are alike to held-out ones: write others")
        if most is not None:
            numbers = [number for number in numbers if len(drafts[number].program.splitlines()) <= most]
        if not numbers:
            raise SeedError(f"no seed program has at most game.seed_lines={most} lines: use game.seed_lines=none")
        count = self.config.game.seed_tasks
        if count == 0:
            tasks = verified_tasks(self.verifier, {"identity": IDENTITY})
        else:
            if count is not None and count < len(numbers):
                numbers = streams.python(self.seed, "seed tasks").sample(numbers, count)
            # In the order of the files, as all seeds are.
            chosen = {number: drafts[number] for number in sorted(numbers)}
            tasks = verified_seeds(self.verifier, chosen, own)
        for task in tasks:
            for kind in self.config.game.kinds:
                rng = streams.python(self.seed, "plant", task.id, kind)
                self.task_bank.add(task.as_kind(kind, rng), None)
        return len(tasks)

    def propose(self, step: int, matches: Sequence[Match], progress: Progress) -> list[Proposed]:
        """Returns `game.proposals` judged proposals of each kind in each match."""
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

        def submit(index: int, completion: Completion) -> Future[tuple[Verdict, Task | None]]:
            given = assignments[index]
            return submit_proposal(
                self.verifier, self.prompts, completion, id=given.id, kind=given.kind, step=step, start=given.start
            )

        answers = ask(self.sampler, requests, submit, progress)
        proposed: list[Proposed] = []
        for assignment, (completion, (verdict, task)) in zip(assignments, answers, strict=True):
            teacher = assignment.match.teacher
            # A group is centred by itself, and a teacher is paid by how its student does. Proposals for another student
            # are therefore another group: pooled, they would be told apart by which student they met.
            rollout = Rollout(
                member=teacher,
                role="teacher",
                kind=assignment.kind,
                group=f"{assignment.match.id}.{assignment.kind}",
                completion=completion,
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

    def solve(self, proposed: Sequence[Proposed], progress: Progress) -> list[Attempted]:
        """Returns `game.attempts` judged attempts of the matched student at each valid task."""
        posed = [(proposal.student, proposal.task) for proposal in proposed if proposal.task is not None]
        return self.attempt(posed, self.config.game.attempts, progress)

    def attempt(
        self, posed: Sequence[tuple[str, Task]], attempts: int, progress: Progress | None = None
    ) -> list[Attempted]:
        """Returns `attempts` judged attempts of each member at its task, in the order of `posed`.

        At one task all members draw the same random numbers, so a difference between them is not one of luck.
        """
        # A prompt depends on its task alone, and making one may read the whole task bank. So each is made only once.
        prompt_of = {task: self.pose(task) for _, task in posed}
        sampling = self.config.sampling.params(self.config.sampling.attempt_tokens)
        places: list[tuple[str, Task, int]] = []
        for member, task in posed:
            places += [(member, task, number) for number in range(attempts)]
        requests = [
            Request(
                member=member,
                prompt=prompt_of[task],
                sampling=sampling,
                seed=(self.seed, "attempt", task.id, number),
            )
            for member, task, number in places
        ]

        def submit(index: int, completion: Completion) -> Future[Verdict]:
            return submit_attempt(self.verifier, self.prompts, places[index][1], completion)

        answers = ask(self.sampler, requests, submit, progress)
        return [
            Attempted(task=task, number=number, rollout=attempt_rollout(member, task, completion), verdict=verdict)
            for (member, task, number), (completion, verdict) in zip(places, answers, strict=True)
        ]

    def _assign(self, match: Match, kind: Kind, number: int) -> _Assignment:
        """Returns one assignment with its prompt."""
        # The stream has the proposal's own name. How much another proposal draws does not change this one's references.
        name = f"{match.id}.{kind}.{number}"
        rng = streams.python(self.seed, "references", name)
        start = self.task_bank.program(rng) if kind == "code_f" else None
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
        drawn = self.task_bank.references(task.kind, shots, rng, without=fingerprint(task.program))
        return self.prompts.attempt(task, drawn)


def score_step(
    step: int,
    matches: Sequence[Match],
    proposed: Sequence[Proposed],
    attempted: Sequence[Attempted],
    task_bank: TaskBank,
    pay: GameConfig,
) -> PlayedStep:
    """Returns the step's tree with solve rates and rewards, and adds its valid tasks to the task bank.

    A task that was withdrawn does not enter the bank, and what the bank has on its program leaves.
    """
    # A task has the id of its proposal, so attempts find their proposal by it.
    attempts: dict[str, list[Attempted]] = {}
    for attempt in attempted:
        attempts.setdefault(attempt.task.id, []).append(attempt)
    faults = faults_of(attempted)
    # The order of the proposals decides which of two alike tasks is the new one. It is the order in which they were
    # asked for and not that of their ends, so a run can be repeated exactly.
    scored: dict[str, list[ScoredProposal]] = {match.id: [] for match in matches}
    for proposal in proposed:
        own = attempts.get(proposal.id, [])
        if proposal.id in faults:
            proposal, own = withdrawn(proposal, own, faults[proposal.id])
        scored[proposal.match].append(_score(proposal, own, task_bank, pay))
    # After all others: the same program may have come twice in the step, under two names.
    for attempt in attempted:
        if attempt.task.id in faults:
            task_bank.remove(attempt.task.program)
    played = [PlayedMatch(match=match, proposals=tuple(scored[match.id])) for match in matches]
    return PlayedStep(step=step, matches=tuple(played))


def _score(proposed: Proposed, attempts: Sequence[Attempted], task_bank: TaskBank, pay: GameConfig) -> ScoredProposal:
    rho = solve_rate([attempt.verdict for attempt in attempts])
    task = proposed.task
    # Asked before the task enters the bank, where it would be known.
    novel = task is not None and task_bank.is_novel(task)
    if task is not None:
        task_bank.add(task, rho)
    return ScoredProposal(
        proposed=proposed,
        reward=teacher_reward(proposed.verdict, rho, pay),
        solve_rate=rho,
        novel=novel,
        attempts=tuple(
            ScoredAttempt(attempted=attempt, reward=student_reward(attempt.verdict, pay)) for attempt in attempts
        ),
    )


def attempt_rollout(member: str, task: Task, completion: Completion) -> Rollout:
    """Returns the rollout of an attempt; the attempts at one task are one group."""
    return Rollout(member=member, role="student", kind=task.kind, group=task.id, completion=completion)


def seed_tasks(verifier: Verifier, numbers: Sequence[int] | None = None) -> list[Task]:
    """Returns the seed programs with these numbers, by default all, as `verified_tasks` does."""
    drafts = seeds()
    chosen = range(len(drafts)) if numbers is None else numbers
    return verified_seeds(verifier, {number: drafts[number] for number in chosen}, None)


def verified_seeds(verifier: Verifier, drafts: Mapping[int, Draft], own: str | None) -> list[Task]:
    """Returns the seeds with these numbers as `verified_tasks` does.

    Raises SeedError, which names the first, if one of the user's file `own` gives no outputs.
    """
    tasks = verified_tasks(verifier, {f"seed-{number}": draft for number, draft in drafts.items()})
    if own is not None and len(tasks) < len(drafts):
        valid = {task.id for task in tasks}
        failed = next(draft for number, draft in drafts.items() if f"seed-{number}" not in valid)
        raise SeedError(
            f"{len(drafts) - len(tasks)} of {len(drafts)} programs of {own} give no outputs in the sandbox, first "
            f"'# {failed.message}': try it with redqueen verify"
        )
    return tasks


def verified_tasks(verifier: Verifier, drafts: Mapping[str, Draft]) -> list[Task]:
    """Returns drafts, by the id that they get, as code_f tasks with all their inputs.

    The verifier computes the outputs. `Task.as_kind` makes the other kinds of them.
    """
    # They are verified as code_o: a code_f proposal needs `game.min_inputs` inputs, and a program written by hand may
    # have fewer.
    proposals = [Proposal(id=name, kind="code_o", author=AUTHOR, step=0, draft=draft) for name, draft in drafts.items()]
    return [replace(task, kind="code_f") for _, task in verifier.validate(proposals) if task is not None]
