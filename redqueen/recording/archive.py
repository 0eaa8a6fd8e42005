"""The archive's rows of a step, from the step's records."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from redqueen.config import LeagueConfig
from redqueen.evolution import Game, Replacement, fitness_of
from redqueen.league.hall_of_fame import Champion
from redqueen.league.population import Member, Population
from redqueen.league.rating import Rating
from redqueen.records import Attempted, Proposed, Task
from redqueen.runs.archive.rows import (
    AttemptRow,
    ChampionRow,
    MatchRow,
    MemberRow,
    ProbeRow,
    ProposalRow,
    ReplacementRow,
    Row,
    StandingRow,
    TaskRow,
)
from redqueen.self_play import Played


def step_rows(
    played: Played, games: Sequence[Game], ratings: Mapping[str, Rating], births: Sequence[Replacement]
) -> list[Row]:
    """Matches, proposals, tasks, attempts and replacements of a step.

    `ratings` are those after the games and before the births.
    """
    step = played.step
    rows: list[Row] = [_match_row(step, game, ratings) for game in games]
    for proposal in played.proposed:
        rows.append(_proposal_row(step, proposal, played.teacher_rewards.get(proposal.id)))
        if proposal.task is not None:
            rho = played.rho.get(proposal.id)
            rows.append(_task_row(step, proposal.task, rho, proposal.id in played.novel))
    for attempt in played.attempted:
        rows.append(_attempt_row(step, attempt, played.student_rewards.get((attempt.task.id, attempt.number))))
    rows += [_replacement_row(step, birth) for birth in births]
    return rows


def standing_rows(population: Population, step: int, league: LeagueConfig) -> list[StandingRow]:
    """Where every living member stands. Call it after the games and before the births."""
    return [
        StandingRow(
            step=step,
            member=member.name,
            mu=member.rating.mu,
            sigma=member.rating.sigma,
            games=member.games,
            fitness=fitness_of(member, league),
        )
        for member in population.members.values()
    ]


def member_row(member: Member) -> MemberRow:
    """A member's birth."""
    return MemberRow(
        name=member.name, role=member.role, step=member.born, parents=member.parents, operator=member.operator
    )


def champion_row(champion: Champion) -> ChampionRow:
    """A champion's entry into the hall of fame."""
    return ChampionRow(
        name=champion.name,
        member=champion.member,
        role=champion.role,
        step=champion.step,
        mu=champion.rating.mu,
        sigma=champion.rating.sigma,
        fitness=champion.fitness,
    )


def probe_row(step: int, attempt: Attempted) -> ProbeRow:
    """An attempt behind a held-out score."""
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


def _match_row(step: int, game: Game, ratings: Mapping[str, Rating]) -> MatchRow:
    teacher = ratings[game.match.teacher]
    student = ratings[game.match.student]
    return MatchRow(
        id=game.id,
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


def _proposal_row(step: int, proposal: Proposed, reward: float | None) -> ProposalRow:
    completion = proposal.rollout.completion
    return ProposalRow(
        id=proposal.id,
        step=step,
        match=proposal.match,
        teacher=proposal.rollout.member,
        kind=proposal.rollout.kind,
        prompt=proposal.prompt,
        text=completion.text,
        tokens=len(completion.token_ids),
        status=proposal.verdict.status,
        output=proposal.verdict.output,
        detail=proposal.verdict.detail,
        cpu_ms=proposal.verdict.cpu_ms,
        reward=reward,
    )


def _task_row(step: int, task: Task, rho: float | None, novel: bool) -> TaskRow:
    return TaskRow(
        id=task.id,
        step=step,
        kind=task.kind,
        author=task.author,
        program=task.program,
        pairs=tuple((pair.input, pair.output) for pair in task.pairs),
        message=task.message,
        rho=rho,
        novel=novel,
    )


def _attempt_row(step: int, attempt: Attempted, reward: float | None) -> AttemptRow:
    completion = attempt.rollout.completion
    return AttemptRow(
        task=attempt.task.id,
        number=attempt.number,
        step=step,
        student=attempt.rollout.member,
        text=completion.text,
        tokens=len(completion.token_ids),
        status=attempt.verdict.status,
        output=attempt.verdict.output,
        detail=attempt.verdict.detail,
        cpu_ms=attempt.verdict.cpu_ms,
        reward=reward,
    )


def _replacement_row(step: int, birth: Replacement) -> ReplacementRow:
    return ReplacementRow(
        step=step,
        victim=birth.victim,
        child=birth.child,
        parents=birth.parents,
        operator=birth.operator,
        victim_fitness=birth.victim_fitness,
        parent_fitness=birth.parent_fitness,
        distance=birth.distance,
        tries=birth.tries,
    )
