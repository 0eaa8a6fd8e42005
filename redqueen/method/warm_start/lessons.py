"""Verified tasks as texts to imitate: what a teacher should write to propose a task, and a student to answer it."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from redqueen.engine.model.tokens import encode
from redqueen.method.prompts import Prompts, WithLessons
from redqueen.records import Prompt, Sample, Task
from redqueen.tasks.kinds import Workings, find


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
