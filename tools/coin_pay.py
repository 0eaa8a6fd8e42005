"""What a tossed coin earns a teacher, beside an honest task at the same solve rate: the numbers of docs/SECURITY.md.

    python -m tools.coin_pay [--trials 4000]

A coin is a task whose program gives each answer its verdict by chance. Everything else is the game's own code: the
second judgements (`redqueen.method.retrial`), the withdrawal and the rewards. What is assumed:

- The coin is perfect: each judgement is `correct` with the chance that the teacher asked for, and independent.
- The student writes one common answer with the chance `alike`, and else an answer that no other attempt has. With 1/3,
  57 % of the tasks with 6 attempts have two equal answers, as 94 of 166 code_i tasks of three runs had.
- The honest task has the same solve rate, and its verdicts stay what they are. Both have a new idea.
"""

from __future__ import annotations

import argparse
import random
from collections.abc import Sequence
from concurrent.futures import Future
from dataclasses import dataclass
from statistics import fmean

from redqueen.base.futures import finished
from redqueen.config import GameConfig
from redqueen.method.judging import attempt_rollout, faults_of, withdraw
from redqueen.method.prompts import CompletionPrompts
from redqueen.method.retrial import settle
from redqueen.method.rewards import TEACHER_REWARDS, solve_rate, teacher_reward
from redqueen.records import Answer, Attempted, Completion, Pair, Proposal, Proposed, Rollout, Task, Verdict

RATES = (0.1, 0.25, 0.5, 0.75, 0.9)
ATTEMPTS = (6, 8, 16)
"""Of the recipes."""
ALIKE = (0.0, 1 / 3, 1.0)
COMMON = "0"
PROMPTS = CompletionPrompts(GameConfig())


@dataclass(frozen=True, slots=True, kw_only=True)
class Row:
    """The mean pay of a task, e.g. of `populora` with 6 attempts at a solve rate of 0.5."""

    reward: str
    attempts: int
    rate: float
    honest: float
    coins: tuple[float, ...]
    """One for each of `ALIKE`."""
    found: tuple[float, ...]
    """Which share of the coins that made a contested task was withdrawn; one for each of `ALIKE`."""


class Toss:
    """A verifier of a coin: what it says is chance."""

    tier = "none"

    def __init__(self, rate: float, rng: random.Random) -> None:
        self.rate = rate
        self.rng = rng

    def judge_answer(self, answer: Answer) -> Future[Verdict]:
        del answer
        return finished(Verdict("correct" if self.rng.random() < self.rate else "wrong"))

    def judge_proposal(self, proposal: Proposal) -> Future[tuple[Verdict, Task | None]]:
        raise NotImplementedError(f"{proposal.id}: the task is there already")

    def run(
        self, program: str, inputs: tuple[str, ...], cpu_s: float, output_bytes: int = 0
    ) -> Future[tuple[str, ...]]:
        raise NotImplementedError(f"nothing is run: {program}, {inputs}, {cpu_s}, {output_bytes}")


def rows(trials: int, attempts: Sequence[int] = ATTEMPTS) -> list[Row]:
    """Returns the table; all rewards are of the same games."""
    table: list[Row] = []
    for count in attempts:
        for rate in RATES:
            by_alike = [games(rate, count, alike, trials) for alike in ALIKE]
            table += [_row(reward, count, rate, by_alike) for reward in TEACHER_REWARDS]
    return table


def games(rate: float, attempts: int, alike: float, trials: int) -> list[tuple[Proposed, list[Attempted], bool]]:
    """Returns a coin's proposal and its attempts, many times, and whether it was found and withdrawn."""
    rng = random.Random(f"{rate} {attempts} {alike}")
    verifier = Toss(rate, rng)
    played: list[tuple[Proposed, list[Attempted], bool]] = []
    for number in range(trials):
        proposed, attempted = _game(verifier, f"{number}", attempts, alike)
        asked = settle(verifier, PROMPTS, attempted, 0)
        played.append((proposed, attempted, bool(faults_of(asked))))
    return played


def _game(verifier: Toss, name: str, attempts: int, alike: float) -> tuple[Proposed, list[Attempted]]:
    task = Task(id=name, kind="code_i", author="T0", step=1, program="a coin", pairs=(Pair("1", "1"),))
    attempted: list[Attempted] = []
    for number in range(attempts):
        text = COMMON if verifier.rng.random() < alike else str(number + 1)
        verdict = verifier.judge_answer(Answer(kind="code_i", program="", inputs=(), expected=(), text=text)).result()
        rollout = attempt_rollout("S0", task, _completion("S0", f"{text})"))
        attempted.append(Attempted(task=task, number=number, rollout=rollout, verdict=verdict))
    rollout = Rollout(member="T0", role="teacher", kind="code_i", group="g", completion=_completion("T0", ""))
    proposed = Proposed(
        id=name, match="m", student="S0", prompt="", references=(), rollout=rollout, verdict=Verdict("valid"), task=task
    )
    return proposed, attempted


def _completion(member: str, text: str) -> Completion:
    return Completion(
        member=member, version=1, prompt_ids=(), token_ids=(), logprobs=(), text=text, finish_reason="stop"
    )


def _row(
    reward: str, attempts: int, rate: float, by_alike: Sequence[Sequence[tuple[Proposed, list[Attempted], bool]]]
) -> Row:
    pay = GameConfig(teacher_reward=reward)
    honest: list[float] = []
    coins: list[float] = []
    found: list[float] = []
    for played in by_alike:
        paid: list[float] = []
        caught: list[bool] = []
        for proposed, attempted, fault in played:
            rho = solve_rate([attempt.verdict for attempt in attempted])
            kept = teacher_reward(proposed, rho, True, pay)
            broken, _ = withdraw(proposed, attempted, "a coin")
            lost = teacher_reward(broken, None, False, pay)
            if rho is None or kept is None or lost is None:
                raise ValueError("every attempt is judged, so every task is paid")
            honest.append(kept)
            paid.append(lost if fault else kept)
            if 0 < rho < 1:
                caught.append(fault)
        coins.append(fmean(paid))
        found.append(fmean(caught))
    return Row(
        reward=reward, attempts=attempts, rate=rate, honest=fmean(honest), coins=tuple(coins), found=tuple(found)
    )


def main() -> None:
    """Prints the table."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--trials", type=int, default=4000, help="games for each number")
    alike = [f"coin, {share:.0%} alike" for share in ALIKE]
    print("| " + " | ".join(["reward", "attempts", "solve rate", "honest", *alike, "found"]) + " |")
    print("|" + "---|" * (5 + len(ALIKE)))
    for row in rows(parser.parse_args().trials):
        coins = " | ".join(f"{coin:+.2f}" for coin in row.coins)
        found = ", ".join(f"{share:.0%}" for share in row.found)
        print(f"| {row.reward} | {row.attempts} | {row.rate:.0%} | {row.honest:+.2f} | {coins} | {found} |")


if __name__ == "__main__":
    main()
