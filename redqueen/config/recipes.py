"""Named configurations. A recipe is a function; `redqueen train NAME key=value ...` starts from it."""

from __future__ import annotations

import math
import re
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import cast

from redqueen import extras
from redqueen.config import (
    BUNDLED,
    Config,
    ConfigError,
    EvalsConfig,
    EvolutionConfig,
    GameConfig,
    LearningConfig,
    ModelConfig,
    PopulationConfig,
    RunConfig,
    SamplingConfig,
    SandboxConfig,
)
from redqueen.config.files import read_settings
from redqueen.config.keys import did_you_mean, keys, nearest_key
from redqueen.tasks.kinds import Recipe, recipes_of_languages

# Few seeds, so that the teachers' own tasks are soon the larger part of the bank and of the references. Short ones,
# because a model of 135M parameters hardly ever writes a longer function from examples (docs/reports/PILOTS.md).
_SMALL = GameConfig(proposals=3, references=2, seed_tasks=64, seed_lines=3, min_inputs=3, max_inputs=6)


def quickstart() -> Config:
    """2 teachers and 2 students on the bundled model: minutes on two CPU cores."""
    return Config(
        game=_SMALL,
        sampling=SamplingConfig(temperature=0.7, proposal_tokens=112, attempt_tokens=80, batch_rows=96),
        # Small micro-batches stay in a CPU's caches.
        learning=LearningConfig(batch_tokens=1024),
        # At gamma = 0.5 a newborn of two would die at its first chance every other time, however good it is.
        evolution=EvolutionConfig(every=3, gamma=0.35, burn_in=3),
        sandbox=SandboxConfig(value_bytes=400),
        # At the start and at the end: more would be more than a twentieth of a run that takes minutes.
        evals=EvalsConfig(every=6, limit=9),
        # Every third checkpoint stays, so that `redqueen ancestry` has stages to compare.
        run=RunConfig(steps=6, keep_every=3),
    )


def overnight() -> Config:
    """2 teachers and 2 students at settings at which students learn and teachers keep writing: hours on two cores."""
    # Each value was chosen in pilots (docs/reports/PILOTS.md): with the quickstart's rate nothing is learnt, and
    # at the students' rate a teacher sinks to programs of three lines and to repetitions within a hundred steps.
    return Config(
        recipe="overnight",
        game=GameConfig(
            kinds=("code_o", "code_i"),
            proposals=10,
            attempts=16,
            references_from="seeds",
            teacher_reward="novel",
        ),
        sampling=SamplingConfig(temperature=1.0, proposal_tokens=112, attempt_tokens=48, batch_rows=96),
        learning=LearningConfig(lr=2e-4, teacher_lr=3e-5, batch_tokens=1024),
        evolution=EvolutionConfig(every=10, gamma=0.25, burn_in=5),
        sandbox=SandboxConfig(value_bytes=400),
        evals=EvalsConfig(every=40, limit=280),
        run=RunConfig(steps=160, keep_every=20),
    )


def coder_0_5b() -> Config:
    """4 teachers and 4 students on Qwen2.5-Coder-0.5B-Instruct, 200 steps. For a GPU of 24 GB or more."""
    return _coder("coder_0_5b", "0.5B", proposals=8, tokens=768, references=4, lr=5e-5)


def coder_1_5b() -> Config:
    """4 teachers and 4 students on Qwen2.5-Coder-1.5B-Instruct, 200 steps. For a GPU of 24 GB or more."""
    return _coder("coder_1_5b", "1.5B", proposals=16, tokens=1024, references=4, lr=3e-5)


def coder_3b() -> Config:
    """4 teachers and 4 students on Qwen2.5-Coder-3B-Instruct (research licence). For a GPU of 24 GB or more."""
    return _coder("coder_3b", "3B", proposals=16, tokens=1024, references=6, lr=2e-5)


def coder_7b() -> Config:
    """4 teachers and 4 students on Qwen2.5-Coder-7B-Instruct, rank 16. For a GPU of 48 GB or more."""
    return _coder("coder_7b", "7B", proposals=16, tokens=1024, references=6, lr=1e-5)


def _coder(name: str, size: str, *, proposals: int, tokens: int, references: int, lr: float) -> Config:
    """Returns the recipe of a size of Qwen2.5-Coder. Batches are left to the plan, which makes them fit the card."""
    # The learning rates are a choice, not a measurement. LoRA trained by such rewards takes 1e-5 to 8e-5 from 1B to 9B
    # in print, with hundreds of answers an update, as here; the smaller a base, the larger the rate that it takes (the
    # pilots in docs/reports/PILOTS.md are at 2e-4 with 135M). So 1e-5 is for 7B, as in `paper_7b`, and five times that
    # for 0.5B. Try a third and three times the value first.
    return Config(
        recipe=name,
        model=ModelConfig(
            name=f"Qwen/Qwen2.5-Coder-{size}-Instruct", dtype="bfloat16", prompts="chat", rank=16, alpha=32.0
        ),
        population=PopulationConfig(teachers=4, students=4),
        game=GameConfig(proposals=proposals, attempts=8, references=references, bank_size=16384),
        sampling=SamplingConfig(proposal_tokens=tokens, attempt_tokens=tokens, batch_rows=0, prefill_tokens=0),
        learning=LearningConfig(lr=lr, batch_tokens=0),
        evolution=EvolutionConfig(every=10, gamma=0.25, burn_in=5),
        # Half as many proposals are half as many texts, of which a twentieth may be for held-out scores.
        evals=EvalsConfig(every=10 if proposals == 16 else 20, limit=210),
        run=RunConfig(steps=200, checkpoint_every=5, keep_last=3, keep_every=50),
    )


def paper_7b() -> Config:
    """The paper's main run: Qwen2.5-Coder-7B, rank 32, 4T+4S, 200 steps. For a GPU of 48 GB or more, better of 80."""
    return Config(
        recipe="paper_7b",
        model=ModelConfig(name="Qwen/Qwen2.5-Coder-7B", prompts="chat", rank=32, alpha=64.0),
        population=PopulationConfig(teachers=4, students=4),
        game=GameConfig(proposals=16, attempts=8, references=6, min_inputs=8, bank_size=16384),
        sampling=SamplingConfig(proposal_tokens=2048, attempt_tokens=2048, batch_rows=0, prefill_tokens=0),
        learning=LearningConfig(lr=1e-5, batch_tokens=0),
        evolution=EvolutionConfig(every=10, gamma=0.25, burn_in=5),
        evals=EvalsConfig(every=10, limit=210),
        run=RunConfig(steps=200, checkpoint_every=5, keep_last=3, keep_every=50),
    )


def paper_7b_identity() -> Config:
    """`paper_7b` from AZR's start: the task bank begins with the identity function alone. For large models."""
    return paper_7b().with_values("game", seed_tasks=0).model_copy(update={"recipe": "paper_7b_identity"})


def population_4t4s() -> Config:
    """4 teachers and 4 students, as in the paper, on the bundled model."""
    return _quickstart_of("population_4t4s", teachers=4, students=4)


def asymmetric() -> Config:
    """4 teachers and 8 students on the bundled model."""
    return _quickstart_of("asymmetric", teachers=4, students=8)


def ablation_1t1s() -> Config:
    """One teacher against one student: co-evolution without a population, hence without evolution."""
    return _quickstart_of("ablation_1t1s", teachers=1, students=1)


def _quickstart_of(name: str, *, teachers: int, students: int) -> Config:
    """Returns the quickstart with another population."""
    population = PopulationConfig(teachers=teachers, students=students)
    evolution = EvolutionConfig(enabled=False) if teachers == 1 else EvolutionConfig(every=3, gamma=0.25, burn_in=3)
    return quickstart().model_copy(update={"recipe": name, "population": population, "evolution": evolution})


def rlvr() -> Config:
    """One student alone on fixed tasks, the seeds or your own: reinforcement learning from verifiable rewards."""
    return Config(
        recipe="rlvr",
        population=PopulationConfig(teachers=0, students=1),
        game=GameConfig(kinds=("code_o", "code_i"), proposals=24, attempts=8),
        sampling=SamplingConfig(temperature=1.0, proposal_tokens=112, attempt_tokens=48, batch_rows=96),
        learning=LearningConfig(lr=2e-4, batch_tokens=1024),
        evolution=EvolutionConfig(enabled=False),
        sandbox=SandboxConfig(value_bytes=400),
        evals=EvalsConfig(every=20, limit=250),
        run=RunConfig(steps=40, keep_every=10),
    )


def grow() -> Config:
    """One teacher and one student grow out of your own tasks: half of what is posed is yours (`redqueen grow`)."""
    game = GameConfig(
        kinds=("code_o", "code_i"),
        proposals=20,
        attempts=8,
        own_share=0.5,
        pick="difficulty",
        references_from="seeds",
        teacher_reward="novel",
    )
    return overnight().model_copy(
        update={
            "recipe": "grow",
            "population": PopulationConfig(teachers=1, students=1),
            "game": game,
            "evolution": EvolutionConfig(enabled=False),
            "evals": EvalsConfig(every=20, limit=240),
            "run": RunConfig(steps=40, keep_every=10),
        }
    )


def _of_language(comes_with: Recipe) -> Callable[[], Config]:
    """Returns the function of a recipe that comes with a language."""

    def made() -> Config:
        # The name is no setting.
        return Config().override(comes_with.settings.split()).model_copy(update={"recipe": comes_with.name})

    made.__name__ = comes_with.name
    made.__doc__ = comes_with.sentence
    return made


RECIPES: dict[str, Callable[[], Config]] = {
    recipe.__name__: recipe
    for recipe in (
        quickstart,
        rlvr,
        grow,
        overnight,
        coder_0_5b,
        coder_1_5b,
        coder_3b,
        coder_7b,
        paper_7b,
        paper_7b_identity,
        population_4t4s,
        asymmetric,
        ablation_1t1s,
        *map(_of_language, recipes_of_languages()),
    )
}

# From how many parameters on, in billions, a base has which recipe. Less than the first is a toy, which learns nothing.
_FOR_SIZE = (
    (0.05, "overnight"),
    (0.3, "coder_0_5b"),
    (1.0, "coder_1_5b"),
    (2.2, "coder_3b"),
    (5.0, "coder_7b"),
)


def recipe_for(model: str) -> tuple[str, float] | None:
    """Returns the recipe for a base of that size, and its billions of parameters; None for a toy, or no model at all.

    The size is that of a folder's weights, or the one in a name such as Qwen2.5-Coder-0.5B. Raises ConfigError, which
    asks for a recipe, where neither tells it.
    """
    folder = Path(model).expanduser()
    if folder.is_dir():
        billions = _stored(folder)
    elif model == BUNDLED or folder.exists() or not re.fullmatch(r"\w[\w.-]*/[\w.-]+", model):
        # What loads it says what is wrong with a folder that is not there.
        return None
    else:
        sizes = re.findall(r"(?<![\w.])(\d+(?:\.\d+)?)(b|m)(?![a-z0-9])", model.replace("_", "-").lower())
        billions = float(sizes[0][0]) / (1000 if sizes[0][1] == "m" else 1) if sizes else 0.0
        if not sizes:
            raise ConfigError(
                f"{model} does not say how large it is, and its size chooses the recipe: name one, such as "
                f"redqueen train coder_0_5b --model {model} (redqueen recipes lists them)"
            )
    fitting = [name for least, name in _FOR_SIZE if billions >= least]
    return (fitting[-1], billions) if fitting else None


def _stored(folder: Path) -> float:
    """Returns how many billions of parameters a folder's weights have: in 16 bits, unless its config.json says 32."""
    files = [file for file in folder.iterdir() if file.suffix in (".safetensors", ".bin")]
    # Where both are there they hold the same weights twice.
    files = [file for file in files if file.suffix == ".safetensors"] or files
    size = sum(file.stat().st_size for file in files)
    config = folder / "config.json"
    wide = config.is_file() and '"float32"' in config.read_text(encoding="utf-8", errors="replace")
    return size / (4e9 if wide else 2e9)


MATCHED = ("none", "per_adapter", "total")
"""How a population and its single agent can be matched: see `match_compute`."""


def recipe(name: str) -> Config:
    """Returns the configuration called `name`. Raises ConfigError, with all names, if there is none."""
    if name not in RECIPES:
        extras.require("recipe", name)
        guess = did_you_mean(name, RECIPES) or "."
        raise ConfigError(f"no recipe '{name}'{guess} There are: {', '.join(RECIPES)}")
    return RECIPES[name]()


def match_compute(config: Config, how: str) -> Config:
    """Returns the single agent (AZR with LoRA: one member in both roles) that a population is compared with.

    `how` is "total" (as many matches a step as the population plays in all, so as many proposals and attempts),
    "per_adapter" (as many as a member of its smaller role plays on average, rounded up) or "none" (the population
    itself). Everything else stays as it is, except that the single agent has the students' rate. Raises ConfigError for
    another word, and for a configuration that is a single agent already.
    """
    if how == "none":
        return config
    if how not in MATCHED:
        raise ConfigError(f"matched={how}: choose one of {', '.join(MATCHED)}")
    population = config.population
    if not population.teachers:
        raise ConfigError(f"matched={how} makes the single agent of a population, and these are students alone")
    if population.single_agent:
        raise ConfigError(f"matched={how} makes the single agent of a population, and this is a single agent already")
    larger = max(population.teachers, population.students)
    smaller = min(population.teachers, population.students)
    alone = config.with_values("population", teachers=1, students=1, single_agent=True)
    alone = alone.with_values("game", matches=larger if how == "total" else math.ceil(larger / smaller))
    # It writes and solves, and has the one rate of those who solve.
    alone = alone.with_values("learning", teacher_lr=None)
    # One member has no rival to be replaced by, and no past opponent.
    alone = alone.with_values("league", hall_of_fame=0, hall_matches=0.0).with_values("evolution", enabled=False)
    return alone.model_copy(update={"recipe": f"{config.recipe} matched={how}"})


def configure(
    args: Sequence[str],
    steps: int | None = None,
    model: str | None = None,
    matched: str | None = None,
    start: Config | None = None,
) -> Config:
    """Returns the configuration of a command line: a recipe's name (default quickstart), then overrides.

    With `start` there is no recipe: the overrides apply to this configuration.
    `matched=total` among the overrides is `match_compute`, wherever it stands, and `matched` is the same.
    Raises ConfigError if the recipe is unknown or an override is invalid.
    """
    name = "quickstart"
    overrides = list(args)
    for option in overrides:
        if option.startswith("-") and "=" not in option:
            raise ConfigError(_no_option(option))
    if overrides and "=" not in overrides[0]:
        name = overrides.pop(0)
        if start is not None:
            raise ConfigError(f"'{name}' and a configuration file: give one of them, then settings as KEY=VALUE")
        if name not in RECIPES and name in keys(Config):
            raise ConfigError(f"'{name}' is a setting: write {name}=VALUE, without a space")
    for override in overrides:
        if override in RECIPES:
            if args[0] in RECIPES:
                raise ConfigError(f"two recipes, '{args[0]}' and '{override}': name one")
            raise ConfigError(f"the recipe comes first: write '{override}' before the settings")
    # The options --model, --steps and --matched come last, so that they win over overrides of the same keys.
    if model is not None:
        overrides.append(f"model.name={model}")
    if steps is not None:
        overrides.append(f"run.steps={steps}")
    if matched is not None:
        overrides.append(f"matched={matched}")
    # The single agent is made of the population that all other overrides describe.
    how = "none"
    others: list[str] = []
    for override in overrides:
        key, _, value = override.partition("=")
        if key.strip().lstrip("-") == "matched":
            how = value.strip()
        else:
            others.append(override)
    return match_compute((start or recipe(name)).override(others), how)


def configured(name: str, settings: Mapping[str, object]) -> Config:
    """Returns a recipe with settings, whose values are taken as they are: as text, a number might lose digits.

    `matched` may be among them, as on a command line. Raises as `configure` does.
    """
    values = {key: _value(value) for key, value in settings.items()}
    how = str(values.pop("matched", "none"))
    # A module that is named here is imported, as one on the command line is.
    return match_compute(configure([name]).with_settings(values, load_plugins=True), how)


def _value(value: object) -> object:
    """Returns a value as a setting takes it. Of what is no plain value, such as a path, that is its text."""
    if isinstance(value, list | tuple):
        return tuple(cast("Sequence[object]", value))
    return value if isinstance(value, str | int | float | None) else str(value)


def settings_of(file: Path) -> Config:
    """Returns the configuration of a file of settings: its recipe (default quickstart), changed by what it says.

    `matched` in it is `match_compute`. Nothing that it names is imported. Raises ConfigError if it cannot be used.
    """
    settings = read_settings(file)
    name = str(settings.pop("recipe", "quickstart"))
    how = str(settings.pop("matched", "none"))
    try:
        return match_compute(recipe(name).with_settings(settings), how)
    except ConfigError as error:
        raise ConfigError(f"{file}: {error}") from error


def check_repeats(words: Sequence[str], options: Sequence[str] = ()) -> None:
    """Raises ConfigError if a command line gives a setting twice.

    `words` are its arguments, `options` the settings that its options stand for, e.g. "run.steps" for --steps.
    """
    # Whichever of the two won, a person may have meant the other.
    settings = [word.partition("=")[0].strip().lstrip("-") for word in words if "=" in word]
    for key in [*settings, *options]:
        times = settings.count(key) + options.count(key)
        if times > 1:
            raise ConfigError(f"{key} is given {'twice' if times == 2 else f'{times} times'}: write it once")


def _no_option(option: str) -> str:
    """Returns the message for an option that no command has: most often it is meant as a setting."""
    key = nearest_key(option.lstrip("-"), keys(Config))
    return f"no option '{option}': settings are written without dashes, e.g. {key}=VALUE (see redqueen keys)"
