"""Steps to be recorded: empty ones, and one in which everything happened."""

from __future__ import annotations

from dataclasses import replace

from redqueen.method.hall_of_fame import champion_of
from redqueen.method.matchmaking import Match
from redqueen.method.played_step import PlayedMatch, PlayedStep, ScoredAttempt, ScoredProposal
from redqueen.method.population import Member
from redqueen.method.rating import Rating
from redqueen.method.results import Game, Replacement, Standing
from redqueen.method.seeds import AUTHOR
from redqueen.records import (
    Attempted,
    Completion,
    FinishReason,
    ImportanceRatio,
    MemberUpdate,
    Pair,
    Proposed,
    Rollout,
    Task,
    Verdict,
)
from redqueen.run.recording.measures import Measures
from redqueen.run.recording.recorder import StepRecord
from redqueen.tasks.kinds import BUILT_IN
from redqueen.tasks.python import NAMES

NOTHING = PlayedStep(step=0, matches=())
EMPTY = StepRecord(
    kinds=NAMES,
    played=NOTHING,
    updates=(),
    games=(),
    par={},
    ratings={},
    held_out=(),
    standings=(),
    champions=(),
    births=(),
    population=(),
    hall_of_fame=(),
    task_bank_size=0,
    measures=Measures(BUILT_IN).measure(NOTHING, {}, ()),
    seconds={"total": 0.0},
)
T0 = Member("T0", "teacher", 0, rating=Rating(26.0, 7.0), wins=1)
S0 = Member("S0", "student", 0, rating=Rating(24.0, 7.0), losses=1)
S1 = Member("S1", "student", 4, parents=("S0",), operator="copy_parent")
MATCH = Match(id="4.0", teacher="T0", student="S0")
TASK = Task(
    id="4.0.code_o.0", kind="code_o", author="T0", step=4, program="def f(x):\n    return x", pairs=(Pair("1", "1"),)
)


SEED = replace(TASK, id="seed-3-code_o", author=AUTHOR, step=0)


def record(step: int, **changes: object) -> StepRecord:
    """An empty step with these fields."""
    return replace(EMPTY, played=PlayedStep(step=step, matches=()), **changes)


def completion(text: str, tokens: int = 2, finish_reason: FinishReason = "stop") -> Completion:
    return Completion(
        member="T0",
        version=1,
        prompt_ids=(1,),
        token_ids=(5,) * tokens,
        logprobs=(-1.0,) * tokens,
        text=text,
        finish_reason=finish_reason,
    )


def attempt(number: int, verdict: Verdict, reward: float | None) -> ScoredAttempt:
    rollout = Rollout(
        member="S0", role="student", kind="code_o", group=TASK.id, completion=completion("1", finish_reason="length")
    )
    attempted = Attempted(task=TASK, number=number, rollout=rollout, verdict=verdict)
    return ScoredAttempt(attempted=attempted, reward=reward)


def proposal(number: int, verdict: Verdict, task: Task | None) -> Proposed:
    rollout = Rollout(
        member="T0", role="teacher", kind="code_o", group="4.0.code_o", completion=completion("def f", tokens=3)
    )
    return Proposed(
        id=f"4.0.code_o.{number}", match="4.0", student="S0", prompt="Puzzle:", references=(SEED, TASK),
        rollout=rollout, verdict=verdict, task=task,
    )  # fmt: skip


def full() -> StepRecord:
    """Step 4: one match of three proposals (solved by half, malformed, lost to the machine); S0 is replaced by S1."""
    attempts = (
        attempt(0, Verdict("correct"), 1.0),
        attempt(1, Verdict("wrong"), -0.5),
        attempt(2, Verdict("infra_error"), None),
    )
    proposals = (
        ScoredProposal(
            proposed=proposal(0, Verdict("valid", "1"), TASK), reward=0.5, solve_rate=0.5, novel=True, attempts=attempts
        ),
        ScoredProposal(
            proposed=proposal(1, Verdict("malformed", detail="no call"), None),
            reward=-1.0, solve_rate=None, novel=False, attempts=(),
        ),
        ScoredProposal(
            proposed=proposal(2, Verdict("infra_error"), None),
            reward=None, solve_rate=None, novel=False, attempts=(),
        ),
    )  # fmt: skip
    held_out = Attempted(
        task=replace(TASK, id="probe-seed-0-code_o"), number=0, rollout=attempts[0].attempted.rollout,
        verdict=Verdict("correct", "1"),
    )  # fmt: skip
    birth = Replacement(
        victim="S0", child="S1", parents=("S0",), operator="copy_parent", victim_fitness=3.0, victim_age=5,
        victim_games=1, tie=True, parent_fitness=(3.0,), distance=0.25, tries=2,
    )  # fmt: skip
    played = PlayedStep(step=4, matches=(PlayedMatch(match=MATCH, proposals=proposals),))
    return StepRecord(
        kinds=NAMES,
        played=played,
        updates=(
            MemberUpdate(
                member="T0",
                loss=0.5,
                grad_norm=1.5,
                adapter_norm=2.5,
                logprob_gap=0.125,
                tokens=9,
                ratio=ImportanceRatio(mean=1.01, std=0.06, clipped=0.0),
            ),
        ),
        games=(Game(match=MATCH, score=-0.25, outcome="teacher"),),
        par={"code_o": 0.75},
        ratings={"T0": T0.rating, "S0": S0.rating},
        held_out=(held_out,),
        standings=(Standing(member=T0, fitness=5.0), Standing(member=S0, fitness=None)),
        champions=(champion_of("T0", "teacher", 4, T0.rating, 5.0),),
        births=(birth,),
        population=(Standing(member=T0, fitness=5.0), Standing(member=S1, fitness=None)),
        hall_of_fame=("T0@4",),
        task_bank_size=7,
        measures=Measures(BUILT_IN).measure(played, {}, ("T0", "S0")),
        seconds={"match": 0.12345, "total": 61.5},
    )
