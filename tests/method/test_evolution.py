"""The end of a step: games and what they record, champions, held-out scores, and children that are too alike."""

from __future__ import annotations

import json
import sqlite3
from collections.abc import Iterator, Sequence
from dataclasses import replace
from itertools import chain
from pathlib import Path

import pytest
import torch

from redqueen.config import Config, LeagueConfig, SandboxConfig
from redqueen.engine.adapters import generator
from redqueen.method.evolution import (
    OPERATORS,
    TRIES,
    add_champions,
    fitness_of,
    plan,
    rate_games,
    score_held_out,
)
from redqueen.method.games import Par, par_by
from redqueen.method.hall_of_fame import Champion, champion_of
from redqueen.method.matchmaking import Match
from redqueen.method.played_step import (
    PlayedMatch,
    PlayedStep,
    Practised,
    ScoredAttempt,
    ScoredPosed,
    ScoredProposal,
)
from redqueen.method.population import Population
from redqueen.method.practice import Practice
from redqueen.method.rating import Rating, TrueSkill
from redqueen.method.results import Game
from redqueen.method.selection import is_evolution_step
from redqueen.method.verifier import LocalVerifier
from redqueen.records import Attempted, Completion, Pair, PosedTask, Proposed, Rollout, Task, Verdict
from tests import toy

pytestmark = pytest.mark.integration

LEAGUE = LeagueConfig()
NOTHING = Completion(member="S0", version=1, prompt_ids=(), token_ids=(), logprobs=(), text="", finish_reason="stop")


def table(teachers: int = 1, students: int = 1) -> Population:
    made = Population()
    for _ in range(teachers):
        made.add_member("teacher", 0)
    for _ in range(students):
        made.add_member("student", 0)
    return made


def game(match: Match, rho: list[float | None], attempts: int = 4) -> PlayedStep:
    """A step of one match with a proposal for each rho: a solve rate, or None for an invalid one."""
    proposals: list[ScoredProposal] = []
    for i, solve_rate in enumerate(rho):
        name = f"{match.id}.code_o.{i}"
        task = None
        if solve_rate is not None:
            task = Task(
                id=name,
                kind="code_o",
                author=match.teacher,
                step=0,
                program="def f(x): return x",
                pairs=(Pair("1", "1"),),
            )
        proposed = Proposed(
            id=name,
            match=match.id,
            student=match.student,
            prompt="",
            references=(),
            rollout=Rollout(member=match.teacher, role="teacher", kind="code_o", group="g", completion=NOTHING),
            verdict=Verdict("malformed" if task is None else "valid"),
            task=task,
        )
        scored: list[ScoredAttempt] = []
        for n in range(attempts if task is not None else 0):
            assert task is not None
            assert solve_rate is not None
            right = n < round(solve_rate * attempts)
            rollout = Rollout(member=match.student, role="student", kind="code_o", group=name, completion=NOTHING)
            verdict = Verdict("correct" if right else "wrong")
            attempted = Attempted(task=task, number=n, rollout=rollout, verdict=verdict)
            scored.append(ScoredAttempt(attempted=attempted, reward=1.0 if right else -0.5))
        reward = -1.0 if solve_rate is None else 1.0 - solve_rate if solve_rate else 0.0
        proposals.append(
            ScoredProposal(proposed=proposed, reward=reward, solve_rate=solve_rate, novel=False, attempts=tuple(scored))
        )
    return PlayedStep(step=0, matches=(PlayedMatch(match=match, proposals=tuple(proposals)),))


def without_rewards(step: PlayedStep) -> PlayedStep:
    """The step as it is if the machine failed on everything."""
    (match,) = step.matches
    lost: list[ScoredProposal] = []
    for proposal in match.proposals:
        attempts = tuple(replace(attempt, reward=None) for attempt in proposal.attempts)
        lost.append(replace(proposal, reward=None, solve_rate=None, attempts=attempts))
    return replace(step, matches=(replace(match, proposals=tuple(lost)),))


def par_now(league: Population, config: LeagueConfig) -> Par:
    return par_by(config.game, league.recent_matches)


def rated(league: Population, played: PlayedStep, trueskill: TrueSkill, config: LeagueConfig) -> list[Game]:
    """The games of a step; the par that they were played against is that of the matches that the league keeps now."""
    games, par = rate_games(league, played, trueskill, config)
    assert par == par_now(league, config)
    return games


def two_matches() -> PlayedStep:
    """T0's tasks are solved less often than T1's: the pairs meet in one step, so par is between them."""
    hard = game(Match(id="0.0", teacher="T0", student="S0"), [0.25, 0.5])
    easy = game(Match(id="0.1", teacher="T1", student="S1"), [0.75, 1.0])
    return PlayedStep(step=0, matches=(*hard.matches, *easy.matches))


def practised(student: str, solve_rate: float) -> PlayedStep:
    """A step in which a student alone was posed one fixed task."""
    (alike,) = game(Match(id="0.0", teacher="T0", student=student), [solve_rate]).proposals
    assert alike.proposed.task is not None
    posed = PosedTask(practice="0.0", student=student, task=alike.proposed.task)
    scored = ScoredPosed(posed=posed, solve_rate=solve_rate, attempts=alike.attempts)
    return PlayedStep(
        step=0, matches=(), practised=(Practised(practice=Practice(id="0.0", student=student), tasks=(scored,)),)
    )


def test_a_match_is_won_against_the_level_of_the_recent_matches() -> None:
    league = table(2, 2)
    games = rated(league, two_matches(), TrueSkill(), LEAGUE)
    assert [(played.score, played.outcome) for played in games] == [(-0.25, "teacher"), (0.25, "student")]
    assert par_now(league, LEAGUE) == {"code_o": 0.625}
    # The same two matches again: par has not moved, and neither has who wins.
    assert rated(league, two_matches(), TrueSkill(), LEAGUE) == games
    # Everything becomes easier, and both sides still win.
    easier = rated(league, game(Match(id="2.0", teacher="T0", student="S0"), [0.75, 0.75]), TrueSkill(), LEAGUE)
    assert easier[0].outcome == "student"


def test_the_order_of_a_steps_matches_has_no_effect() -> None:
    step = two_matches()
    backwards = replace(step, matches=step.matches[::-1])
    games = rated(table(2, 2), step, TrueSkill(), LEAGUE)
    assert rated(table(2, 2), backwards, TrueSkill(), LEAGUE)[::-1] == games


def test_a_lone_match_without_history_is_a_draw() -> None:
    league, match = table(), Match(id="0.0", teacher="T0", student="S0")
    assert rated(league, game(match, [0.25, 1.0]), TrueSkill(), LEAGUE)[0].outcome == "draw"


def test_the_window_forgets_old_matches_but_holds_the_whole_step() -> None:
    league = table(2, 2)
    short = LEAGUE.model_copy(update={"par_matches": 1})
    rated(league, two_matches(), TrueSkill(), short)
    assert len(league.recent_matches) == 2
    rated(league, game(Match(id="1.0", teacher="T0", student="S0"), [0.5]), TrueSkill(), short)
    assert par_now(league, short) == {"code_o": 0.5}
    rated(league, game(Match(id="2.0", teacher="T0", student="S0"), [0.0, 0.0]), TrueSkill(), short)
    assert par_now(league, short) == {"code_o": 0.5}, "a match that nobody solved says nothing about the level"


def test_par_can_be_one_half() -> None:
    league, match = table(), Match(id="0.0", teacher="T0", student="S0")
    half = LEAGUE.model_copy(update={"game": "half"})
    assert rated(league, game(match, [0.75]), TrueSkill(), half)[0].score == 0.25
    assert par_now(league, half) == {"code_o": 0.5}


def test_a_match_leaves_its_rewards_and_its_learnability_with_both() -> None:
    league, match = table(), Match(id="0.0", teacher="T0", student="S0")
    rated(league, game(match, [0.5, 1.0, None]), TrueSkill(), LEAGUE)
    teacher, student = league.members["T0"], league.members["S0"]
    assert teacher.rewards == (pytest.approx((0.5 + 0.0 - 1.0) / 3),)
    # The invalid proposal is a fault of the teacher; for the student it was no task.
    assert teacher.learnability == (pytest.approx(1 / 3),)
    assert student.rewards == (pytest.approx((2 * 1.0 - 2 * 0.5 + 4 * 1.0) / 8),)
    assert student.learnability == (pytest.approx(1 / 2),)
    assert teacher.games == student.games == 1


def test_a_teacher_without_a_valid_task_loses_and_the_student_has_nothing_to_remember() -> None:
    league, match = table(), Match(id="0.0", teacher="T0", student="S0")
    (played,) = rated(league, game(match, [None, None]), TrueSkill(), LEAGUE)
    assert (played.score, played.outcome) == (None, "student")
    assert league.members["T0"].learnability == (0.0,)
    assert (league.members["S0"].rewards, league.members["S0"].learnability) == ((), ())
    assert league.members["S0"].wins == 1


def test_tasks_that_nobody_solves_are_a_draw() -> None:
    league, match = table(), Match(id="0.0", teacher="T0", student="S0")
    rated(league, game(match, [0.5, 0.75]), TrueSkill(), LEAGUE)
    (played,) = rated(league, game(match, [0.0, 0.0, None]), TrueSkill(), LEAGUE)
    assert (played.score, played.outcome) == (0.0, "draw")


def test_a_match_that_the_machine_lost_is_no_game_and_is_not_recorded() -> None:
    league, match = table(), Match(id="0.0", teacher="T0", student="S0")
    lost = without_rewards(game(match, [0.5]))
    before = dict(league.members)
    assert rated(league, lost, TrueSkill(), LEAGUE)[0].outcome is None
    assert league.members == before


def test_a_task_that_the_machine_lost_saves_its_teacher_from_a_forfeit() -> None:
    league, match = table(), Match(id="0.0", teacher="T0", student="S0")
    whole = game(match, [0.5, None])
    (played,) = whole.matches
    lost = replace(played.proposals[0], reward=None, solve_rate=None)
    step = replace(whole, matches=(replace(played, proposals=(lost, played.proposals[1])),))
    assert rated(league, step, TrueSkill(), LEAGUE)[0].outcome is None


def test_invalid_proposals_beside_lost_ones_are_not_recorded() -> None:
    league, match = table(), Match(id="0.0", teacher="T0", student="S0")
    whole = game(match, [0.5, None])
    (played,) = whole.matches
    lost = replace(played.proposals[0], reward=None, solve_rate=None)
    rated(
        league, replace(whole, matches=(replace(played, proposals=(lost, played.proposals[1])),)), TrueSkill(), LEAGUE
    )
    assert league.members["T0"].rewards == ()
    assert league.members["T0"].learnability == ()


def test_students_alone_end_their_burn_in_by_practice() -> None:
    league = table(teachers=0, students=2)
    config = configured(
        *("population.teachers=0", "population.students=2", "league.student_fitness=mean_reward"),
        *("evolution.every=1", "evolution.burn_in=2", "evolution.gamma=0.5"),
    )
    births: list[int] = []
    for step in (1, 2):
        for student in ("S0", "S1"):
            rated(league, practised(student, 0.5 if student == "S0" else 1.0), TrueSkill(), config.league)
        births.append(len(plan(league, "student", step, config.evolution_settings)))
    assert births == [0, 1]
    assert league.members["S0"].games == 0


def test_the_single_agent_plays_no_game() -> None:
    league = Population()
    league.add_member("both", 0)
    (played,) = rated(league, game(Match(id="0.0", teacher="A0", student="A0"), [0.5]), TrueSkill(), LEAGUE)
    assert (played.score, played.outcome) == (0.0, None)
    assert league.members["A0"].games == 0


def test_a_game_against_the_past_moves_the_living_only_and_counts_for_par() -> None:
    league = table()
    old = champion_of("S0", "student", 3, Rating(35, 1), 32.0)
    league.add_champion(old, 1)
    match = Match(id="0.0", teacher="T0", student=old.name)
    rated(league, game(match, [0.25]), TrueSkill(), LEAGUE.model_copy(update={"game": "half"}))
    assert league.hall_of_fame == {old.name: old}
    assert league.members["T0"].wins == 1
    assert league.members["T0"].rewards == (0.75,)
    assert league.members["S0"] == table().members["S0"]
    assert par_now(league, LEAGUE) == {"code_o": 0.25}


def settled(config: Config, games: int = 9) -> Population:
    """T0 and S0 are the fittest by rating, and everybody has played."""
    made = table(config.population.teachers, config.population.students)
    for i, member in enumerate(made.members.values()):
        made.members[member.name] = replace(member, rating=Rating(40 - i, 1), wins=games)
    return made


def configured(*overrides: str) -> Config:
    return Config().override(["population.teachers=4", "population.students=4", *overrides])


def test_births_probes_and_champions_come_every_kth_step() -> None:
    evolution = configured("evolution.every=3").evolution
    assert [step for step in range(1, 10) if is_evolution_step(step, evolution)] == [3, 6, 9]


def names(champions: Sequence[Champion]) -> list[str]:
    return [champion.name for champion in champions]


def test_the_fittest_of_each_role_enter_the_hall_and_the_oldest_between_leave() -> None:
    config = configured("evolution.every=2", "league.hall_of_fame=2")
    league = settled(config)
    seen = [add_champions(league, step, config.evolution_settings) for step in range(1, 9)]
    assert [names(entered) for entered, _ in seen] == [
        [], ["T0@2", "S0@2"], [], ["T0@4", "S0@4"], [], ["T0@6", "S0@6"], [], ["T0@8", "S0@8"],
    ]  # fmt: skip
    assert [names(left) for _, left in seen][5::2] == [["T0@4", "S0@4"], ["T0@6", "S0@6"]]
    assert list(league.hall_of_fame) == ["T0@2", "S0@2", "T0@8", "S0@8"]
    assert league.hall_of_fame["T0@2"].rating == league.members["T0"].rating
    assert league.hall_of_fame["T0@2"].fitness == 40.0


def test_only_a_proven_member_becomes_a_champion() -> None:
    config = configured("evolution.every=1", "league.hall_of_fame=2", "evolution.burn_in=5")
    league = settled(config, games=4)
    assert add_champions(league, 0, config.evolution_settings) == ([], [])
    league.members["T3"] = replace(league.members["T3"], wins=5)
    assert [c.name for c in add_champions(league, 0, config.evolution_settings)[0]] == ["T3@0"]
    newborn = configured("evolution.every=1", "league.hall_of_fame=2", "evolution.burn_in=0")
    # A member without a game is no champion.
    assert add_champions(table(2, 2), 0, newborn.evolution_settings) == ([], [])


def held_out_attempt(member: str, correct: bool) -> Attempted:
    task = Task(id="t", kind="code_o", author="seed", step=0, program="", pairs=(Pair("1", "1"),))
    rollout = Rollout(member=member, role="student", kind="code_o", group="t", completion=NOTHING)
    return Attempted(task=task, number=0, rollout=rollout, verdict=Verdict("correct" if correct else "wrong"))


def test_the_probe_is_asked_about_the_students_when_a_ranking_by_it_is_due() -> None:
    asked: list[list[str]] = []

    def attempt(members: Sequence[str]) -> list[Attempted]:
        """Ten attempts each: member i solves i tenths of them."""
        asked.append(list(members))
        attempted: list[Attempted] = []
        for i, name in enumerate(members):
            attempted += [held_out_attempt(name, n < i) for n in range(10)]
        return attempted

    by_rating = configured("evolution.every=2")
    held_out = configured("evolution.every=2", "league.student_fitness=held_out")
    league = settled(held_out)
    for step in range(1, 5):
        assert score_held_out(league, attempt, step, by_rating.evolution_settings) == []
        attempted = score_held_out(league, attempt, step, held_out.evolution_settings)
        assert len(attempted) == (0 if step % 2 else 40)
    assert asked == [["S0", "S1", "S2", "S3"]] * 2
    assert fitness_of(league.members["S3"], held_out.league) == 0.3
    # S0 is rated best.
    assert [b.victim for b in plan(league, "student", 2, held_out.evolution_settings)] == ["S0"]
    assert [b.victim for b in plan(league, "teacher", 2, held_out.evolution_settings)] == ["T3"]


@pytest.fixture(scope="module")
def verifier() -> Iterator[LocalVerifier]:
    with LocalVerifier(SandboxConfig(workers=1)) as made:
        yield made


EVOLVING = {
    "run.steps": 2,
    "evolution.enabled": True,
    "evolution.every": 1,
    "evolution.burn_in": 1,
    "evolution.gamma": 1 / 3,
    "population.teachers": 3,
    "population.students": 3,
}


def replacements(lines: list[dict]) -> list[dict]:
    """The births of all steps."""
    return list(chain.from_iterable(line["replacements"] for line in lines))


def run(folder: Path, verifier: LocalVerifier, **changes: object) -> tuple[list[dict], sqlite3.Connection]:
    directory = toy.played(folder, verifier, **(EVOLVING | changes))
    return directory.metrics(), sqlite3.connect(directory.path / "run.sqlite")


@pytest.mark.slow
def test_a_child_too_like_the_living_is_drawn_again_a_bounded_number_of_times_and_kept(
    tmp_path: Path, verifier: LocalVerifier
) -> None:
    changes = {"evolution.mutations": "copy_parent", "evolution.crossover": 0, "evolution.min_distance": 0.01}
    lines, db = run(tmp_path, verifier, **changes)
    births = replacements(lines)
    assert len(births) >= 2
    assert all(b["tries"] == TRIES and b["distance"] < 1e-6 for b in births)
    rows = db.execute("SELECT tries, distance FROM replacements ORDER BY rowid").fetchall()
    assert rows == [(b["tries"], b["distance"]) for b in births]
    db.close()


@pytest.mark.slow
def test_a_child_is_not_compared_with_who_leaves_in_the_same_round(
    tmp_path: Path, verifier: LocalVerifier, monkeypatch: pytest.MonkeyPatch
) -> None:
    # Two of three are replaced: one victim still has its place when the first child is made.
    changes = {"evolution.crossover": 0, "evolution.gamma": 0.67, "evolution.min_distance": 0.01}
    trainer = toy.trainer(toy.config(tmp_path, **(EVOLVING | changes)), tmp_path / "run", verifier)
    read: list[str] = []
    adapter = trainer.policy.adapter
    monkeypatch.setattr(trainer.policy, "adapter", lambda name: read.append(name) or adapter(name))
    victims = [birth.victim for birth in trainer.step(1).births]
    assert len(victims) == 4
    assert read
    assert not set(victims) & set(read)
    trainer.close()


def test_each_try_is_a_new_draw_and_the_last_is_kept(tmp_path: Path, verifier: LocalVerifier) -> None:
    changes = {"evolution.mutations": "full_gaussian", "evolution.crossover": 0, "evolution.min_distance": 1.99}
    trainer = toy.trainer(toy.config(tmp_path, **(EVOLVING | changes)), tmp_path / "run", verifier)
    births = trainer.step(1).births
    assert births
    for birth in births:
        assert birth.tries == TRIES
        parent = trainer.policy.adapter(birth.parents[0])
        stream = (trainer.config.run.seed, 1, "operator", birth.victim)
        child = trainer.policy.adapter(birth.child)
        first = OPERATORS["full_gaussian"]([parent], generator(*stream))
        last = OPERATORS["full_gaussian"]([parent], generator(*stream, TRIES - 1))
        assert all(torch.equal(child[site].a, last[site].a) for site in child)
        assert not all(torch.equal(child[site].a, first[site].a) for site in child)
    trainer.close()


def test_a_draw_that_is_far_enough_ends_the_search(tmp_path: Path, verifier: LocalVerifier) -> None:
    # The update of a fresh adapter is zero, so its distance from any adapter that has learnt is exactly 1.
    changes = {
        "evolution.mutations": "fresh",
        "evolution.crossover": 0,
        "evolution.min_distance": 0.9,
        "evolution.every": 2,
    }
    lines, db = run(tmp_path, verifier, **changes)
    births = [b for b in lines[1]["replacements"] if b["victim"][0] == "T"]
    assert births
    assert [(b["tries"], b["distance"]) for b in births] == [(1, pytest.approx(1.0))] * len(births)
    db.close()


def test_without_a_least_distance_nothing_is_measured(tmp_path: Path, verifier: LocalVerifier) -> None:
    lines, db = run(tmp_path, verifier)
    births = replacements(lines)
    assert births
    assert all("distance" not in b for b in births)
    assert set(db.execute("SELECT distance, tries FROM replacements")) == {(None, 1)}
    db.close()


def test_the_archive_holds_every_standing_before_the_births(tmp_path: Path, verifier: LocalVerifier) -> None:
    lines, db = run(tmp_path, verifier)
    living = {"T0", "T1", "T2", "S0", "S1", "S2"}
    for line in lines:
        rows = dict(db.execute("SELECT member, fitness FROM standings WHERE step = ?", (line["step"],)))
        assert set(rows) == living
        for birth in line["replacements"]:
            (lost, before) = db.execute(
                "SELECT victim_fitness, parent_fitness FROM replacements WHERE child = ?", (birth["child"],)
            ).fetchone()
            assert lost == rows[birth["victim"]]
            assert json.loads(before) == [rows[parent] for parent in birth["parents"]]
        living = set(line["members"])
    db.close()


def test_a_newborns_first_update_is_its_first(tmp_path: Path, verifier: LocalVerifier) -> None:
    changes = {**EVOLVING, "evolution.burn_in": 2}
    trainer = toy.trainer(toy.config(tmp_path, **changes), tmp_path / "run", verifier)
    records = [trainer.step(step) for step in range(1, 4)]
    children = {birth.child for birth in records[1].births}
    assert children <= set(trainer.population.members), "they are in their burn-in"
    assert children
    for name in trainer.population.members:
        counts = {float(v) for key, v in trainer.policy.state(name).items() if key.endswith(".step")}
        assert counts <= ({1.0} if name in children else {1.0, 2.0, 3.0}), name
    assert any(trainer.policy.state(name) for name in children)
    trainer.close()


def test_students_are_selected_by_held_out_tasks(tmp_path: Path, verifier: LocalVerifier) -> None:
    changes = {"league.student_fitness": "held_out", "league.held_out_tasks": 6, "sampling.attempt_tokens": 2}
    lines, db = run(tmp_path, verifier, **changes)
    rows = db.execute("SELECT member, fitness FROM standings").fetchall()
    scores = {fitness for member, fitness in rows if member[0] == "S"}
    assert all(score is not None and 0 <= score <= 1 and round(score * 6, 9) % 1 == 0 for score in scores)
    assert any(line["replacements"] for line in lines)
    for step, name, fitness in db.execute("SELECT step, member, fitness FROM standings WHERE member LIKE 'S%'"):
        (mean,) = db.execute(
            "SELECT avg(status = 'correct') FROM probes WHERE step = ? AND member = ?", (step, name)
        ).fetchone()
        assert fitness == pytest.approx(mean), "every score can be traced to its attempts"
    newest = {b["child"] for b in lines[-1]["replacements"] if b["child"][0] == "S"}
    assert all(lines[-1]["members"][name]["fitness"] is None for name in newest), "a newborn's is not known yet"
    db.close()
