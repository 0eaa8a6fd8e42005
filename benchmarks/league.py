"""The rules of games and selection in a simulated population: what they cull, what they select and who wins.

A simulated member is a latent skill and nothing else; the league is the project's own (par, ratings, matchmaking,
selection). A student solves a task with probability 1 / (1 + exp(-z)), where z = its skill - the teacher's skill +
`offset` + the task's ease, which is drawn with a standard deviation of 2. A child has its parents' mean skill plus
noise. `offset` shifts all students against all teachers: a good rule gives the same results whatever it is.

Each rule is simulated twice. In the first population members differ, and the mean skill at the end (`quality`, 0 at the
start) says what selection found. In the second all members are and stay equally good, so that everything that selection
does is noise: `cull` is the share of newborns that are replaced in their first round. If selection were blind to age it
would be gamma.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from statistics import fmean
from typing import Any

import numpy as np

from benchmarks.report import Report, finish, log
from redqueen.base import streams
from redqueen.base.intervals import Interval, interval
from redqueen.config import EvolutionConfig, LeagueConfig
from redqueen.config.recipes import recipe
from redqueen.method.fitness import lcb
from redqueen.method.games import match_score, outcome, par_by
from redqueen.method.matchmaking import Match, matchmake
from redqueen.method.population import Population
from redqueen.method.rating import GameResult, Rating, TrueSkill, inherited
from redqueen.method.selection import Birth, is_evolution_step, plan_births
from redqueen.records import ROLES, Kind, Role
from redqueen.tasks.kinds import BUILT_IN

ATTEMPTS = 6
VALID = 0.8
"""The share of proposals that are valid."""
EASE = 2.0
"""The standard deviation of a task's ease, on the logit."""
SPREAD = 1.0
"""The standard deviation of the first members' skills, on the logit."""
NOISE = 0.6
"""The standard deviation of what a child's skill adds to its parents' mean."""
OFFSETS = (0.0, -1.5, 1.5)

# Gauss-Hermite quadrature of the standard normal distribution.
_NODES, _MASSES = np.polynomial.hermite_e.hermegauss(32)
_WEIGHTS = _MASSES / _MASSES.sum()

COLUMNS = (
    ("rule", "rule"),
    ("offset", "offset"),
    ("cull", "cull"),
    ("blind", "blind"),
    ("quality", "quality"),
    ("wins", "wins S/T/drawn"),
    ("contested", "contested"),
    ("uniform", "if uniform"),
    ("births", "births"),
    ("age", "age at death"),
)
NOTES = (
    "cull: newborns replaced in their first round if all members are equally good; blind: if age had no effect.",
    "quality: mean true skill at the end, 0 at the start. wins: share of games won by students, by teachers, drawn.",
    "contested: expected share of tasks that some attempts solve and some do not, as matched and if matched uniformly.",
    "[low, high]: 95 % interval over the repetitions.",
)


@dataclass(frozen=True, slots=True, kw_only=True)
class Rule:
    """A rule to simulate."""

    name: str
    size: int
    """Teachers, and students."""
    league: LeagueConfig = field(default_factory=LeagueConfig)
    evolution: EvolutionConfig
    steps: int
    tasks: int = 12
    """Proposals in a match; the kinds take turns."""
    spread: float = SPREAD
    """The standard deviation of the first members' skills, on the logit."""
    fresh: bool = False
    """Whether a child starts with the rating of the first population instead of its parents' mean."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Run:
    """What one simulated run left."""

    quality: float
    outcomes: Counter[GameResult]
    tried: int
    """Newborns that were open to risk in a round."""
    culled: int
    """Those of them that were replaced in the first such round."""
    ages: Sequence[int]
    """The age of each victim, in steps."""
    contested: float
    uniform: float
    """`contested` if matchmaking were uniform, for the same members."""


def rules(steps: int) -> list[Rule]:
    """Returns the rules of the report: the default, its variants, and the quickstart's."""
    paper = Rule(name="par, mu", size=4, evolution=recipe("paper_7b").evolution, steps=steps)
    small = recipe("quickstart")
    tasks = small.game.proposals * len(small.game.kinds)
    quickstart = replace(paper, size=2, evolution=small.evolution, tasks=tasks)
    return [
        paper,
        replace(paper, name="par, mu - 1 sigma", league=LeagueConfig(lcb=1.0)),
        replace(paper, name="par, mu - 3 sigma", league=LeagueConfig(lcb=3.0)),
        replace(paper, name="par, mu - 3 sigma, fresh rating", league=LeagueConfig(lcb=3.0), fresh=True),
        replace(paper, name="one half, mu", league=LeagueConfig(game="half")),
        # Selection leaves members much alike. Here they differ and stay, so that matchmaking has something to choose.
        replace(paper, name="no births, spread 2", evolution=EvolutionConfig(enabled=False), spread=2.0),
        quickstart,
        replace(quickstart, name="par, mu, 30 steps", steps=min(30, steps)),
        replace(quickstart, name="no births, spread 2", evolution=EvolutionConfig(enabled=False), spread=2.0),
    ]


def run_bench_league(repetitions: int, steps: int, *, as_json: bool) -> int:
    """Simulates and prints the report; returns the exit code."""
    return finish(measure(rules(steps), repetitions), COLUMNS, as_json, NOTES)


def measure(simulated: Sequence[Rule], repetitions: int) -> Report:
    """Returns the report: a row for each rule and offset; the bars are for the first rule of each size."""
    report = Report("league", {"repetitions": repetitions, "noise": NOISE})
    for rule in simulated:
        for offset in OFFSETS:
            log(f"{rule.size}T + {rule.size}S  {rule.name}  offset {offset:+.1f}")
            report.results.append(_row(rule, offset, repetitions))
    for size in dict.fromkeys(rule.size for rule in simulated):
        name = next(rule.name for rule in simulated if rule.size == size)
        rows = [row for row in report.results if row["size"] == size and row["rule"] == name]
        side = f"{size}T + {size}S, {name}"
        report.ratio(f"{side}: largest cull", max(row["cull_mean"] for row in rows), "at most 0.40")
        report.ratio(f"{side}: least quality", min(row["quality_mean"] for row in rows), "at least 2.8")
        report.ratio(f"{side}: least share of wins", min(min(row["won"][:2]) for row in rows), "at least 0.15")
    return report


def _row(rule: Rule, offset: float, repetitions: int) -> dict[str, Any]:
    runs = [simulate(rule, offset, seed) for seed in range(repetitions)]
    equal = replace(rule, spread=0.0)
    equals = [simulate(equal, offset, seed, noise=0.0) for seed in range(repetitions if rule.evolution.enabled else 0)]
    games = sum((run.outcomes for run in runs), Counter[GameResult]())
    won = [games[side] / games.total() for side in ("student", "teacher", "draw")]
    # A repetition of a short run may have no newborn that was open to risk.
    cull = interval([run.culled / run.tried for run in equals if run.tried])
    # Without births the mean skill stays what it was.
    quality = interval([run.quality for run in runs]) if rule.evolution.enabled else None
    ages = [age for run in equals for age in run.ages]
    return {
        "case": f"{rule.size}T + {rule.size}S",
        "size": rule.size,
        "rule": rule.name,
        "offset": f"{offset:+.1f}",
        "cull": _text(cull, ""),
        "cull_mean": cull.mean if cull else 0.0,
        "blind": rule.evolution.gamma if rule.evolution.enabled else None,
        "quality": _text(quality, "+"),
        "quality_mean": quality.mean if quality else 0.0,
        "wins": "/".join(f"{share:.2f}" for share in won),
        "won": won,
        "contested": f"{fmean(run.contested for run in runs):.3f}",
        "uniform": f"{fmean(run.uniform for run in runs):.3f}",
        "births": fmean(len(run.ages) for run in runs),
        "age": fmean(ages) if ages else None,
    }


def _text(value: Interval | None, sign: str) -> str:
    if value is None:
        return "-"
    if value.low is None or value.high is None:
        return f"{value.mean:{sign}.2f}"
    return f"{value.mean:{sign}.2f} [{value.low:{sign}.2f}, {value.high:{sign}.2f}]"


def simulate(rule: Rule, offset: float, seed: int, *, noise: float = NOISE) -> Run:
    """Simulates one run. With `rule.spread` and `noise` 0 all members are and stay equally good."""
    simulation = _Simulation(rule, offset, seed, noise)
    for step in range(rule.steps):
        simulation.play(step)
        if rule.evolution.enabled and is_evolution_step(step + 1, rule.evolution):
            for role in ROLES:
                simulation.replace_weakest(role, step)
    return simulation.result()


class _Simulation:
    """A population whose members have a skill instead of weights."""

    def __init__(self, rule: Rule, offset: float, seed: int, noise: float) -> None:
        self.rule = rule
        self.offset = offset
        self.noise = noise
        self.seed = seed
        self.numbers = np.random.default_rng(streams.key(seed, "league"))
        self.trueskill = TrueSkill()
        self.population = Population()
        self.skill: dict[str, float] = {}
        self.outcomes: Counter[GameResult] = Counter()
        self.contested: list[float] = []
        self.uniform: list[float] = []
        self.tried: set[str] = set()
        self.culled = 0
        self.ages: list[int] = []
        for role in ROLES:
            names = [self.population.add_member(role, -1).name for _ in range(rule.size)]
            skills = self.numbers.normal(0.0, rule.spread, rule.size)
            # The mean at the start is exactly 0, so that the mean at the end is what selection gained.
            self.skill |= dict(zip(names, skills - skills.mean(), strict=True))

    def play(self, step: int) -> None:
        """Plays a step's matches and rates them."""
        league = self.rule.league
        matches = self._matches(step, league.matchmaking)
        rates = [self._solve_rates(match) for match in matches]
        self.population.add_matches(rates, league.par_matches)
        par = par_by(league.game, self.population.recent_matches)
        for match, solve_rates in zip(matches, rates, strict=True):
            # Without a valid task the student wins, as in `redqueen.method.evolution`.
            won = outcome(match_score(solve_rates, par), league.draw_band) if solve_rates else "student"
            self.population.rate_game(match.teacher, match.student, won, self.trueskill)
            self.outcomes[won] += 1
        self.contested += [self._expected_contested(match) for match in matches]
        self.uniform += [self._expected_contested(match) for match in self._matches(step, "uniform")]

    def replace_weakest(self, role: Role, step: int) -> None:
        """Replaces the weakest of a role, and notes which newborns were open to risk for the first time."""
        members = self.population.members_of(role)
        config = self.rule.evolution
        rng = streams.python(self.seed, step, "births", role)
        births = plan_births(members, config, lcb(self.rule.league.lcb), rng)
        victims = {birth.victim for birth in births}
        for member in members:
            if member.born >= 0 and member.games >= config.burn_in and member.name not in self.tried:
                self.tried.add(member.name)
                self.culled += member.name in victims
        for birth in births:
            self._replace(birth, role, step)

    def _replace(self, birth: Birth, role: Role, step: int) -> None:
        parents = [self.population.members[name] for name in birth.parents]
        rating = Rating() if self.rule.fresh else inherited([parent.rating for parent in parents])
        self.ages.append(step - self.population.members[birth.victim].born)
        self.population.remove_member(birth.victim)
        child = self.population.add_member(role, step, birth.parents, birth.operator, rating)
        mean = fmean(self.skill[name] for name in birth.parents)
        self.skill[child.name] = mean + self.noise * float(self.numbers.standard_normal())

    def result(self) -> Run:
        """Returns what the run has left."""
        return Run(
            quality=fmean(self.skill[name] for name in self.population.members),
            outcomes=self.outcomes,
            tried=len(self.tried),
            culled=self.culled,
            ages=tuple(self.ages),
            contested=fmean(self.contested),
            uniform=fmean(self.uniform),
        )

    def _matches(self, step: int, weighting: str) -> list[Match]:
        return matchmake(
            self.population.players("teacher"),
            self.population.players("student"),
            weighting=weighting,
            trueskill=self.trueskill,
            rng=streams.python(self.seed, step, "match", weighting),
            step=step + 1,
        )

    def _lead(self, match: Match) -> float:
        """Returns the student's lead on the logit, at a task of mean ease."""
        return self.skill[match.student] - self.skill[match.teacher] + self.offset

    def _solve_rates(self, match: Match) -> dict[Kind, list[float]]:
        """Plays a match. Returns the solve rates of its valid tasks."""
        logits = self._lead(match) + self.numbers.normal(0.0, EASE, self.rule.tasks)
        solved = self.numbers.binomial(ATTEMPTS, 1.0 / (1.0 + np.exp(-logits)))
        valid = self.numbers.random(self.rule.tasks) < VALID
        rates: dict[Kind, list[float]] = {}
        for i in range(self.rule.tasks):
            if valid[i]:
                rates.setdefault(BUILT_IN[i % len(BUILT_IN)], []).append(float(solved[i]) / ATTEMPTS)
        return rates

    def _expected_contested(self, match: Match) -> float:
        """Returns the probability that some attempts solve a task of this match and some do not."""
        chance = 1.0 / (1.0 + np.exp(-(self._lead(match) + EASE * _NODES)))
        alike = chance**ATTEMPTS + (1.0 - chance) ** ATTEMPTS
        return float(1.0 - _WEIGHTS @ alike)
