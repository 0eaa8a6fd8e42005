"""Writes the record of a step into the run: a line of metrics.jsonl, and rows of the archive."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import asdict, fields

from redqueen.evals.held_out import HeldOutAnswer
from redqueen.method.hall_of_fame import Champion
from redqueen.method.matchmaking import Match
from redqueen.method.played_step import PlayedStep, Practised, ScoredAttempt, ScoredPosed, ScoredProposal
from redqueen.method.population import Member
from redqueen.method.rating import Rating
from redqueen.method.results import Game, Standing
from redqueen.records import Attempted, Task
from redqueen.run.recording.metrics import step_metrics
from redqueen.run.recording.recorder import Recorder, StepRecord
from redqueen.store.archive.rows import (
    BANK,
    AttemptRow,
    ChampionRow,
    EvaluationRow,
    MatchRow,
    MemberRow,
    ProbeRow,
    ProposalRow,
    ReplacementRow,
    Row,
    StandingRow,
    TaskRow,
)
from redqueen.store.archive.writer import Archive
from redqueen.store.directory import RunDirectory
from redqueen.store.files import InPlace


class MetricsRecorder(Recorder):
    """Appends each step's line to metrics.jsonl, the metrics of plugins that are called `own` among it."""

    def __init__(self, directory: RunDirectory, own: Sequence[str] = ()) -> None:
        self.directory = directory
        self.own = own
        self._place = InPlace(directory.metrics_file)

    def record(self, record: StepRecord) -> None:
        """Appends the step's line. Raises OSError if it cannot be written, RunError if the file is no longer there."""
        self._place.check()
        self.directory.append_metrics(step_metrics(record, self.own))
        self._place.check()

    def rewind(self, step: int) -> None:
        """Drops the lines of the steps after `step`: a resumed run plays those steps again."""
        self.directory.rewind_metrics(step)
        # The file is a new one now.
        self._place = InPlace(self.directory.metrics_file)


class ArchiveRecorder(Archive, Recorder):
    """Writes every match, proposal, task, attempt and birth of a run into its archive."""

    def begin(self, population: Iterable[Member], start: Iterable[HeldOutAnswer]) -> None:
        """Writes the first population, and the answers of the adapter that it starts from."""
        members = [member_row(member) for member in population]
        self.write([*members, *(evaluation_row(0, answer) for answer in start)])

    def record(self, record: StepRecord) -> None:
        """Writes the step's rows in one transaction. Raises sqlite3.Error if one is refused; then none is written."""
        self.write(rows_of(record))


def rows_of(record: StepRecord) -> list[Row]:
    """Returns everything that the archive keeps of a step.

    The order is part of the format: readers get rows of one step in the order of writing.
    """
    step = record.step
    # The standings are of those who played. The children of this step are found among those who play the next one.
    members = {standing.member.name: standing.member for standing in record.population}
    rows: list[Row] = [_match_row(step, game, record.ratings) for game in record.games]
    rows += _played_rows(record.played)
    rows += [ReplacementRow(step=step, **asdict(birth)) for birth in record.births]
    rows += [member_row(members[birth.child]) for birth in record.births]
    rows += [_standing_row(step, standing) for standing in record.standings]
    rows += [_champion_row(champion) for champion in record.champions]
    rows += [_probe_row(step, attempt) for attempt in record.held_out]
    rows += [evaluation_row(step, answer) for answer in record.answers]
    rows += record.measures.rows
    return rows


def _played_rows(played: PlayedStep) -> list[Row]:
    """Returns the rows of the step's tree."""
    # Depth first: a task follows its proposal and its attempts follow the task, as the keys refer to one another.
    rows: list[Row] = []
    for match in played.matches:
        for proposal in match.proposals:
            rows.append(_proposal_row(played.step, match.match.id, proposal))
            if proposal.proposed.task is not None:
                rows.append(_task_row(played.step, proposal.proposed.task, proposal.solve_rate, proposal.novel))
            rows += [_attempt_row(played.step, attempt) for attempt in proposal.attempts]
    for practised in played.practised:
        rows.append(_practice_row(played.step, practised))
        for posed in practised.tasks:
            rows.append(_posed_row(played.step, posed))
            rows.append(_task_row(played.step, posed.posed.task, posed.solve_rate, novel=False))
            rows += [_attempt_row(played.step, attempt) for attempt in posed.attempts]
    return rows


def _standing_row(step: int, standing: Standing) -> StandingRow:
    member = standing.member
    return StandingRow(
        step=step,
        member=member.name,
        mu=member.rating.mu,
        sigma=member.rating.sigma,
        games=member.games,
        fitness=standing.fitness,
    )


def member_row(member: Member) -> MemberRow:
    """Returns the row of a member's birth."""
    return MemberRow(
        name=member.name, role=member.role, step=member.born, parents=member.parents, operator=member.operator
    )


def _champion_row(champion: Champion) -> ChampionRow:
    return ChampionRow(
        name=champion.name,
        member=champion.member,
        role=champion.role,
        step=champion.step,
        mu=champion.rating.mu,
        sigma=champion.rating.sigma,
        fitness=champion.fitness,
    )


def _probe_row(step: int, attempt: Attempted) -> ProbeRow:
    completion = attempt.rollout.completion
    return ProbeRow(
        step=step,
        member=attempt.rollout.member,
        task=attempt.task.id,
        text=completion.text,
        tokens=len(completion.token_ids),
        status=attempt.verdict.status,
        output=attempt.verdict.output,
        detail=attempt.verdict.detail,
    )


def evaluation_row(step: int, answer: HeldOutAnswer) -> EvaluationRow:
    """Returns the row of an answer to a held-out problem."""
    return EvaluationRow(step=step, **asdict(answer))


def answer_of(row: EvaluationRow) -> HeldOutAnswer:
    """Returns the answer that a row was written from."""
    return HeldOutAnswer(**{field.name: getattr(row, field.name) for field in fields(HeldOutAnswer)})


def _match_row(step: int, game: Game, ratings: Mapping[str, Rating]) -> MatchRow:
    teacher = ratings[game.match.teacher]
    student = ratings[game.match.student]
    return MatchRow(
        id=game.match.id,
        step=step,
        teacher=game.match.teacher,
        student=game.match.student,
        score=game.score,
        outcome=game.outcome,
        teacher_mu=teacher.mu,
        teacher_sigma=teacher.sigma,
        student_mu=student.mu,
        student_sigma=student.sigma,
    )


def _proposal_row(step: int, match: str, scored: ScoredProposal) -> ProposalRow:
    proposed = scored.proposed
    completion = proposed.rollout.completion
    return ProposalRow(
        id=proposed.id,
        step=step,
        match=match,
        teacher=proposed.rollout.member,
        kind=proposed.rollout.kind,
        prompt=proposed.prompt,
        reference_ids=tuple(task.id for task in proposed.references),
        text=completion.text,
        tokens=len(completion.token_ids),
        finish_reason=completion.finish_reason,
        status=proposed.verdict.status,
        output=proposed.verdict.output,
        detail=proposed.verdict.detail,
        cpu_ms=proposed.verdict.cpu_ms,
        reward=scored.reward,
    )


def _practice_row(step: int, practised: Practised) -> MatchRow:
    """Returns a practice as a match with the task bank, which is not rated: both sides have the prior."""
    practice = practised.practice
    match = Match(id=practice.id, teacher=BANK, student=practice.student)
    return _match_row(step, Game(match=match, score=None, outcome=None), {BANK: Rating(), practice.student: Rating()})


def _posed_row(step: int, scored: ScoredPosed) -> ProposalRow:
    """Returns a fixed task in the place of a proposal, by the task bank: no teacher wrote it or is paid for it."""
    task = scored.posed.task
    return ProposalRow(
        id=task.id,
        step=step,
        match=scored.posed.practice,
        teacher=BANK,
        kind=task.kind,
        prompt="",
        reference_ids=(),
        text=task.program,
        tokens=0,
        finish_reason="stop",
        status="valid",
        output="; ".join(pair.output for pair in task.pairs),
        detail="",
        cpu_ms=0.0,
        reward=None,
    )


def _task_row(step: int, task: Task, solve_rate: float | None, novel: bool) -> TaskRow:
    return TaskRow(
        id=task.id,
        step=step,
        kind=task.kind,
        author=task.author,
        program=task.program,
        pairs=tuple((pair.input, pair.output) for pair in task.pairs),
        message=task.message,
        rho=solve_rate,
        novel=novel,
    )


def _attempt_row(step: int, scored: ScoredAttempt) -> AttemptRow:
    attempted = scored.attempted
    completion = attempted.rollout.completion
    return AttemptRow(
        task=attempted.task.id,
        number=attempted.number,
        step=step,
        student=attempted.rollout.member,
        text=completion.text,
        tokens=len(completion.token_ids),
        finish_reason=completion.finish_reason,
        status=attempted.verdict.status,
        output=attempted.verdict.output,
        detail=attempted.verdict.detail,
        cpu_ms=attempted.verdict.cpu_ms,
        reward=scored.reward,
    )
