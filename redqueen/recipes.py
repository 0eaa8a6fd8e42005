"""Named configurations. A recipe is a function; `redqueen train NAME key=value ...` starts from it."""

from __future__ import annotations

import difflib
from collections.abc import Callable, Sequence

from redqueen.config import (
    Config,
    ConfigError,
    EvolutionConfig,
    GameConfig,
    LearningConfig,
    ModelConfig,
    PopulationConfig,
    RunConfig,
    SamplingConfig,
    SandboxConfig,
)

# Few seeds, so that the teachers' own tasks are soon the larger part of the bank and of the references.
_SMALL = GameConfig(references=2, seed_tasks=64, max_inputs=6)


def quickstart() -> Config:
    """2 teachers and 2 students on the bundled model: minutes on two CPU cores."""
    return Config(
        game=_SMALL,
        sampling=SamplingConfig(temperature=0.8, proposal_tokens=112, attempt_tokens=80, batch_rows=96),
        # Small micro-batches stay in a CPU's caches.
        learning=LearningConfig(batch_tokens=1024),
        # At gamma = 0.5 a newborn of two would die at its first chance every other time, however good it is.
        evolution=EvolutionConfig(every=3, gamma=0.35, burn_in=3),
        sandbox=SandboxConfig(value_bytes=400),
        run=RunConfig(steps=6),
    )


def paper_7b() -> Config:
    """The paper's main run: Qwen2.5-Coder-7B, rank 32, 4T+4S, 200 steps. For a GPU of 80 GB or more."""
    return Config(
        recipe="paper_7b",
        model=ModelConfig(name="Qwen/Qwen2.5-Coder-7B", prompts="chat", rank=32, alpha=64.0),
        population=PopulationConfig(teachers=4, students=4),
        game=GameConfig(proposals=16, attempts=8, references=6, min_inputs=10, bank_size=16384),
        sampling=SamplingConfig(proposal_tokens=2048, attempt_tokens=2048, batch_rows=128),
        learning=LearningConfig(lr=1e-5, batch_tokens=16384, checkpointing=True),
        evolution=EvolutionConfig(every=10, gamma=0.25, burn_in=5),
        run=RunConfig(steps=200, checkpoint_every=5, keep_last=3, keep_every=50),
    )


def asymmetric() -> Config:
    """4 teachers and 8 students on the bundled model."""
    return quickstart().model_copy(
        update={
            "recipe": "asymmetric",
            "population": PopulationConfig(teachers=4, students=8),
            "evolution": EvolutionConfig(every=3, gamma=0.25, burn_in=3),
        }
    )


def ablation_1t1s() -> Config:
    """One teacher against one student: co-evolution without a population, hence without evolution."""
    return quickstart().model_copy(
        update={
            "recipe": "ablation_1t1s",
            "population": PopulationConfig(teachers=1, students=1),
            "evolution": EvolutionConfig(enabled=False),
        }
    )


def single_agent() -> Config:
    """AZR with LoRA: one member in both roles, as many matches as one adapter of `quickstart` plays."""
    return quickstart().model_copy(
        update={
            "recipe": "single_agent",
            "population": PopulationConfig(teachers=1, students=1, single_agent=True),
            "game": _SMALL.model_copy(update={"matches": 1}),
            "evolution": EvolutionConfig(enabled=False),
        }
    )


def single_agent_compute() -> Config:
    """The same, with as many matches a step as `quickstart` plays in all: matched by total compute."""
    return single_agent().model_copy(
        update={"recipe": "single_agent_compute", "game": _SMALL.model_copy(update={"matches": 2})}
    )


RECIPES: dict[str, Callable[[], Config]] = {
    recipe.__name__: recipe
    for recipe in (quickstart, paper_7b, asymmetric, ablation_1t1s, single_agent, single_agent_compute)
}


def recipe(name: str) -> Config:
    """Returns the configuration called `name`. Raises ConfigError, with the nearest name, if there is none."""
    if name not in RECIPES:
        # A cutoff of 0 always gives a name, however different.
        near = difflib.get_close_matches(name, RECIPES, n=1, cutoff=0.0)[0]
        raise ConfigError(f"no recipe '{name}': did you mean '{near}'? There are: {', '.join(RECIPES)}")
    return RECIPES[name]()


def configure(args: Sequence[str], steps: int | None = None, model: str | None = None) -> Config:
    """Returns the configuration of a command line: a recipe's name (default quickstart), then overrides.

    Raises ConfigError if the recipe is unknown or an override is invalid.
    """
    name = "quickstart"
    overrides = list(args)
    if overrides and "=" not in overrides[0]:
        name = overrides.pop(0)
    # The options --model and --steps come last, so that they win over overrides of the same keys.
    if model is not None:
        overrides.append(f"model.name={model}")
    if steps is not None:
        overrides.append(f"run.steps={steps}")
    return recipe(name).override(overrides)
