"""The middle of a step: teachers propose, the verifier judges, the matched students attempt, rewards are paid."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import Future
from dataclasses import dataclass

from redqueen import streams
from redqueen.config import Config, GameConfig
from redqueen.game.prompts import Prompts, prompts
from redqueen.game.rewards import solve_rate, student_reward, teacher_reward
from redqueen.game.seeds import AUTHOR, seeds
from redqueen.game.task_bank import TaskBank
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

Progress = Callable[[int, int], None]


@dataclass(frozen=True, slots=True)
class _Ask:
    """One proposal that a teacher is asked for. `start` is the task whose program a code_f proposal begins with."""

    id: str
    match_id: str
    match: Match
    kind: Kind
    prompt: Prompt
    start: Task | None


class Play:
    """What the phases share: who samples, who judges, and the bank that grows with every valid task."""

    def __init__(self, config: Config, sampler: Sampler, verifier: Verifier) -> None:
        self.config, self.sampler, self.verifier = config, sampler, verifier
        self.format: Prompts = prompts(config.model.prompts, config.game)
        self.bank = TaskBank(config.game.bank_size)
        self.seed = config.run.seed

    def plant(self) -> int:
        """Fills the bank with the seed programs in all kinds, outputs computed by the verifier; returns how many."""
        tasks = seed_tasks(self.verifier)
        for task in tasks:
            for kind in self.config.game.kinds:
                rng = streams.python(self.seed, "plant", task.id, kind)
                self.bank.add(task.as_kind(kind, rng), None)
        return len(tasks)

    def propose(self, step: int, matches: Sequence[Match], progress: Progress) -> list[Proposed]:
        """`game.proposals` proposals of each kind in each match, judged as they are written."""
        asks = [
            self._ask(step, m, match, kind, j)
            for m, match in enumerate(matches)
            for kind in self.config.game.kinds
            for j in range(self.config.game.proposals)
        ]
        sampling = self.config.sampling.params(self.config.sampling.proposal_tokens)
        requests = [
            Request(
                member=ask.match.teacher, prompt=ask.prompt, sampling=sampling, seed=(self.seed, "proposal", ask.id)
            )
            for ask in asks
        ]
        verdicts: dict[int, Future[tuple[Verdict, Task | None]]] = {}

        def judge(index: int, completion: Completion) -> None:
            verdicts[index] = self._judge(step, asks[index], completion)
            progress(len(verdicts), len(asks))

        completions = self.sampler.sample(requests, judge)
        judged: list[Proposed] = []
        for index, (ask, completion) in enumerate(zip(asks, completions, strict=True)):
            verdict, task = verdicts[index].result()
            rollout = Rollout(
                member=ask.match.teacher,
                role="teacher",
                kind=ask.kind,
                group=f"{step}.{ask.match.teacher}.{ask.kind}",
                completion=completion,
            )
            judged.append(
                Proposed(
                    id=ask.id,
                    match=ask.match_id,
                    student=ask.match.student,
                    prompt=ask.prompt.text,
                    rollout=rollout,
                    verdict=verdict,
                    task=task,
                )
            )
        return judged

    def solve(self, proposed: Sequence[Proposed], progress: Progress) -> list[Attempted]:
        """`game.attempts` attempts of the matched student at each valid task, judged as they are written."""
        posed = [(p.student, p.task) for p in proposed if p.task is not None]
        return self.attempt(posed, self.config.game.attempts, progress)

    def attempt(self, posed: Sequence[tuple[str, Task]], attempts: int, progress: Progress) -> list[Attempted]:
        """`attempts` attempts of each member at its task; at one task all members draw the same random numbers."""
        places = [(student, task, self._pose(task), n) for student, task in posed for n in range(attempts)]
        sampling = self.config.sampling.params(self.config.sampling.attempt_tokens)
        requests = [
            Request(member=student, prompt=prompt, sampling=sampling, seed=(self.seed, "attempt", task.id, n))
            for student, task, prompt, n in places
        ]
        verdicts: dict[int, Future[Verdict]] = {}

        def judge(index: int, completion: Completion) -> None:
            task = places[index][1]
            answer = self.format.read_attempt(task.kind, completion.text)
            verdicts[index] = self.verifier.submit_attempt(task, answer)
            progress(len(verdicts), len(places))

        completions = self.sampler.sample(requests, judge)
        return [
            Attempted(
                task=task,
                number=n,
                rollout=Rollout(member=student, role="student", kind=task.kind, group=task.id, completion=completion),
                verdict=verdicts[index].result(),
            )
            for index, ((student, task, _, n), completion) in enumerate(zip(places, completions, strict=True))
        ]

    def _ask(self, step: int, m: int, match: Match, kind: Kind, j: int) -> _Ask:
        name = f"{match_id(step, m)}.{kind}.{j}"
        rng = streams.python(self.seed, "references", name)
        start = self.bank.program(rng, self.config.game.start_lines) if kind == "code_f" else None
        references = self.bank.references(kind, self.config.game.references, rng)
        return _Ask(name, match_id(step, m), match, kind, self.format.propose(kind, references, start), start)

    def _pose(self, task: Task) -> Prompt:
        rng = streams.python(self.seed, "shots", task.id)
        shots, own = self.config.game.shots, fingerprint(task.program)
        # a worked example must not be the program that is asked about
        drawn = [t for t in self.bank.references(task.kind, shots + 1, rng) if fingerprint(t.program) != own]
        return self.format.attempt(task, drawn[:shots])

    def _judge(self, step: int, ask: _Ask, completion: Completion) -> Future[tuple[Verdict, Task | None]]:
        """Handed to the verifier while others are still being written; what cannot be read runs nowhere."""
        draft = self.format.read_proposal(ask.kind, completion.text, ask.start)
        if isinstance(draft, Draft):
            return self.verifier.submit_proposal(
                Proposal(id=ask.id, kind=ask.kind, author=ask.match.teacher, step=step, draft=draft)
            )
        unread: Future[tuple[Verdict, Task | None]] = Future()
        unread.set_result((Verdict("malformed", detail=draft), None))
        return unread


def seed_tasks(verifier: Verifier) -> list[Task]:
    """The seed programs as code_f tasks with all their inputs; the verifier computes the outputs."""
    proposals = [
        Proposal(id=f"seed-{i}", kind="code_f", author=AUTHOR, step=-1, draft=draft) for i, draft in enumerate(seeds())
    ]
    return [task for _, task in verifier.validate(proposals) if task is not None]


def match_id(step: int, number: int) -> str:
    """The name of a step's match; the ids of its proposals and tasks start with it."""
    return f"{step}.{number}"


@dataclass(frozen=True, slots=True)
class Played:
    """A step's games when everything is judged: solve rates by task id, rewards by proposal id and attempt.

    What the machine spoilt has no entry in the rewards; `novel` are the tasks whose program the bank did not hold.
    """

    step: int
    proposed: Sequence[Proposed]
    attempted: Sequence[Attempted]
    rho: Mapping[str, float]
    teacher_rewards: Mapping[str, float]
    student_rewards: Mapping[tuple[str, int], float]
    novel: frozenset[str]

    def graded(self) -> list[GradedRollout]:
        """All rollouts that are paid, teachers' first."""
        return [
            GradedRollout(rollout=p.rollout, reward=self.teacher_rewards[p.id])
            for p in self.proposed
            if p.id in self.teacher_rewards
        ] + [
            GradedRollout(rollout=a.rollout, reward=self.student_rewards[a.task.id, a.number])
            for a in self.attempted
            if (a.task.id, a.number) in self.student_rewards
        ]


def settle(
    step: int, proposed: Sequence[Proposed], attempted: Sequence[Attempted], bank: TaskBank, pay: GameConfig
) -> Played:
    """Solve rates and rewards; the step's tasks go into the bank."""
    verdicts: dict[str, list[Verdict]] = {}
    for attempt in attempted:
        verdicts.setdefault(attempt.task.id, []).append(attempt.verdict)
    rho = {task: rate for task, own in verdicts.items() if (rate := solve_rate(own)) is not None}
    teachers = {p.id: teacher_reward(p.verdict, rho.get(p.id), pay) for p in proposed}
    students = {(a.task.id, a.number): student_reward(a.verdict, pay) for a in attempted}
    novel = {p.id for p in proposed if p.task is not None and bank.add(p.task, rho.get(p.id))}
    return Played(
        step,
        proposed,
        attempted,
        rho,
        {name: reward for name, reward in teachers.items() if reward is not None},
        {name: reward for name, reward in students.items() if reward is not None},
        frozenset(novel),
    )
