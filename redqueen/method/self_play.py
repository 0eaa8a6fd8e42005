"""Self-play, the middle of a step: teachers propose, the matched students attempt, and the verifier judges."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from concurrent.futures import Future
from dataclasses import dataclass, replace
from functools import partial
from typing import NamedTuple

from redqueen.base import streams
from redqueen.base.futures import then
from redqueen.base.request_stream import FollowUp, sample_stream
from redqueen.config import PlaySettings
from redqueen.method.judging import ask_attempts, attempt_rollout, submit_attempt, submit_proposal
from redqueen.method.matchmaking import Match
from redqueen.method.prompts import Prompts, prompts, work_of
from redqueen.method.retrial import recover, settle
from redqueen.method.task_bank import TaskBank, fingerprint_of
from redqueen.records import (
    Attempted,
    Completion,
    Kind,
    PosedTask,
    Progress,
    Prompt,
    Proposed,
    Request,
    Rollout,
    Sampler,
    Task,
    Verdict,
    Verifier,
)
from redqueen.tasks.kinds import find


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

    def __init__(self, settings: PlaySettings, sampler: Sampler, verifier: Verifier) -> None:
        self.game = settings.game
        self.sampling = settings.sampling
        self.seed = settings.seed
        self.sampler = sampler
        self.verifier = verifier
        self.prompts: Prompts = prompts(settings.prompts, settings.game)
        self.task_bank = TaskBank(self.game.bank_size)

    def play(
        self,
        step: int,
        matches: Sequence[Match],
        progress: Progress,
        on_proposed: Callable[[], None],
        posed: Sequence[PosedTask] = (),
    ) -> tuple[list[Proposed], list[Attempted]]:
        """Returns the judged proposals of each kind in each match, and the attempts at their tasks and at fixed ones.

        A student makes `game.attempts` attempts at each of its tasks: at the fixed ones that it is `posed`, and at a
        proposal as soon as that is verified, while others are still being written. Some attempts at proposals are
        judged twice (`settle`). `on_proposed` is called when the last proposal has been written; `progress` counts
        proposals before, and attempts from there on.
        """
        # All prompts are made before the first proposal is sampled. So every teacher of a step sees the same task bank,
        # whatever the order in which matches were drawn.
        assignments: list[_Assignment] = []
        for match in matches:
            for kind in self.game.kinds:
                assignments += [self._assign(match, kind, number) for number in range(self.game.teacher_proposals)]
        sampling = self.sampling.params(self.sampling.proposal_tokens)
        requests = [
            Request(
                member=assignment.match.teacher,
                prompt=assignment.prompt,
                sampling=sampling,
                seed=(self.seed, "proposal", assignment.id),
            )
            for assignment in assignments
        ]
        attempts = self.game.attempts
        judging = _Judging(self, step, assignments, posed, progress, on_proposed)
        for one in posed:
            requests += self.attempt_requests(one.student, one.task, self.pose(one.task), attempts)
        completions = sample_stream(self.sampler, requests, judging.submit, len(assignments) * attempts)
        attempted = judging.attempted(completions)
        # No teacher gains by a fixed task that is solved by chance, so attempts at one are judged again only if they
        # were lost.
        at_fixed = len(posed) * attempts
        practised = recover(self.verifier, self.prompts, attempted[:at_fixed])
        played = settle(self.verifier, self.prompts, attempted[at_fixed:], self.seed)
        return judging.proposed(completions), [*practised, *played]

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
        sampling = self.sampling.params(self.sampling.attempt_tokens)
        return [
            Request(member=member, prompt=prompt, sampling=sampling, seed=(self.seed, "attempt", task.id, number))
            for number in range(attempts)
        ]

    def _assign(self, match: Match, kind: Kind, number: int) -> _Assignment:
        # The stream has the proposal's own name. How much another proposal draws does not change this one's references.
        name = f"{match.id}.{kind}.{number}"
        rng = streams.python(self.seed, "references", name)
        start = self.task_bank.program(kind, rng) if find(kind).starts_from_program else None
        references = self.task_bank.references(kind, self.game.references, rng, self.game.references_from)
        prompt = self.prompts.propose(kind, references, start)
        return _Assignment(id=name, match=match, kind=kind, prompt=prompt, references=tuple(references), start=start)

    def pose(self, task: Task) -> Prompt:
        """Returns the prompt of an attempt at `task`, with `game.shots` worked examples from the task bank."""
        shots = self.game.shots
        if not shots:
            return self.prompts.attempt(task, ())
        rng = streams.python(self.seed, "shots", task.id)
        # A worked example with the same program would give the answer away.
        drawn = self.task_bank.references(task.kind, shots, rng, without=fingerprint_of(task))
        return self.prompts.attempt(task, drawn)


class _Asked(NamedTuple):
    """An attempt that was asked for."""

    proposal: int
    """The index of the proposal whose task it is; below 0 for a fixed task."""
    task: Task
    number: int
    student: str


class _Judging:
    """Follows a step's requests. The first are the proposals; attempts get the next numbers, in the order of asking."""

    def __init__(
        self,
        play: SelfPlay,
        step: int,
        assignments: Sequence[_Assignment],
        posed: Sequence[PosedTask],
        progress: Progress,
        on_proposed: Callable[[], None],
    ) -> None:
        self.play = play
        self.step = step
        self.assignments = assignments
        self.progress = progress
        self.on_proposed = on_proposed
        self.proposals: dict[int, Future[tuple[Verdict, Task | None]]] = {}
        # Every attempt, in the order in which it was asked for. Fixed tasks come before the first proposal.
        self.asked = [
            _Asked(index - len(posed), one.task, number, one.student)
            for index, one in enumerate(posed)
            for number in range(play.game.attempts)
        ]
        self.attempts: dict[int, Future[Verdict]] = {}

    def submit(self, index: int, completion: Completion) -> FollowUp[list[Request]] | None:
        """Hands a completion to the verifier. Returns the attempts that a proposal leads to."""
        play = self.play
        proposals = len(self.assignments)
        if index < proposals:
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
            judged = then(judged, partial(_refuse_held_out, play.task_bank))
            self.proposals[index] = judged
            self.progress(len(self.proposals), proposals)
            if len(self.proposals) == proposals:
                self.on_proposed()
            return FollowUp(judged, partial(self._pose, index))

        task = self.asked[index - proposals].task
        self.attempts[index - proposals] = submit_attempt(play.verifier, play.prompts, task, completion)
        if len(self.proposals) == proposals:
            self.progress(len(self.attempts), len(self.asked))
        return None

    def _pose(self, index: int, judged: tuple[Verdict, Task | None]) -> list[Request]:
        """Returns the attempts at a proposal's task, if it is valid."""
        task = judged[1]
        if task is None:
            return []
        student = self.assignments[index].match.student
        count = self.play.game.attempts
        self.asked += [_Asked(index, task, number, student) for number in range(count)]
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
        for index in sorted(self.attempts, key=lambda index: (self.asked[index].proposal, self.asked[index].number)):
            _, task, number, student = self.asked[index]
            completion = completions[len(self.assignments) + index]
            attempted.append(
                Attempted(
                    task=task,
                    number=number,
                    rollout=attempt_rollout(student, task, completion),
                    verdict=self.attempts[index].result(),
                    work=work_of(self.play.prompts, task.kind, completion.text),
                )
            )
        return attempted


def _refuse_held_out(bank: TaskBank, judged: tuple[Verdict, Task | None]) -> tuple[Verdict, Task | None]:
    """Returns the verdict on a proposal, refused if its task is similar to one of the user's that are held out."""
    verdict, task = judged
    if task is None or not bank.is_held_out(task):
        return verdict, task
    return replace(verdict, status="forbidden", detail="similar to a task of yours that is held out"), None
