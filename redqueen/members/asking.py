"""Poses one task to a member of a run, or to the base, and has its answers judged."""

from __future__ import annotations

from collections.abc import Generator, Sequence
from concurrent.futures import Future
from contextlib import contextmanager
from dataclasses import dataclass, replace
from pathlib import Path

from redqueen.analysis.replay import MemberAtStep, Replay, find_member, load_step, open_replay
from redqueen.base import streams
from redqueen.base.futures import finished
from redqueen.config import Config, EvolutionSettings, GameConfig
from redqueen.engine.adapters import fresh, generator
from redqueen.errors import UserError
from redqueen.jail import CodecError, LiteralError, OversizeError
from redqueen.members.question import BASE, SEED, Question, QuestionError, read_question, seed_of, task_of_run
from redqueen.method.judging import ask, cut_off, submit_attempt, submit_proposal
from redqueen.method.planting import planted_by, verified_seeds
from redqueen.method.verifier import LocalVerifier
from redqueen.records import Completion, Draft, Kind, Pair, Proposal, Request, Task, Verdict
from redqueen.run.session import Listener, fit
from redqueen.store.allowed import Permissions, playable
from redqueen.store.directory import RunDirectory
from redqueen.tasks.kinds import find, names_of_languages

YOU = "you"
"""The author of a task that a person poses."""
_SEATED = "asked"
"""The name under which the member that is asked stands in the policy."""


@dataclass(frozen=True, slots=True, kw_only=True)
class AnsweredTask:
    """A task, who was asked, and what it answered."""

    found: MemberAtStep | None
    """None if it is the base without an adapter."""
    task: Task
    answers: Sequence[tuple[Completion, Verdict]]


def asked(
    run: Path,
    name: str,
    question: Sequence[str],
    step: int | None,
    attempts: int,
    allowed: Permissions,
    listener: Listener,
) -> AnsweredTask:
    """Asks the member `name`, as it was after `step` steps. One attempt is greedy; several are sampled as in the run.

    Raises UserError if the question cannot be asked, RunError if there is no such run or member.
    """
    if attempts < 1:
        raise UserError(f"{attempts} attempts: ask for at least one")
    directory = RunDirectory(run)
    config = playable(directory, allowed)
    found = found_member(directory, config.evolution_settings, name, step)
    with LocalVerifier(config.sandbox, config.game.min_inputs) as verifier:
        # The question is checked before the model is loaded, which takes longer.
        task = task_of(question, directory, config.game, config.run.seed, verifier)
        with open_table(directory, config, found, step, verifier, listener) as table:
            return AnsweredTask(found=found, task=task, answers=table.answers(task, attempts))


def found_member(
    directory: RunDirectory, settings: EvolutionSettings, name: str, step: int | None
) -> MemberAtStep | None:
    """Returns the member that is asked, None for the base. Raises RunError if there is none of this name."""
    return None if name == BASE else find_member(directory, settings, name, step)


class AskingTable:
    """A loaded base with one member of the run on it, which is posed tasks."""

    def __init__(self, replay: Replay, verifier: LocalVerifier) -> None:
        """`verifier` judges. Somebody must be seated before anything is asked."""
        self.replay = replay
        self.config = replay.config
        self.verifier = verifier
        self.found: MemberAtStep | None = None

    def seat(self, found: MemberAtStep | None) -> None:
        """Lets `found` answer from now on; None is the base."""
        if found is None:
            # The matrix b of a fresh adapter is zero: it leaves the base as it is.
            adapter = fresh(self.replay.policy.shapes(), self.config.model.rank, generator(0, BASE))
        else:
            adapter = dict(found.saved.adapters[found.member.name])
        if _SEATED in self.replay.policy.members:
            self.replay.policy.leave(_SEATED)
        self.replay.policy.join(_SEATED, adapter, trained=False)
        self.found = found

    def answers(self, task: Task, attempts: int) -> list[tuple[Completion, Verdict]]:
        """Returns what the member answers, with verdicts. One attempt is greedy."""
        sampling = self.config.sampling.params(self.config.sampling.attempt_tokens)
        if attempts == 1:
            sampling = replace(sampling, temperature=0)
        play = self.replay.self_play
        prompt = play.pose(task)
        requests = [
            Request(member=_SEATED, prompt=prompt, sampling=sampling, seed=(self.config.run.seed, "asked", number))
            for number in range(attempts)
        ]

        def submit(_: int, completion: Completion) -> Future[Verdict]:
            if task.author != YOU or not find(task.kind).runs_program:
                return submit_attempt(self.verifier, play.prompts, task, completion)
            # There may be no input that gives a person's output, so the program cannot be asked for it again.
            answer = play.prompts.read_attempt(task.kind, completion.text)
            judged = replace(find(task.kind).answer(task.program, task.pairs, answer), inputs=())
            verdict = cut_off(completion)
            return finished(verdict) if verdict else self.verifier.judge_answer(judged)

        return ask(play.sampler, requests, submit)

    def proposal(self, kind: Kind, number: int) -> tuple[str, Verdict, Task | None]:
        """Lets the member write a task of this kind. Returns its text, the verdict, and the task if it is valid.

        `number` is that of the proposal: another number gives other references and other random numbers.
        """
        play = self.replay.self_play
        game = self.config.game
        rng = streams.python(self.config.run.seed, "asked", kind, number)
        start = play.task_bank.program(kind, rng) if find(kind).starts_from_program else None
        references = play.task_bank.references(kind, game.references, rng, game.references_from)
        request = Request(
            member=_SEATED,
            prompt=play.prompts.propose(kind, references, start),
            sampling=self.config.sampling.params(self.config.sampling.proposal_tokens),
            seed=(self.config.run.seed, "asked", kind, number),
        )
        (completion,) = play.sampler.sample([request])
        judged = submit_proposal(
            self.verifier, play.prompts, completion, id=f"proposed-{number}", kind=kind, step=0, start=start
        )
        verdict, task = judged.result()
        return completion.text, verdict, task


@contextmanager
def open_table(
    directory: RunDirectory,
    config: Config,
    found: MemberAtStep | None,
    step: int | None,
    verifier: LocalVerifier,
    listener: Listener,
) -> Generator[AskingTable]:
    """Loads the base of a run and seats a member. Raises ModelError or CheckpointError if it cannot be loaded."""
    # One answer needs no worker processes.
    config = fit(config.with_values("model", workers=1), 1, listener)
    saved = found.saved if found else load_step(directory, step)
    with open_replay(config, saved, 1) as replay:
        table = AskingTable(replay, verifier)
        table.seat(found)
        yield table


def task_of(
    question: Sequence[str], directory: RunDirectory, game: GameConfig, seed: int, verifier: LocalVerifier
) -> Task:
    """Returns the task that is asked for by its id, or by a text. Raises UserError if there is none."""
    if len(question) == 1:
        word = question[0]
        task = _seed(word, game, seed, verifier) if word.startswith(SEED) else task_of_run(directory, word)
        if task is not None:
            return task
    # Questions look alike in several languages: the run's own are meant.
    return posed(read_question("\n".join(question), names_of_languages(game.kinds)), verifier)


def _seed(word: str, game: GameConfig, seed: int, verifier: LocalVerifier) -> Task | None:
    """Returns the run's seed task that `seed_of` reads. Raises UserError if there is none."""
    number, kind, draft = seed_of(word, game)
    (whole,) = verified_seeds(verifier, {number: draft}, kind.language, game.seeds)
    task = kind.of_program(whole, planted_by(seed, whole, kind.name))
    if task is None:
        raise UserError(f"no seed task '{word}': the program of seed-{number} makes no task of the kind {kind.name}")
    return task


def posed(question: Question, verifier: LocalVerifier) -> Task:
    """Returns the task of a question, whose program has run if its output is asked for. Raises QuestionError."""
    if not question.unanswered:
        spell = find(question.kind).language.spell
        try:
            pairs = tuple(Pair(pair.input, spell(pair.output)) for pair in question.pairs)
        except (CodecError, LiteralError, OversizeError) as error:
            raise QuestionError(f"an output must be a literal such as 3, 'a' or [1, 2]: {error}") from error
        return Task(
            id="question",
            kind=question.kind,
            author=YOU,
            step=0,
            program=question.program,
            pairs=pairs,
            message=question.message,
        )
    draft = Draft(question.program, (question.pairs[0].input,))
    # The program is of no kind here: a person may ask about one that no teacher may propose.
    name = find(question.kind).language.name
    proposal = Proposal(id="question", kind=name, author=YOU, step=0, draft=draft)
    verdict, task = verifier.judge_proposal(proposal).result()
    if task is None:
        raise QuestionError(f"the program gives no answer to judge by: {verdict.status}, {verdict.detail}")
    return replace(task, kind=question.kind)
