"""Rewards and an environment for TRL's GRPOTrainer (1.16). Nothing here imports TRL.

A reward function is called with all completions of a batch and with the columns of their rows, and returns a number or
None for each: TRL leaves a completion out of a function's rewards where it is None.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from typing import Any, cast

from redqueen.extras.rewards.judges import attempt_verdicts, pay_attempts, pay_programs, program_outcomes
from redqueen.jail import JUDGED, Outcome
from redqueen.jail.judging import printed, script_job, shared_sandbox
from redqueen.records import Verdict
from redqueen.store.dataset.files import task_of

SHOWN = 4_000
"""The most signs that the tool gives back to a model."""


def solved(
    completions: Sequence[Any],
    *,
    kind: Sequence[str],
    program: Sequence[str],
    inputs: Sequence[Sequence[str]],
    outputs: Sequence[Sequence[str]],
    message: Sequence[str],
    style: Sequence[Any],
    opening: Sequence[str],
    log_metric: Callable[[str, float], object] | None = None,
    **_: Any,
) -> list[float | None]:
    """Returns the game's reward of each completion as an answer to its task: 1, -0.5 or -1.

    The columns are those of `task_rows`. None after a fault of the machine.
    """
    columns = zip(kind, program, inputs, outputs, message, strict=True)
    names = ("kind", "program", "inputs", "outputs", "message")
    tasks = [task_of(dict(zip(names, row, strict=True))) for row in columns]
    verdicts = attempt_verdicts(tasks, [text_of(completion) for completion in completions], style, opening)
    _log(verdicts, log_metric)
    return pay_attempts(verdicts)


def passes_tests(
    completions: Sequence[Any],
    *,
    tests: Sequence[Sequence[Any]],
    log_metric: Callable[[str, float], object] | None = None,
    **_: Any,
) -> list[float | None]:
    """Returns 1 for each completion whose program passes all tests of its row, 0 for any other.

    `tests` is a column of your data set: for each row a list of assertions, of `{"stdin", "stdout"}` or of
    `{"function", "arguments", "expected"}`, or JSON texts of these. None after a fault of the machine.

    Raises ValueError for a row with an invalid test: `check_tests` finds it before training.
    """
    outcomes = program_outcomes([text_of(completion) for completion in completions], tests)
    _log(outcomes, log_metric)
    return pay_programs(outcomes)


class JailEnvironment:
    """A tool that runs Python, for `environment_factory`: each rollout has one, and the programs of all are jailed.

    It has no `get_reward`, so that the reward stays with `reward_funcs`. Subclass it to add one.
    """

    def reset(self, **_: Any) -> str | None:
        """Begins a rollout. Nothing is left of the one before: every program has a process of its own."""
        return None

    def run(self, code: str, stdin: str = "") -> str:
        """Run a Python program and return what it prints.

        There are no files, no network and no third-party packages.

        Args:
            code: The whole program.
            stdin: What the program reads from standard input.

        Returns:
            Standard output, then standard error if anything was written there, and why it was stopped if it was.

        """
        outcome = shared_sandbox().submit(script_job(code, stdin, JUDGED)).result()
        return _shown(outcome)


def _shown(outcome: Outcome) -> str:
    wrote = printed(outcome)
    if wrote is None:
        return f"[{outcome.status}: {outcome.detail}]"
    text = wrote.stdout
    if wrote.stderr:
        text = f"{text}\n[standard error]\n{wrote.stderr}" if text else f"[standard error]\n{wrote.stderr}"
    if len(text) > SHOWN:
        half = SHOWN // 2
        # The end of a traceback says most.
        text = f"{text[:half]}\n[{len(text) - SHOWN} signs left out]\n{text[-half:]}"
    return text or f"[nothing was printed, exit code {wrote.code}]"


def text_of(completion: Any) -> str:
    """Returns the text of a completion: a text, or the last thing that the model said in a conversation.

    Processors of several modalities make a message of parts, whose texts are joined. Raises ValueError for what is no
    completion.
    """
    if isinstance(completion, str):
        return completion
    if not isinstance(completion, Sequence):
        raise ValueError(f"a completion must be a text or a list of messages, not {_kind(completion)}")
    replies: list[Any] = []
    for message in cast("Sequence[Any]", completion):
        if not isinstance(message, Mapping):
            raise ValueError(f"a message must be a mapping with role and content, not {_kind(message)}")
        if message.get("role") == "assistant":
            replies.append(cast("Any", message.get("content")))
    return _content(replies[-1]) if replies else ""


def _content(content: Any) -> str:
    """Returns the text of a message's content: None, a text, or a list of parts."""
    if content is None:
        return ""
    if isinstance(content, str):
        return content
    if not isinstance(content, Sequence):
        raise ValueError(f"the content of a message must be a text or a list of parts, not {_kind(content)}")
    return "".join(_part(part) for part in cast("Sequence[Any]", content))


def _part(part: Any) -> str:
    if isinstance(part, str):
        return part
    if isinstance(part, Mapping):
        fields = cast("Mapping[str, Any]", part)
        text = fields.get("text")
        if isinstance(text, str):
            return text
        # Arrow gives all parts the same fields, and None to those that have none. Other parts hold no text.
        if isinstance(fields.get("type"), str) and fields["type"] != "text":
            return ""
    raise ValueError(f"a part of a message must be a text or have a text, not {str(part)[:80]!r}")


def _kind(value: object) -> str:
    return f"a {type(value).__name__}"


def _log(judged: Sequence[Verdict | Outcome], log_metric: Callable[[str, float], object] | None) -> None:
    """Gives TRL the share of each status, as `jail/STATUS`."""
    if log_metric is None or not judged:
        return
    for status, count in sorted(Counter(result.status for result in judged).items()):
        log_metric(f"jail/{status}", count / len(judged))
