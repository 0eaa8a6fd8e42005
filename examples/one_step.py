"""One step of Red Queen in one file, to be read from top to bottom: no settings file, no recorder, no command line.

    python examples/one_step.py

Two teachers and two students live on one frozen language model, each as a LoRA adapter of its own. Teachers write small
Python programs, students predict what these return, and a sandbox is the only judge. A run
(`redqueen/run/trainer.py`) does this for all kinds of tasks, with a task bank, checkpoints and records.
"""

from __future__ import annotations

import random
from statistics import fmean

from redqueen.base.machine import set_library_defaults
from redqueen.config import Config, GameConfig, LearningConfig, ModelConfig, SamplingConfig
from redqueen.engine.adapters import generator, perturb, starting_adapter
from redqueen.engine.model.base import load
from redqueen.engine.policy import Policy, open_policy
from redqueen.method.advantages import advantages
from redqueen.method.games import match_score, outcome, par_of
from redqueen.method.judging import ask, judge_proposals, submit_attempt, submit_proposal
from redqueen.method.matchmaking import Match, matchmake
from redqueen.method.operators import MUTATIONS
from redqueen.method.prompts import CompletionPrompts
from redqueen.method.rating import Rating, TrueSkill, inherited
from redqueen.method.verifier import LocalVerifier
from redqueen.records import Draft, GradedRollout, MemberUpdate, Proposal, Request, Rollout, Task, Verdict, Verifier

# What is not named here has its default. The bundled model has 135 million parameters and runs on a CPU.
CONFIG = Config(
    model=ModelConfig(workers=1),
    game=GameConfig(kinds=("code_o",), proposals=2, attempts=4),
    sampling=SamplingConfig(proposal_tokens=80, attempt_tokens=16, temperature=0.8),
    learning=LearningConfig(lr=3e-4),
)
GAME = CONFIG.game
PROMPTS = CompletionPrompts(GAME)

# A teacher sees a few tasks before it writes its own. These are drafts: they become tasks when they have been run.
SEEDS = (
    Draft("def f(words):\n    return ' '.join(sorted(words))", ("['pear', 'fig', 'apple']",)),
    Draft("def f(numbers):\n    return [n * n for n in numbers if n % 2]", ("[3, 4, 7]",)),
    Draft("def f(text):\n    return text[::-1].upper()", ("'queen'",)),
)

Ratings = dict[str, Rating]
Judged = tuple[Rollout, Verdict]


def verified_seeds(verifier: Verifier) -> list[Task]:
    """Runs the seeds. A draft is a task if its program ends, repeats its output, and touches nothing else."""
    drafts = [
        Proposal(id=f"seed-{number}", kind="code_o", author="seed", step=0, draft=draft)
        for number, draft in enumerate(SEEDS)
    ]
    return [task for _, task in judge_proposals(verifier, drafts) if task is not None]


def propose(
    step: int, matches: list[Match], references: list[Task], policy: Policy, verifier: Verifier
) -> list[tuple[Match, Judged, Task | None]]:
    """Lets each match's teacher write proposals. The sandbox runs them while the next ones are being written."""
    prompt = PROMPTS.propose("code_o", references, None)
    sampling = CONFIG.sampling.params(CONFIG.sampling.proposal_tokens)
    asked = [(match, f"{match.id}.{number}") for match in matches for number in range(GAME.proposals)]
    requests = [
        Request(member=match.teacher, prompt=prompt, sampling=sampling, seed=("proposal", id)) for match, id in asked
    ]
    judged = ask(
        policy,
        requests,
        lambda index, text: submit_proposal(
            verifier, PROMPTS, text, id=asked[index][1], kind="code_o", step=step, start=None
        ),
    )
    proposals: list[tuple[Match, Judged, Task | None]] = []
    for (match, _), (completion, (verdict, task)) in zip(asked, judged, strict=True):
        # Proposals of one match are compared with each other: they are a group.
        group = f"proposals {match.id}"
        rollout = Rollout(member=match.teacher, role="teacher", kind="code_o", group=group, completion=completion)
        proposals.append((match, (rollout, verdict), task))
    return proposals


def solve(tasks: list[tuple[str, Task]], policy: Policy, verifier: Verifier) -> dict[str, list[Judged]]:
    """Lets students answer their tasks, each several times: right answers are compared with wrong ones.

    `tasks` are pairs (student, task). Returns the answers by task, without those that a fault of the machine lost.
    """
    sampling = CONFIG.sampling.params(CONFIG.sampling.attempt_tokens)
    asked = [(student, task, number) for student, task in tasks for number in range(GAME.attempts)]
    requests = [
        Request(member=student, prompt=PROMPTS.attempt(task, ()), sampling=sampling, seed=("attempt", task.id, number))
        for student, task, number in asked
    ]
    # An answer is read as a literal and compared. Nothing that a model wrote is evaluated in this process.
    judged = ask(policy, requests, lambda index, text: submit_attempt(verifier, PROMPTS, asked[index][1], text))
    answers: dict[str, list[Judged]] = {task.id: [] for _, task in tasks}
    for (student, task, _), (completion, verdict) in zip(asked, judged, strict=True):
        if verdict.status not in ("infra_error", "nondeterministic"):
            rollout = Rollout(member=student, role="student", kind="code_o", group=task.id, completion=completion)
            answers[task.id].append((rollout, verdict))
    return answers


def teacher_reward(task: Task | None, rho: float) -> float:
    """Pays 1 - rho, where rho is the solve rate: hard tasks pay more, but one that nobody solves pays nothing."""
    if task is None:
        return -1.0
    return 1.0 - rho if rho > 0 else 0.0


def student_reward(verdict: Verdict) -> float:
    """Pays 1 for a right answer, -0.5 for a wrong one, -1 for a text without an answer."""
    return {"correct": 1.0, "malformed": -1.0}.get(verdict.status, -0.5)


def play(step: int, ratings: Ratings, references: list[Task], policy: Policy, verifier: Verifier) -> list[MemberUpdate]:
    """Plays one step, changes the ratings and the members' weights, and returns what the update did."""
    # 1. Match. Each teacher meets a student; pairs whose game is open are the likelier ones.
    teachers = {name: rating for name, rating in ratings.items() if name.startswith("T")}
    students = {name: rating for name, rating in ratings.items() if name.startswith("S")}
    trueskill = TrueSkill()
    draw = random.Random(step)
    matches = matchmake(teachers, students, weighting="balanced", trueskill=trueskill, rng=draw, step=step)

    # 2. Propose, and 3. solve: each teacher's valid tasks go to its student.
    proposals = propose(step, matches, references, policy, verifier)
    answers = solve([(match.student, task) for match, _, task in proposals if task], policy, verifier)

    # A reward for each text. What a fault of the machine lost says nothing about a member, and is left out.
    graded: list[GradedRollout] = []
    solve_rates: dict[str, list[float]] = {match.id: [] for match in matches}
    for match, (rollout, verdict), task in proposals:
        attempts = answers[task.id] if task else []
        rho = fmean(judged.status == "correct" for _, judged in attempts) if attempts else 0.0
        if attempts:
            solve_rates[match.id].append(rho)
        if verdict.status != "infra_error" and (task is None or attempts):
            reward = teacher_reward(task, rho)
            graded.append(GradedRollout(rollout=rollout, reward=reward, verdict=verdict))
        for text, judged in attempts:
            graded.append(GradedRollout(rollout=text, reward=student_reward(judged), verdict=judged))
        print(f"{match.teacher} -> {match.student}: {verdict.status}, solved {rho:.0%} of the time")

    # 4. Learn. A text's advantage is, in short, its reward less its group's mean, in units of its role's deviation
    # (`method/advantages.py` has the exact rule): texts that did better than their neighbours become likelier, the
    # others less likely. One update moves all members at once, each by its own texts and its own optimizer.
    updates = policy.update(advantages(graded, CONFIG.advantage_settings))

    # 5. Rate. A match is won against the level of the step, so both sides can win whatever that level is.
    rates = {match.id: {"code_o": solve_rates[match.id]} for match in matches if solve_rates[match.id]}
    par = par_of(list(rates.values()))
    # A teacher whose proposals are all invalid has lost. If the machine lost what there was to play, there is no game.
    lost = {match.id for match, (_, verdict), task in proposals if task or verdict.status == "infra_error"} - {*rates}
    for match in [match for match in matches if match.id not in lost]:
        score = match_score(rates[match.id], par) if match.id in rates else 1.0
        result = outcome(score, band=0.03)
        pair = trueskill.rate(ratings[match.teacher], ratings[match.student], result)
        ratings[match.teacher], ratings[match.student] = pair
    return updates


def evolve(role: str, step: int, ratings: Ratings, policy: Policy) -> None:
    """Replaces the weakest of a role by a mutated copy of the strongest, under a new name."""
    ranked = sorted((name for name in ratings if name.startswith(role)), key=lambda name: -ratings[name].mu)
    strongest, weakest = ranked[0], ranked[-1]
    child = MUTATIONS["svd_spectral"]([policy.adapter(strongest)], generator(step, "mutation", weakest))
    policy.leave(weakest)
    policy.join(f"{role}{step + 1}", child)
    ratings[f"{role}{step + 1}"] = inherited([ratings[strongest]])
    del ratings[weakest]
    print(f"{role}{step + 1}, a child of {strongest}, replaces {weakest}")


def main() -> tuple[Ratings, list[MemberUpdate]]:
    """Plays one step with two teachers and two students, and replaces the weaker of each."""
    set_library_defaults()
    base = load(CONFIG.model)
    ratings = {name: Rating() for name in ("T0", "T1", "S0", "S1")}
    with (
        LocalVerifier(CONFIG.sandbox) as verifier,
        open_policy(base, CONFIG.engine_settings, len(ratings)) as policy,
    ):
        # All members start near one adapter, which knows the forms of texts. Noise tells them apart.
        start = starting_adapter("auto", CONFIG.model, GAME.kinds, 0, policy.shapes())
        for name in ratings:
            policy.join(name, perturb(start, CONFIG.population.perturbation, generator(0, name)))
        updates = play(1, ratings, verified_seeds(verifier), policy, verifier)
        for role in ("T", "S"):
            evolve(role, 1, ratings, policy)
    for name, rating in ratings.items():
        print(f"{name}: {rating.mu:.1f} ± {rating.sigma:.1f}")
    return ratings, updates


if __name__ == "__main__":
    main()
