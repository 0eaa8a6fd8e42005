"""A task whose verdicts are a matter of chance is withdrawn; what is wrong by itself stays wrong."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Sequence
from concurrent.futures import Future
from dataclasses import replace
from pathlib import Path

import pytest

from redqueen.base.futures import finished
from redqueen.config import GameConfig
from redqueen.method.judging import attempt_rollout, faults_of
from redqueen.method.matchmaking import Match
from redqueen.method.played_step import ScoredProposal, score_step
from redqueen.method.prompts import prompts
from redqueen.method.retrial import MOST_LOST, settle
from redqueen.method.task_bank import TaskBank
from redqueen.method.verifier import LocalVerifier
from redqueen.records import Answer, Attempted, Completion, Pair, Proposal, Proposed, Rollout, Status, Task, Verdict
from redqueen.store.archive.reader import ArchiveReader
from redqueen.store.archive.rows import ProposalRow, TaskRow
from redqueen.tasks.kinds import find
from tests import toy
from tests.grading import grade

Said = Sequence[tuple[str, Status]]
"""Answers and the verdicts on them."""

PAY = GameConfig()
PROMPTS = prompts("completion", PAY)
PLAIN = Task(
    id="1.0.code_i.0", kind="code_i", author="T0", step=1, program="def f(x):\n    return 42", pairs=(Pair("41", "42"),)
)


class Scripted:
    """A verifier that gives each answer's verdicts in turn, and keeps what it was asked."""

    tier = "full"

    def __init__(self, again: Sequence[Status]) -> None:
        self.again = list(again)
        self.asked: list[Answer] = []

    def judge_answer(self, answer: Answer) -> Future[Verdict]:
        self.asked.append(answer)
        return finished(Verdict(self.again.pop(0)))

    def judge_proposal(self, proposal: Proposal) -> Future[tuple[Verdict, Task | None]]:
        raise AssertionError(f"nothing is proposed: {proposal}")

    def run(
        self, program: str, inputs: tuple[str, ...], cpu_s: float, output_bytes: int = 0
    ) -> Future[tuple[str, ...]]:
        raise AssertionError(f"nothing is run: {program}, {inputs}, {cpu_s}, {output_bytes}")


def completion(text: str) -> Completion:
    return Completion(member="S0", version=1, prompt_ids=(), token_ids=(), logprobs=(), text=text, finish_reason="stop")


def attempts_at(task: Task, said: Said) -> list[Attempted]:
    """Attempts with these answers and verdicts."""
    language = find(task.kind).language
    return [
        Attempted(
            task=task,
            number=number,
            rollout=attempt_rollout("S0", task, completion(language.write_input(answer))),
            verdict=Verdict(status),
        )
        for number, (answer, status) in enumerate(said)
    ]


def settling(said: Said, again: Sequence[Status] = (), task: Task = PLAIN, seed: int = 0):
    """What becomes of attempts, and what was asked again; each second verdict that is given has to be used."""
    verifier = Scripted(again)
    result = settle(verifier, PROMPTS, attempts_at(task, said), seed)
    assert verifier.again == []
    return result, verifier.asked


def scored(attempted: Sequence[Attempted], bank: TaskBank) -> ScoredProposal:
    """The task of some attempts, as the step pays it."""
    task = attempted[0].task
    rollout = Rollout(member="T0", role="teacher", kind=task.kind, group="g", completion=completion(task.program))
    proposed = Proposed(
        id=task.id, match="1.0", student="S0", prompt="", references=(), rollout=rollout, verdict=Verdict("valid"),
        task=task,
    )  # fmt: skip
    match = Match(id="1.0", teacher="T0", student="S0")
    return score_step(1, [match], [proposed], attempted, bank, PAY).proposals[0]


SAME: Said = [("7", "correct"), ("8", "wrong"), ("7", "wrong")]


EQUAL = [
    ("code_i", "7", "42"),
    ("code_i", "{'a': 1}", "42"),
    ("expr_i", "7, 1", "42"),
    ("sql_i", "{'t': [('a',), (7,)]}", "[(7,)]"),
]


@pytest.mark.parametrize(("kind", "given", "output"), EQUAL)
def test_equal_answers_with_two_verdicts_withdraw_the_task(kind: str, given: str, output: str) -> None:
    task = replace(PLAIN, kind=kind, pairs=(Pair(given, output),))
    attempted, asked = settling([(given, "correct"), (given, "correct"), (given, "timeout")], task=task)
    assert asked == []
    assert faults_of(attempted) == {task.id: "equal answers were judged correct and timeout"}


def test_a_coin_costs_its_teacher_what_an_invalid_proposal_does() -> None:
    bank = TaskBank(10)
    coin = scored(settling(SAME)[0], bank)
    assert (coin.reward, coin.solve_rate, coin.proposed.task, len(bank)) == (PAY.teacher_invalid, None, None, 0)
    assert coin.reward == -1.0
    assert coin.proposed.verdict.detail == "while it was played: equal answers were judged correct and wrong"
    assert [attempt.reward for attempt in coin.attempts] == [None] * 3
    assert {attempt.attempted.verdict.status for attempt in coin.attempts} == {"nondeterministic"}


@pytest.mark.parametrize(
    "said",
    [
        [("7", "correct"), ("7", "infra_error"), ("8", "correct")],
        [("x y", "malformed"), ("7", "correct"), ("x y", "malformed")],
        [("{1: 2, 3: 4}", "correct"), ("7", "correct")],
        [("-1", "timeout"), ("-2", "timeout"), ("-3", "wrong")],
    ],
    ids=["lost", "malformed", "solved by all", "solved by none"],
)
def test_a_task_that_is_not_contested_is_not_asked_again(said: Said) -> None:
    lost: list[Status] = ["infra_error" for _, status in said if status == "infra_error"]
    attempted, _ = settling(said, lost)
    assert attempted == attempts_at(PLAIN, said)


def test_the_spelling_of_an_answer_does_not_matter_and_its_order_does() -> None:
    spelled, _ = settling([("[1,2]", "correct"), ("[ 1, 2]", "wrong")])
    assert set(faults_of(spelled)) == {PLAIN.id}
    ordered, asked = settling([("{1: 1, 2: 2}", "correct"), ("{2: 2, 1: 1}", "wrong")], ["correct"])
    assert faults_of(ordered) == {}
    assert len(asked) == 1


def test_a_kind_that_does_not_run_the_tasks_program_is_not_asked_again() -> None:
    said: Said = [("7", "correct"), ("8", "wrong")]
    attempted, asked = settling(said, task=replace(PLAIN, kind="code_f"))
    assert (attempted, asked) == (attempts_at(replace(PLAIN, kind="code_f"), said), [])


FEW_SOLVE: Said = [("1", "correct"), ("2", "wrong"), ("3", "error"), ("4", "correct"), ("5", "wrong")]
FEW_MISS: Said = [("1", "correct"), ("2", "wrong"), ("3", "correct"), ("4", "correct")]


@pytest.mark.parametrize(("said", "rarer"), [(FEW_SOLVE, {"1", "4"}), (FEW_MISS, {"2"})], ids=["solved", "missed"])
def test_one_attempt_of_the_rarer_verdict_is_judged_again_and_the_seed_draws_it(said: Said, rarer: set[str]) -> None:
    drawn: dict[int, str] = {}
    for seed in range(30):
        first = dict(said)[next(iter(rarer))]
        attempted, (asked,) = settling(said, [first], seed=seed)
        assert attempted == attempts_at(PLAIN, said)
        assert (asked.patient, asked.inputs) == (True, ("41",))
        drawn[seed] = asked.text or ""
    assert set(drawn.values()) == rarer
    again = {seed: settling(said, [dict(said)[text]], seed=seed)[1][0].text for seed, text in drawn.items()}
    assert again == drawn


@pytest.mark.parametrize(
    ("second", "fault"),
    [
        ("wrong", "with twice the CPU limit the answer is now wrong and not correct"),
        ("timeout", "with twice the CPU limit the answer is now timeout and not correct"),
        ("infra_error", None),
        ("correct", None),
    ],
)
def test_another_verdict_withdraws_the_task_and_a_fault_of_the_machine_does_not(
    second: Status, fault: str | None
) -> None:
    said: Said = [("1", "correct"), ("2", "wrong"), ("3", "wrong")]
    attempted, _ = settling(said, [second])
    assert faults_of(attempted).get(PLAIN.id) == fault


LATE: Said = [("1", "correct"), ("2", "correct"), ("3", "timeout"), ("4", "timeout"), ("3", "timeout")]


def test_each_input_that_met_the_cpu_limit_is_run_once_more_with_twice_the_limit() -> None:
    attempted, asked = settling([*LATE, ("5", "correct"), ("6", "correct")], ["timeout", "timeout"])
    assert [(answer.text, answer.patient) for answer in asked] == [("3", True), ("4", True)]
    # An endless loop is a miss, as before.
    assert [attempt.verdict.status for attempt in attempted].count("timeout") == 3


@pytest.mark.parametrize("ends", ["correct", "wrong", "memory"])
def test_what_ends_within_twice_the_limit_is_the_programs_fault_and_no_miss(ends: Status) -> None:
    # Two are solved, and three are not: so one of those that are solved is judged again as well.
    attempted, _ = settling(LATE, ["correct", "timeout", ends])
    assert faults_of(attempted) == {PLAIN.id: f"with twice the CPU limit the answer is now {ends} and not timeout"}


def test_a_task_that_is_withdrawn_anyway_is_not_asked_again() -> None:
    attempted, asked = settling([("1", "correct"), ("2", "wrong"), ("3", "nondeterministic")])
    assert (len(attempted), asked) == (3, [])


def test_what_the_machine_lost_is_judged_again_alone() -> None:
    class Serial(Scripted):
        """Gives a verdict only when it is waited for; nothing may be asked before that."""

        def judge_answer(self, answer: Answer) -> Future[Verdict]:
            assert all(future.taken for future in pending)
            pending.append(Taken(super().judge_answer(answer).result()))
            return pending[-1]

    class Taken(Future[Verdict]):
        def __init__(self, verdict: Verdict) -> None:
            super().__init__()
            self.taken = False
            self.set_result(verdict)

        def result(self, timeout: float | None = None) -> Verdict:
            self.taken = True
            return super().result(timeout)

    pending: list[Taken] = []
    said: Said = [
        ("1", "infra_error"),
        ("2", "correct"),
        ("3", "infra_error"),
        ("4", "infra_error"),
    ]
    verifier = Serial(["correct", "infra_error", "correct"])
    attempted = settle(verifier, PROMPTS, attempts_at(PLAIN, said), 0)
    assert [attempt.verdict.status for attempt in attempted] == ["correct", "correct", "infra_error", "correct"]
    assert [(answer.text, answer.patient) for answer in verifier.asked] == [("1", False), ("3", False), ("4", False)]


def test_a_machine_that_loses_everything_is_not_asked_for_ever() -> None:
    said: Said = [(str(number), "infra_error") for number in range(20)]
    lost: list[Status] = ["infra_error"] * MOST_LOST
    attempted, asked = settling(said, lost)
    assert len(asked) == MOST_LOST
    assert attempted == attempts_at(PLAIN, said)


def judged(verifier: LocalVerifier, task: Task, answers: Sequence[str]) -> list[Attempted]:
    """Attempts with these answers, which the jail judges."""
    verdicts = grade(verifier, [(task, answer) for answer in answers])
    attempted = attempts_at(task, [(answer, "wrong") for answer in answers])
    return [replace(attempt, verdict=verdict) for attempt, verdict in zip(attempted, verdicts, strict=True)]


def test_honest_attempts_stay_as_they_are_in_the_jail(verifier: LocalVerifier) -> None:
    program = "def f(x):\n    while x < 0:\n        pass\n    return 42 if x % 2 else 100 // (x - 8)"
    task = replace(PLAIN, program=program)
    attempted = judged(verifier, task, ["41", "2", "8", "7", "-1", "-1", "9", "[1]"])
    assert [attempt.verdict.status for attempt in attempted] == [
        "correct", "wrong", "error", "correct", "timeout", "timeout", "correct", "error"
    ]  # fmt: skip
    assert settle(verifier, PROMPTS, attempted, 0) == attempted


# Native code sees interrupts without a clock. An AMD processor forgets the address of the last x87 instruction when the
# kernel switches; a null segment selector loses its other bits at each return from the kernel, and some builds of the
# C library hold the bytes that set one and read it. Elsewhere these are no coins.
_COIN = """
import functools
ctypes = functools.__builtins__["__import__"]("ctypes")
libm = ctypes.CDLL("libm.so.6")
{look}
def f(x):
    return 42 if x == 41 or count() % 1000 < 500 else 0
"""
X87 = """
libm.expl.restype, libm.expl.argtypes = ctypes.c_longdouble, [ctypes.c_longdouble]
state = ctypes.create_string_buffer(64)
def count():
    libm.expl(1.5)
    for number in range(40_000):
        libm.fegetenv(state)
        if not any(state.raw[12:20]):
            return number
    return 0
"""
SEGMENT = """
base = ctypes.cast(libm.cbrt, ctypes.c_void_p).value & ~4095
while ctypes.string_at(base, 4) != b"\\x7fELF":
    base -= 4096
code = ctypes.string_at(base, 1 << 19)
places = [code.find(bytes.fromhex(each)) for each in ("8e0600dec3", "8c0600f20f1004f8c3")]
call = ctypes.CFUNCTYPE(ctypes.c_long, ctypes.c_void_p, ctypes.c_void_p)
put, get = [call(base + place) for place in places]
one, seen = ctypes.create_string_buffer(b"\\x01", 64), ctypes.create_string_buffer(64)
def count():
    if min(places) < 0:
        return 0
    put(0, ctypes.addressof(one))
    for number in range(200_000):
        get(ctypes.addressof(one) // 8, ctypes.addressof(seen))
        if seen.raw[0] != 1:
            return number
    return 0
"""


@pytest.mark.parametrize("look", [X87, SEGMENT], ids=["x87", "segment"])
def test_a_program_that_counts_interrupts_has_one_verdict_or_is_no_task(verifier: LocalVerifier, look: str) -> None:
    task = replace(PLAIN, program=_COIN.format(look=look))
    attempted = settle(verifier, PROMPTS, judged(verifier, task, ["7"] * 12), 0)
    statuses = {attempt.verdict.status for attempt in attempted}
    assert len(statuses) == 1 or set(faults_of(attempted)) == {PLAIN.id}


class Coin(LocalVerifier):
    """The real verifier, but that every second verdict on an answer to a code_i task is another one."""

    def __init__(self, verifier: LocalVerifier) -> None:
        self.real = verifier
        self.tosses: dict[str, int] = defaultdict(int)

    def judge_answer(self, answer: Answer) -> Future[Verdict]:
        verdict = self.real.judge_answer(answer).result()
        self.tosses[answer.text or ""] += 1
        tails = self.tosses[answer.text or ""] % 2 == 0
        return finished(replace(verdict, status="wrong" if tails else "correct"))

    def judge_proposal(self, proposal: Proposal) -> Future[tuple[Verdict, Task | None]]:
        return self.real.judge_proposal(proposal)

    def run(
        self, program: str, inputs: tuple[str, ...], cpu_s: float, output_bytes: int = 0
    ) -> Future[tuple[str, ...]]:
        del output_bytes
        return self.real.run(program, inputs, cpu_s)


@pytest.mark.slow
@pytest.mark.parametrize("ahead", [0, 1])
def test_coins_of_a_run_are_recorded_as_withdrawn_also_where_it_samples_ahead(
    tmp_path: Path, verifier: LocalVerifier, ahead: int
) -> None:
    changes = {"game.kinds": "code_i", "learning.max_staleness": ahead, "learning.lr": 1e-4, "run.steps": 2}
    run = toy.played(tmp_path, Coin(verifier), **changes)
    with ArchiveReader(run.archive) as archive:
        coins = [row for row in archive.every(ProposalRow) if row.status == "nondeterministic"]
        assert {row.step for row in coins} == {1, 2}
        assert {row.reward for row in coins} == {-1.0}
        # Four attempts have three answers to choose from.
        assert not archive.every(TaskRow)
