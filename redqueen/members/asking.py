"""Poses one task to a member of a run, or to the base, and has its answers judged."""

from __future__ import annotations

from collections.abc import Sequence
from concurrent.futures import Future
from dataclasses import dataclass, replace
from pathlib import Path

from redqueen.adapters.initialisation import fresh, generator
from redqueen.analysis.find_member import Found, find_member
from redqueen.analysis.replay import load_step, open_replay
from redqueen.config import Config, GameConfig
from redqueen.errors import UserError
from redqueen.futures import finished
from redqueen.game.questions import Question, QuestionError, read_question
from redqueen.judging import ask, cut_off, submit_attempt
from redqueen.kinds import find, names, names_of_languages
from redqueen.members.question import BASE, SEED
from redqueen.records import Completion, Draft, Pair, Proposal, Request, Task, Verdict
from redqueen.runs.allowed import Allowed, playable
from redqueen.runs.archive.reader import ArchiveReader
from redqueen.runs.checkpoint import Checkpoint
from redqueen.runs.directory import RunDirectory
from redqueen.sandbox import CodecError, LiteralError, OversizeError
from redqueen.self_play import verified_seeds
from redqueen.session import Listener, fit
from redqueen.verifier import LocalVerifier, answer_to

YOU = "you"
"""The author of a task that a person poses."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Asked:
    """A task, who was asked, and what it answered."""

    found: Found | None
    """None if it is the base without an adapter."""
    task: Task
    answers: Sequence[tuple[Completion, Verdict]]


def asked(
    run: Path,
    name: str,
    question: Sequence[str],
    step: int | None,
    attempts: int,
    allowed: Allowed,
    listener: Listener,
) -> Asked:
    """Asks the member `name`, as it was after `step` steps. One attempt is greedy; several are sampled as in the run.

    Raises UserError if the question cannot be asked, RunError if there is no such run or member.
    """
    directory = RunDirectory(run)
    config = playable(directory, allowed)
    found = None if name == BASE else find_member(directory, config, name, step)
    with LocalVerifier(config.sandbox, config.game.min_inputs) as verifier:
        # The question is checked before the model is loaded, which takes longer.
        task = _task(question, directory, config.game, verifier)
        # One answer needs no worker processes.
        config = config.model_copy(update={"model": config.model.model_copy(update={"workers": 1})})
        config = fit(config, 1, listener)
        saved = found.saved if found else load_step(directory, step)
        return Asked(found=found, task=task, answers=_answers(config, found, saved, task, attempts, verifier))


def _answers(
    config: Config, found: Found | None, saved: Checkpoint, task: Task, attempts: int, verifier: LocalVerifier
) -> list[tuple[Completion, Verdict]]:
    """Returns what the member answers, with verdicts."""
    sampling = config.sampling.params(config.sampling.attempt_tokens)
    if attempts == 1:
        sampling = replace(sampling, temperature=0)
    with open_replay(config, saved, 1) as replay:
        play = replay.self_play
        if found is None:
            # The matrix b of a fresh adapter is zero: it leaves the base as it is.
            adapter = fresh(replay.policy.shapes(), config.model.rank, generator(0, BASE))
        else:
            adapter = dict(saved.adapters[found.member.name])
        replay.policy.join("asked", adapter, trained=False)
        prompt = play.pose(task)
        requests = [
            Request(member="asked", prompt=prompt, sampling=sampling, seed=(config.run.seed, "asked", number))
            for number in range(attempts)
        ]

        def submit(_: int, completion: Completion) -> Future[Verdict]:
            if task.author != YOU or not find(task.kind).runs_program:
                return submit_attempt(verifier, play.prompts, task, completion)
            # Nobody has an input that gives a person's output, so the program cannot be asked for it again.
            answer = play.prompts.read_attempt(task.kind, completion.text)
            judged = replace(answer_to(task.kind, task.program, task.pairs, answer), inputs=())
            verdict = cut_off(completion)
            return finished(verdict) if verdict else verifier.submit(judged)

        return ask(play.sampler, requests, submit)


def _task(question: Sequence[str], directory: RunDirectory, game: GameConfig, verifier: LocalVerifier) -> Task:
    """Returns the task that is asked for by its id, or by a text. Raises UserError if there is none."""
    if len(question) == 1:
        word = question[0]
        known = _seed(word, game, verifier) if word.startswith(SEED) else _task_of_run(word, directory)
        if known is not None:
            return known
    # Questions look alike in several languages: the run's own are meant.
    return posed(read_question("\n".join(question), names_of_languages(game.kinds)), verifier)


def _task_of_run(word: str, directory: RunDirectory) -> Task | None:
    """Returns the task of the run that has this id, as `redqueen show` prints it; None if there is none."""
    with ArchiveReader(directory.archive) as archive:
        return next((row.task() for row in archive.tasks() if row.id == word), None)


def _seed(word: str, game: GameConfig, verifier: LocalVerifier) -> Task | None:
    """Returns the run's seed task `seed-12-KIND`; without a kind it is of the run's first. Raises UserError."""
    number, _, name = word.removeprefix(SEED).partition("-")
    kind = find(name if name in names() else game.kinds[0])
    drafts = kind.language.seeds(game.seeds)
    if not number.isdigit() or int(number) >= len(drafts) or name not in ("", *names()):
        last = names_of_languages([kind.name])[-1]
        raise UserError(f"no seed task '{word}': choose seed-0 to seed-{len(drafts) - 1}, or e.g. seed-1-{last}")
    (whole,) = verified_seeds(verifier, {int(number): drafts[int(number)]}, kind.language, game.seeds)
    task = kind.of_program(whole)
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
        return _as_task(question, pairs)
    draft = Draft(question.program, (question.pairs[0].input,))
    proposal = Proposal(id="question", kind=question.kind, author=YOU, step=0, draft=draft)
    verdict, task = verifier.submit_proposal(proposal).result()
    if task is None:
        raise QuestionError(f"the program gives no answer to judge by: {verdict.status}, {verdict.detail}")
    return task


def _as_task(question: Question, pairs: tuple[Pair, ...]) -> Task:
    return Task(
        id="question",
        kind=question.kind,
        author=YOU,
        step=0,
        program=question.program,
        pairs=pairs,
        message=question.message,
    )
