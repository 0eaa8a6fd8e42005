"""The warm start: a short supervised fit of one adapter on verified tasks, so that members begin by playing.

Round 0 learns from the seed programs. Each further round lets the adapter propose, keeps the proposals that the
verifier accepts, and continues on the seeds and these. The verifier computed their outputs, so the labels are correct
by construction.
"""

from __future__ import annotations

import random
from collections import Counter
from collections.abc import Callable, Sequence
from concurrent.futures import Future
from dataclasses import replace
from itertools import chain
from typing import Any

from redqueen.base import streams
from redqueen.config import Config, EngineSettings
from redqueen.engine.adapters import Factors, starting_adapter
from redqueen.engine.model.base import Base
from redqueen.engine.model.source import encode
from redqueen.engine.policy import open_policy
from redqueen.method.behaviour import TracedWorkings
from redqueen.method.judging import ask, submit_proposal
from redqueen.method.planting import verified_seeds, verified_tasks
from redqueen.method.prompts import Prompts, WithLessons, prompts
from redqueen.method.seeds import is_reserved
from redqueen.records import Completion, Kind, Prompt, Request, Sample, Task, Verdict, Verifier
from redqueen.tasks.kinds import Workings, find, languages, names_of_languages, task_on

# Verified tasks as texts to imitate: what a teacher should write to propose a task, and a student to answer it.


class Lessons:
    """Makes samples of `member` from tasks, in the format of `prompts`."""

    def __init__(
        self,
        member: str,
        prompts: Prompts,
        tokenizer: Any,
        workings: Workings | None = None,
        most_tokens: int = 0,
    ) -> None:
        """With `workings` answers have work, if the format teaches it and it takes at most `most_tokens`."""
        self.member = member
        self.prompts = prompts
        self.tokenizer = tokenizer
        self.workings = workings
        self.most_tokens = most_tokens

    def proposal(self, task: Task, references: Sequence[Task], weight: float) -> Sample:
        """Returns the proposal of `task` by a teacher that sees `references`, with `weight` as its advantage."""
        start = task if find(task.kind).starts_from_program else None
        prompt = self.prompts.propose(task.kind, references, start)
        question = encode(self.tokenizer, prompt)
        answer = self._tokens(prompt, self.prompts.write_proposal(task))
        # A raw prompt is made of worked proposals, which are as good a lesson as the answer. So it is learnt as well,
        # from its second token on: one text teaches three programs.
        return self._sample(question, answer, len(question) if prompt.chat else 1, weight)

    def answers(self, tasks: Sequence[Task], weight: float, *, alone: bool = False) -> list[Sample]:
        """Returns the recorded answers to these tasks, each with `weight` as its advantage.

        `alone` leaves the questions out of what is learnt.
        """
        questions: list[tuple[int, ...]] = []
        answers: list[tuple[int, ...]] = []
        for task in tasks:
            prompt = self.prompts.attempt(task, ())
            questions.append(encode(self.tokenizer, prompt))
            answers.append(self._worked(task, prompt) or self._tokens(prompt, self.prompts.write_attempt(task)))
        # Questions about one program begin alike. What they share becomes the prompt, which is computed once for all of
        # them; the rest of each question is learnt with its answer.
        shared = common_prefix(questions) if questions else 0
        return [
            self._sample(question, answer, len(question) if alone else shared, weight)
            for question, answer in zip(questions, answers, strict=True)
        ]

    def _worked(self, task: Task, prompt: Prompt) -> tuple[int, ...] | None:
        """Returns an answer with its work as tokens after `prompt`.

        None if there is none, or if it is longer than an attempt may be: such a task is answered at once.
        """
        if self.workings is None or not isinstance(self.prompts, WithLessons):
            return None
        text = self.prompts.write_work(task, self.workings)
        if text is None:
            return None
        tokens = self._tokens(prompt, text)
        return tokens if len(tokens) <= self.most_tokens else None

    def _tokens(self, prompt: Prompt, text: str) -> tuple[int, ...]:
        """Returns `text` as tokens after `prompt`: without the prompt's prefix, and with the string that ends it."""
        # The stop string is part of the target, so the member learns to stop.
        target = text.removeprefix(prompt.prefix) + prompt.stop[0]
        return tuple(self.tokenizer(target, add_special_tokens=False).input_ids)

    def _sample(self, question: tuple[int, ...], answer: tuple[int, ...], given: int, weight: float) -> Sample:
        """Returns a sample that learns everything after the first `given` tokens."""
        tokens = (*question, *answer)
        return Sample(
            member=self.member,
            prompt_ids=tokens[:given],
            token_ids=tokens[given:],
            # No model sampled this text.
            logprobs=(),
            advantage=weight,
        )


def common_prefix(sequences: Sequence[tuple[int, ...]]) -> int:
    """Returns how many tokens all sequences begin with, at least 1: there is no sample without a prompt."""
    shortest, longest = min(sequences), max(sequences)
    length = 0
    # What the first and the last in lexicographic order share, all of those between share too.
    while length < len(shortest) and shortest[length] == longest[length]:
        length += 1
    return max(1, length)


MEMBER = "warm"
ANSWERS = 4
"""Questions about one program in a lesson."""
FUNCTIONS = 2
"""Functions that are written from a message and examples in a lesson: the kind that a small model finds hardest."""
PROPOSAL_WEIGHT = 3.0
ANSWER_WEIGHT = 2.0
FUNCTION_WEIGHT = 3.0
"""What a text of each sort counts. Its loss is the mean over its tokens: an answer has few, a proposal hundreds."""
MAX_PAIRS = 8
"""How many pairs of a task with examples one training text holds. More of them only lengthen the text."""
KEEP_EVERY = 10
"""Steps after which a fit is kept as it is, so that a fit of an hour that is lost can go on from there."""
Report = Callable[[str, int, int], None]


class Warmup:
    """Fits the member "warm". `config` gives model, prompts and game, but not the learning rate."""

    def __init__(
        self,
        base: Base,
        verifier: Verifier,
        config: Config,
        lr: float,
        report: Report,
        *,
        answers_alone: bool = False,
        more_answers: int = 0,
    ) -> None:
        """Opens a policy with one fresh adapter; `report(what, done, total)` is called as the work goes on.

        With `answers_alone` half of the questions about a program are not learnt with their answers. A lesson has
        `more_answers` beside: about other programs, drawn ones where the language draws some.
        """
        self.base = base
        self.verifier = verifier
        self.config = config
        self.lr = lr
        self.report = report
        self.answers_alone = answers_alone
        self.more_answers = more_answers
        self.seed = config.run.seed
        model = config.model
        # Every text counts by its weight. With a mean over tokens the proposals, which have hundreds of tokens, would
        # drown the answers, which have a few.
        learning = config.learning.model_copy(update={"loss": "sequence_mean", "lr": lr, "entropy_bonus": 0.0})
        # Supervised targets were not sampled at any temperature, so the distribution at temperature 1 is fitted.
        self.policy = open_policy(base, EngineSettings(model, config.sampling, learning), 1, temperature=1.0)
        init = config.population.init
        # The shipped warm start is what this makes: only a folder that is named goes on.
        start = starting_adapter(
            "fresh" if init == "auto" else init, model, config.game.kinds, self.seed, self.policy.shapes()
        )
        self.policy.join(MEMBER, start)
        self.prompts: Prompts = prompts(model.prompts, config.game)
        self.seed_tasks: list[Task] = []
        """The seed programs with all their inputs."""
        for language in languages(config.game.kinds):
            drafts = dict(enumerate(language.seeds(config.game.seeds)))
            tasks = verified_seeds(verifier, drafts, language, config.game.seeds)
            # A user's own seeds may be like a reserved program; the shipped ones are not.
            self.seed_tasks += [task for task in tasks if not is_reserved(task.program, task.kind)]
        self.workings = TracedWorkings(verifier, self.seed_tasks, self.seed)
        most_tokens = config.sampling.attempt_tokens
        self.lessons = Lessons(MEMBER, self.prompts, base.tokenizer, self.workings, most_tokens)
        self.seeds_by_kind: dict[Kind, list[Task]] = {}
        """Those that can be posed in a kind. All kinds of a language are taught, whichever are played later."""
        for kind in names_of_languages(config.game.kinds):
            # What the game would refuse is not taught.
            least = config.game.min_inputs
            suitable = [whole for whole in self.seed_tasks if task_on(whole, kind, least=least) is not None]
            if suitable:
                self.seeds_by_kind[kind] = suitable
        self.kinds = tuple(self.seeds_by_kind)
        self.new_tasks: dict[Kind, list[Task]] = {kind: [] for kind in self.kinds}
        """The valid tasks that the adapter proposed."""

    def fit(self, round_: int, steps: int, lessons: int, keep: Callable[[], None] = lambda: None) -> None:
        """Takes `steps` optimizer steps on `lessons` lessons each, and calls `keep` after every `KEEP_EVERY`.

        The learning rate rises during the first tenth of the steps, then falls to a tenth of its peak.
        """
        for step in range(steps):
            rise = (step + 1) / max(1, steps // 10)
            lr = self.lr * min(rise, 1 - 0.9 * (step / steps))
            rng = streams.python(self.seed, "warmup", round_, step)
            samples = list(chain.from_iterable(self._lesson(rng) for _ in range(lessons)))
            update = self.policy.update(samples, lr=lr)[0]
            self.report(f"round {round_}: loss {update.loss:.3f}", step + 1, steps)
            if (step + 1) % KEEP_EVERY == 0:
                keep()

    def explore(self, round_: int, count: int) -> dict[str, int]:
        """Samples `count` proposals of each kind and keeps the valid ones. Returns how many had each status."""
        statuses: Counter[str] = Counter()
        for number, kind in enumerate(self.kinds):
            fingerprint = find(kind).language.fingerprint
            known = {fingerprint(task.program) for task in [*self.seeds_by_kind[kind], *self.new_tasks[kind]]}
            for verdict, task in self._propose(kind, count, round_):
                statuses[verdict.status] += 1
                # A model that is measured on the reserved programs must not have learned from programs like them.
                if task is None or is_reserved(task.program, kind):
                    continue
                # A program that was shown is easily repeated and teaches nothing new. So only new programs count,
                # except where a proposal describes a program that exists already.
                program = fingerprint(task.program)
                if find(kind).starts_from_program or program not in known:
                    known.add(program)
                    self.new_tasks[kind].append(task)
            self.report(f"round {round_}: proposals {dict(statuses)}", number + 1, len(self.kinds))
        return dict(statuses)

    def adapter(self) -> dict[str, Factors]:
        return self.policy.adapter(MEMBER)

    def close(self) -> None:
        self.policy.close()

    def _propose(self, kind: Kind, count: int, round_: int) -> list[tuple[Verdict, Task | None]]:
        """Returns the verdicts on `count` proposals, with their tasks."""
        starts: list[Task | None] = []
        requests: list[Request] = []
        sampling = self.config.sampling.params(self.config.sampling.proposal_tokens)
        for number in range(count):
            rng = streams.python(self.seed, "explore", round_, kind, number)
            start = self._start(kind, rng) if find(kind).starts_from_program else None
            prompt = self.prompts.propose(kind, self._references(kind, rng), start)
            seed = (self.seed, "explore", round_, kind, number, "sample")
            starts.append(start)
            requests.append(Request(member=MEMBER, prompt=prompt, sampling=sampling, seed=seed))

        def submit(index: int, completion: Completion) -> Future[tuple[Verdict, Task | None]]:
            name = f"{round_}-{kind}-{index}"
            return submit_proposal(
                self.verifier, self.prompts, completion, id=name, kind=kind, step=round_, start=starts[index]
            )

        def progress(done: int, total: int) -> None:
            self.report(f"round {round_}: sampling {kind}", done, total)

        answers = ask(self.policy, requests, submit, progress)
        return [judged for _, judged in answers]

    def _start(self, kind: Kind, rng: random.Random) -> Task:
        """Returns a task whose program a proposal of `kind` starts from."""
        programs = list(self.seeds_by_kind[kind])
        for each in self.kinds:
            other = find(each)
            if not other.starts_from_program and other.language.name == find(kind).language.name:
                programs += self.new_tasks[each]
        return rng.choice(programs)

    def _references(self, kind: Kind, rng: random.Random) -> list[Task]:
        seeds = self.seeds_by_kind[kind]
        drawn = rng.sample(seeds, min(self.config.game.references, len(seeds)))
        return [varied(whole, kind, rng) for whole in drawn]

    def _task(self, kind: Kind, rng: random.Random) -> Task:
        """Returns a seed task or, half of the time, one that the adapter proposed."""
        # Half of the tasks are seeds in every round, so the adapter never learns from its own proposals alone.
        new_tasks = self.new_tasks[kind]
        if new_tasks and rng.random() < 0.5:
            task = rng.choice(new_tasks)
            return fewer_pairs(task, rng) if find(kind).shows_examples else task
        return varied(rng.choice(self.seeds_by_kind[kind]), kind, rng)

    def _lesson(self, rng: random.Random) -> list[Sample]:
        """Returns one proposal, `ANSWERS` answers about one seed program, and `FUNCTIONS` written functions."""
        kind = rng.choice(self.kinds)
        samples = [self.lessons.proposal(self._task(kind, rng), self._references(kind, rng), PROPOSAL_WEIGHT)]
        whole = rng.choice(self.seed_tasks)
        asked = self._questions(whole, rng)
        # A text counts as much as any, however long it is, so a long input leaves little for the answer behind it.
        # Inputs that are learnt teach what suits a program, as a proposal does: half of them stay.
        learnt = len(asked) // 2 if self.answers_alone else len(asked)
        samples += self.lessons.answers(asked[:learnt], ANSWER_WEIGHT)
        samples += self.lessons.answers(asked[learnt:], ANSWER_WEIGHT, alone=True)
        for _ in range(self.more_answers // ANSWERS):
            samples += self.lessons.answers(self._questions(self._program(rng), rng), ANSWER_WEIGHT, alone=True)
        for each in self.kinds:
            if find(each).shows_examples:
                for _ in range(FUNCTIONS):
                    samples += self.lessons.answers([self._task(each, rng)], FUNCTION_WEIGHT)
        return samples

    def _program(self, rng: random.Random) -> Task:
        """Returns a program with all its inputs: a drawn one if its language draws some, else a seed."""
        whole = rng.choice(self.seed_tasks)
        language = find(whole.kind).language
        draft = language.drawn(rng)
        if draft is None:
            return whole
        (task,) = verified_tasks(self.verifier, {"drawn": draft}, language)
        self.workings.know(task)
        return task

    def _questions(self, whole: Task, rng: random.Random) -> list[Task]:
        """Returns tasks on up to `ANSWERS` pairs of one seed program, in the kinds that have one pair, in turn."""
        kinds = [kind for kind in self.kinds if not find(kind).shows_examples and task_on(whole, kind)]
        if not kinds:
            return []
        asked: list[Task] = []
        for number, pair in enumerate(rng.sample(whole.pairs, min(ANSWERS, len(whole.pairs)))):
            task = task_on(replace(whole, pairs=(pair,)), kinds[number % len(kinds)])
            asked += [] if task is None else [task]
        return asked


def varied(whole: Task, kind: Kind, rng: random.Random) -> Task:
    """Returns a task of `kind` made of a program with several pairs. Raises ValueError if it makes none of it.

    A kind that shows examples keeps up to `MAX_PAIRS` of them in a new order, another one keeps one.
    """
    wanted = find(kind)
    made = wanted.of_program(fewer_pairs(whole, rng) if wanted.shows_examples else whole, rng)
    if made is None:
        raise ValueError(f"the program of {whole.id} makes no task of the kind {kind}")
    return made


def fewer_pairs(task: Task, rng: random.Random) -> Task:
    """Returns a task with up to `MAX_PAIRS` of its pairs, in a new order."""
    return replace(task, pairs=tuple(rng.sample(task.pairs, min(len(task.pairs), MAX_PAIRS))))
