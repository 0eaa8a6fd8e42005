"""An easy game that a tiny random model can learn: one byte makes a proposal, one byte an answer.

The verifier, the sandbox and everything else are the real ones; only the prompt format is a toy.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from pathlib import Path

from redqueen.base.request_stream import Follow, FollowUp, sample_stream
from redqueen.config import Config, EvolutionConfig, GameConfig, LearningConfig, ModelConfig, RunConfig, SamplingConfig
from redqueen.engine.model.base import facts_of, load
from redqueen.engine.policy import open_policy
from redqueen.method.self_play import SelfPlay
from redqueen.method.verifier import LocalVerifier
from redqueen.records import Completion, Draft, Kind, Prompt, Request, Sampler, Task
from redqueen.run.trainer import Trainer
from redqueen.store.directory import RunDirectory
from tests import tiny


class ToyPrompts:
    """A proposal is valid if its byte is even, and its program returns 1 for every input. So 1 is the right answer."""

    def propose(self, kind: Kind, references: Sequence[Task], start: Task | None) -> Prompt:
        return Prompt(f"{kind}:", ())

    def read_proposal(self, kind: Kind, text: str, start: Task | None) -> Draft | str:
        byte = _byte(text)
        return Draft("def f(x):\n    return 1", (str(byte),)) if byte % 2 == 0 else "an odd byte"

    def write_proposal(self, task: Task) -> str:
        return "b"

    def attempt(self, task: Task, examples: Sequence[Task]) -> Prompt:
        return Prompt(f"{task.pairs[0].input}=", ())

    def write_attempt(self, task: Task) -> str:
        return "a"

    def read_attempt(self, kind: Kind, text: str) -> str | None:
        return str(_byte(text) % 3)


class OneByte:
    """The policy of the toy game: a text of one byte is whole, though the token limit ended it."""

    def __init__(self, policy: Sampler) -> None:
        self.policy = policy

    def sample(
        self, requests: Sequence[Request], on_completion: Callable[[int, Completion], None] | None = None
    ) -> list[Completion]:
        def on_whole(index: int, completion: Completion) -> None:
            if on_completion is not None:
                on_completion(index, replace(completion, finish_reason="stop"))

        return [replace(one, finish_reason="stop") for one in self.policy.sample(requests, on_whole)]

    def stream(self, requests: Sequence[Request], follow: Follow, max_further: int) -> list[Completion]:
        def on_whole(index: int, completion: Completion) -> FollowUp[Sequence[Request]] | None:
            return follow(index, replace(completion, finish_reason="stop"))

        completions = sample_stream(self.policy, requests, on_whole, max_further)
        return [replace(one, finish_reason="stop") for one in completions]


def install(play: SelfPlay) -> None:
    """Lets the toy game be played."""
    play.prompts = ToyPrompts()
    play.sampler = OneByte(play.sampler)


def _byte(text: str) -> int:
    return (text or "\0").encode()[0]


def config(folder: Path, **changes: object) -> Config:
    """Two teachers and two students on a tiny random model, for a few dozen quick steps."""
    start = Config(
        model=ModelConfig(name=str(tiny.make(folder / "model")), dtype="float32", workers=1, threads=1),
        game=GameConfig(kinds=("code_o",), proposals=12, attempts=4, seed_tasks=60),
        sampling=SamplingConfig(proposal_tokens=1, attempt_tokens=1),
        learning=LearningConfig(lr=1e-2),
        evolution=EvolutionConfig(enabled=False, gamma=0.5),
        run=RunConfig(steps=20, checkpoint_every=100),
    )
    return start.override([f"{key}={value}" for key, value in {"population.init": "fresh", **changes}.items()])


def trainer(config: Config, run: Path, verifier: LocalVerifier, *, begin: bool = True) -> Trainer:
    """A trainer of the toy game in `run`; without `begin` it is for a run that is there, and has to be restored."""
    directory = RunDirectory(run)
    if begin:
        directory.create(config, {})
    base = load(config.model)
    policy = open_policy(base, config.engine_settings, config.capacity)
    result = Trainer(config, policy, facts_of(base), verifier, directory)
    install(result.self_play)
    if begin:
        result.begin()
    return result


def played(folder: Path, verifier: LocalVerifier, **changes: object) -> RunDirectory:
    """A run in `folder`, played to its end."""
    player = trainer(config(folder, **changes), folder / "run", verifier)
    player.run()
    player.close()
    return player.directory


def without(line: Mapping[str, object], *names: str) -> dict:
    """The line without some of its fields, such as the wall time."""
    return {key: value for key, value in line.items() if key not in names}
