"""Writes a run that nobody played, of any size: its numbers are drawn, its texts are the seed programs.

It has what the live page reads: config.json, metrics.jsonl and the archive. There are no checkpoints.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, field
from itertools import chain
from pathlib import Path
from statistics import fmean
from typing import Any, cast

from redqueen.base import streams
from redqueen.config import Config
from redqueen.config.recipes import recipe
from redqueen.records import Kind, Role
from redqueen.store.archive.rows import (
    AttemptRow,
    MatchRow,
    MeasureRow,
    MemberRow,
    ProposalRow,
    ReplacementRow,
    Row,
    StandingRow,
    TaskRow,
)
from redqueen.store.archive.writer import Archive
from redqueen.store.directory import RunDirectory
from redqueen.store.metrics import StepMetrics
from redqueen.tasks.kinds import BUILT_IN
from redqueen.tasks.programs import parse
from redqueen.tasks.programs.complexity import Complexity, complexity_of
from redqueen.tasks.programs.coverage import paths_of
from redqueen.tasks.python import seeds

VALID = 0.9
"""The share of proposals that are valid."""
EVERY = 10
"""Steps from one birth of each role to the next."""
PROMPT_CHARACTERS = 450
"""About what a prompt with two references has."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Size:
    """How large the run is."""

    steps: int
    matches: int
    """Matches of a step, teachers, and students."""
    tasks: int
    """Valid tasks of a match."""
    attempts: int
    """Attempts at a task."""


@dataclass(slots=True)
class _Population:
    """Who lives, by role, with their ratings."""

    living: dict[Role, list[str]] = field(default_factory=dict[Role, list[str]])
    mu: dict[str, float] = field(default_factory=dict[str, float])
    born: dict[str, int] = field(default_factory=dict[str, int])
    games: Counter[str] = field(default_factory=Counter[str])
    births: Counter[Role] = field(default_factory=Counter[Role])


class SyntheticRun:
    """Draws a run step by step."""

    def __init__(self, folder: Path, size: Size, seed: int = 0) -> None:
        self.size = size
        self.directory = RunDirectory(folder)
        self.rng = streams.python(seed, 0, "synthetic")
        self.drafts = [draft for draft in seeds() if draft.inputs]
        self.prompt = ("\n\n".join(draft.program for draft in self.drafts[:20]))[:PROMPT_CHARACTERS]
        self.features: dict[str, tuple[Complexity, str]] = {}
        self.population = _Population()

    def write(self) -> None:
        """Writes the whole run."""
        self.directory.create(self._config(), {"isolation": "none: nothing was run"})
        with Archive(self.directory.archive) as archive:
            archive.write(self._first())
            for step in range(1, self.size.steps + 1):
                rows, line = self._step(step)
                archive.write(rows)
                self.directory.append_metrics(line)

    def _config(self) -> Config:
        sides = [f"population.teachers={self.size.matches}", f"population.students={self.size.matches}"]
        return recipe("population_4t4s").override([*sides, f"run.steps={self.size.steps}"])

    def _first(self) -> list[Row]:
        rows: list[Row] = []
        for role, letter in (("teacher", "T"), ("student", "S")):
            names = [f"{letter}{number}" for number in range(self.size.matches)]
            self.population.living[cast(Role, role)] = names
            rows += [MemberRow(name=name, role=role, step=0, parents=(), operator="init") for name in names]
        for name in (*self.population.living["teacher"], *self.population.living["student"]):
            self.population.mu[name] = 25.0
            self.population.born[name] = 0
        return rows

    def _step(self, step: int) -> tuple[list[Row], StepMetrics]:
        teachers = self.population.living["teacher"]
        students = self.rng.sample(self.population.living["student"], len(teachers))
        rows: list[Row] = []
        for number, (teacher, student) in enumerate(zip(teachers, students, strict=True)):
            match = self._match(f"{step}.{number}", step, teacher, student)
            rows.append(match)
            rows += self._proposals(match)
        standings = [self._standing(step, name) for name in self._living()]
        rows += standings
        births = self._births(step) if step % EVERY == 0 else []
        rows += births
        return rows, self._line(step, rows)

    def _match(self, name: str, step: int, teacher: str, student: str) -> MatchRow:
        outcome = self.rng.choice(("student", "draw", "teacher"))
        for member, side in ((teacher, "teacher"), (student, "student")):
            self.population.games[member] += 1
            self.population.mu[member] += self.rng.gauss(0.4 if outcome == side else -0.4, 0.2)
        return MatchRow(
            id=name,
            step=step,
            teacher=teacher,
            student=student,
            score=self.rng.uniform(-0.3, 0.3),
            outcome=outcome,
            teacher_mu=self.population.mu[teacher],
            teacher_sigma=3.0,
            student_mu=self.population.mu[student],
            student_sigma=3.0,
        )

    def _proposals(self, match: MatchRow) -> list[Row]:
        rows: list[Row] = []
        valid = 0
        number = 0
        while valid < self.size.tasks:
            kind = BUILT_IN[number % len(BUILT_IN)]
            name = f"{match.id}.{kind}.{number}"
            number += 1
            if self.rng.random() > VALID:
                rows.append(self._proposal(name, match, kind, self.rng.choice(self.drafts).program, None))
                continue
            valid += 1
            rows += self._played(name, match, kind)
        return rows

    def _played(self, name: str, match: MatchRow, kind: Kind) -> list[Row]:
        """Returns a valid proposal with its task and its attempts."""
        draft = self.rng.choice(self.drafts)
        count = self.size.attempts
        ease = self.rng.random()
        right = [self.rng.random() < ease for _ in range(count)]
        rho = fmean(right)
        pairs = tuple((given, "[1, 2, 3]") for given in draft.inputs)
        task = TaskRow(
            id=name,
            step=match.step,
            kind=kind,
            author=match.teacher,
            program=draft.program,
            pairs=pairs if kind == "code_f" else pairs[:1],
            message=draft.message if kind == "code_f" else "",
            rho=rho,
            novel=self.rng.random() < 0.5,
        )
        rows: list[Row] = [self._proposal(name, match, kind, draft.program, rho), task, self._measures(task)]
        for number, solved in enumerate(right):
            text = draft.program if kind == "code_f" else draft.inputs[0]
            rows.append(
                AttemptRow(
                    task=name,
                    number=number,
                    step=match.step,
                    student=match.student,
                    text=text,
                    tokens=len(text) // 3,
                    finish_reason="stop",
                    status="correct" if solved else "wrong",
                    output="[1, 2, 3]",
                    detail="",
                    cpu_ms=1.5,
                    reward=1.0 if solved else -0.5,
                )
            )
        return rows

    def _measures(self, task: TaskRow) -> MeasureRow:
        if task.program not in self.features:
            tree = parse(task.program)
            self.features[task.program] = (complexity_of(tree), " ".join(sorted(paths_of(tree))))
        size, paths = self.features[task.program]
        names = ("depth", "cyclomatic", "lines", "variables", "nodes", "node_types")
        numbers = {f"{which}_{name}": getattr(size, name) for which in ("written", "reached") for name in names}
        return MeasureRow(
            task=task.id,
            step=task.step,
            **numbers,
            input_size=3.0,
            output_size=3.0,
            signature="list[int] -> list[int]",
            shape=task.program,
            paths=paths,
            functions="sorted",
            identity=task.id,
            repeated=False,
            new_shape=task.novel,
            new_paths=1,
            typed_inputs=16,
            behaviour="0" * 24,
            distinct_outputs=9,
            same_output_rate=0.1,
            echo=False,
        )

    def _proposal(self, name: str, match: MatchRow, kind: Kind, text: str, rho: float | None) -> ProposalRow:
        status = "valid" if rho is not None else self.rng.choice(("malformed", "error", "timeout"))
        return ProposalRow(
            id=name,
            step=match.step,
            match=match.id,
            teacher=match.teacher,
            kind=kind,
            prompt=self.prompt,
            reference_ids=("seed-1-code_o", "seed-2-code_o"),
            text=text,
            tokens=len(text) // 3,
            finish_reason="stop",
            status=status,
            output="",
            detail="" if rho is not None else "line 2",
            cpu_ms=1.5,
            reward=-1.0 if rho is None else (1 - rho if rho else 0.0),
        )

    def _living(self) -> list[str]:
        """Returns the names of the living members."""
        return list(chain.from_iterable(self.population.living.values()))

    def _standing(self, step: int, name: str) -> StandingRow:
        mu = self.population.mu[name]
        return StandingRow(step=step, member=name, mu=mu, sigma=3.0, games=self.population.games[name], fitness=mu)

    def _births(self, step: int) -> list[Row]:
        """Replaces the weakest of each role by a child of the strongest two."""
        rows: list[Row] = []
        for role, names in self.population.living.items():
            ranked = sorted(names, key=lambda name: self.population.mu[name])
            victim = ranked[0]
            parents = (ranked[-1], ranked[-2])
            self.population.births[role] += 1
            child = f"{role[0].upper()}{self.size.matches - 1 + self.population.births[role]}"
            operator = self.rng.choice(("dare", "slot_swap", "svd_subspace", "extrapolate"))
            rows.append(
                ReplacementRow(
                    step=step,
                    victim=victim,
                    child=child,
                    parents=parents,
                    operator=operator,
                    victim_fitness=self.population.mu[victim],
                    victim_age=step - self.population.born[victim],
                    victim_games=self.population.games[victim],
                    tie=False,
                    parent_fitness=tuple(self.population.mu[name] for name in parents),
                    distance=None,
                    tries=1,
                )
            )
            rows.append(MemberRow(name=child, role=role, step=step, parents=parents, operator=operator))
            names[names.index(victim)] = child
            self.population.mu[child] = fmean(self.population.mu[name] for name in parents)
            self.population.born[child] = step
        return rows

    def _line(self, step: int, rows: Sequence[Row]) -> StepMetrics:
        """Returns the step's line of metrics.jsonl."""
        tasks = [row for row in rows if isinstance(row, TaskRow)]
        matches = [row for row in rows if isinstance(row, MatchRow)]
        proposals = Counter(row.status for row in rows if isinstance(row, ProposalRow))
        attempts = Counter(row.status for row in rows if isinstance(row, AttemptRow))
        rates = {kind: [task.rho for task in tasks if task.kind == kind and task.rho is not None] for kind in BUILT_IN}
        by_kind = {kind: fmean(values) for kind, values in rates.items() if values}
        shares = {kind: self.rng.random() for kind in BUILT_IN}
        line: dict[str, Any] = {
            "step": step,
            "time": "2026-01-31T12:00:00Z",
            "valid_rate": proposals["valid"] / proposals.total(),
            "valid_rate_by_kind": shares,
            "novel_rate": fmean(task.novel for task in tasks),
            "novel_rate_by_kind": shares,
            "lines_by_kind": dict.fromkeys(BUILT_IN, 3.0),
            "seed_references": 1.0,
            "solve_rate": attempts["correct"] / attempts.total(),
            "solve_rate_by_kind": by_kind,
            "tasks_by_kind": {kind: len(values) for kind, values in rates.items()},
            "contested_by_kind": {kind: sum(0 < rho < 1 for rho in values) for kind, values in rates.items()},
            "teacher_reward": self.rng.uniform(-1, 1),
            "student_reward": self.rng.uniform(-1, 1),
            "statuses": {"proposals": dict(proposals), "attempts": dict(attempts)},
            "truncated_rate": {"proposals": 0.0, "attempts": 0.0},
            "truncated_rate_by_kind": {},
            "dropped": 0,
            "tokens_sampled": 100_000,
            "tokens_trained": 90_000,
            "entropy": {role: dict.fromkeys(names, 0.5) for role, names in self.population.living.items()},
            "logprob_gap": 0.01,
            "skipped": {},
            "members": self._members(),
            "matches": [
                {"teacher": row.teacher, "student": row.student, "score": row.score, "outcome": row.outcome}
                for row in matches
            ],
            "outcomes": {side: sum(row.outcome == side for row in matches) for side in ("student", "draw", "teacher")},
            "par": by_kind,
            "replacements": [],
            "hall": [],
            "task_bank_size": 4096,
            "seconds": {"match": 0.1, "propose": 20.0, "solve": 30.0, "learn": 15.0, "evolve": 1.0, "total": 66.1},
        }
        living = self._living()
        for key in ("loss", "grad_norm", "adapter_norm"):
            line[key] = {name: self.rng.random() for name in living}
        return line

    def _members(self) -> dict[str, dict[str, object]]:
        return {
            name: {
                "role": role,
                "mu": self.population.mu[name],
                "sigma": 3.0,
                "fitness": self.population.mu[name],
                "record": [0, 0, 0],
                "born": self.population.born[name],
                "parents": [],
            }
            for role, names in self.population.living.items()
            for name in names
        }
