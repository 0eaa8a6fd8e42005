"""The configuration: overrides, recipes, and the messages that refuse an invalid one."""

from __future__ import annotations

import ast
import json
import math
from itertools import chain, pairwise
from pathlib import Path
from typing import get_args

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from redqueen import config
from redqueen.config import Config, ConfigError, resolve
from redqueen.config.game import Crossover, Mutation
from redqueen.config.keys import describe, keys
from redqueen.config.recipes import RECIPES, configure, configured, recipe
from redqueen.method.operators import CONTROLS, CROSSOVERS, MUTATIONS
from redqueen.method.prompts import prompts
from redqueen.tasks.kinds import BUILT_IN
from redqueen.tasks.python import NAMES


def refusal(*assignments: str) -> str:
    with pytest.raises(ConfigError) as caught:
        Config().override(assignments)
    return str(caught.value)


def field(config: Config, key: str) -> object:
    value: object = config
    for part in key.split("."):
        value = getattr(value, part)
    return value


@pytest.mark.parametrize("name", RECIPES)
def test_every_recipe_is_a_whole_and_valid_configuration(name: str) -> None:
    config = recipe(name)
    assert config.recipe == name
    # Recipes are made with model_copy, which validates nothing, so the whole configuration is validated here.
    assert resolve(config.model_dump()) == config
    prompts(config.model.prompts, config.game)


@pytest.mark.parametrize("name", RECIPES)
def test_every_recipe_has_held_out_scores_for_at_most_a_twentieth_of_its_texts(name: str) -> None:
    config = recipe(name)
    game, run, population = config.game, config.run, config.population
    proposals = max(population.teachers, population.students) * len(game.kinds) * game.proposals
    texts = run.steps * proposals * (game.attempts + (population.teachers > 0))
    evaluations = len({*range(config.evals.every, run.steps + 1, config.evals.every), run.steps})
    answers = config.evals.limit * (1 + evaluations * population.students)
    assert 0 < answers <= texts / 20


@pytest.mark.parametrize("name", RECIPES)
def test_a_configuration_survives_json(name: str) -> None:
    config = recipe(name)
    assert resolve(json.loads(config.model_dump_json())) == config
    assert resolve(json.loads(json.dumps(config.model_dump(mode="json")))) == config


@pytest.mark.parametrize("name", [name for name in RECIPES if recipe(name).population.teachers])
@pytest.mark.parametrize("how", ["per_adapter", "total"])
def test_every_recipe_has_its_compute_matched_single_agents(name: str, how: str) -> None:
    whole = recipe(name)
    alone = configure([name, f"matched={how}"])
    assert alone == configure([name], matched=how)
    assert resolve(alone.model_dump()) == alone
    assert alone.population.single_agent
    assert not alone.evolution.enabled
    sizes = (whole.population.teachers, whole.population.students)
    assert alone.game.matches == (max(sizes) if how == "total" else -(-max(sizes) // min(sizes)))
    # All that a match costs, and all that is learnt from it, is the same.
    assert alone.game.model_copy(update={"matches": 0}) == whole.game
    assert (alone.model, alone.sampling, alone.run) == (whole.model, whole.sampling, whole.run)
    # It is teacher and student, and has the one rate of students.
    assert alone.learning == whole.learning.model_copy(update={"teacher_lr": None})


def test_matching_comes_after_all_other_overrides() -> None:
    config = configure(["matched=total", "population.teachers=3", "population.students=6", "league.hall_of_fame=2"])
    assert (config.game.matches, config.league.hall_of_fame) == (6, 0)
    assert configure(["population.teachers=3", "population.students=6"], matched="per_adapter").game.matches == 2
    assert configure(["matched=none"]) == configure([])
    assert config.recipe == "quickstart matched=total"


def test_settings_of_a_script_keep_all_their_digits() -> None:
    settings = {
        "sampling.temperature": 1 / 3,
        "learning.lr": 1 / 30_000,
        "run.seed": 12_345_679,
        "game.kinds": ["code_o", "code_i"],
        "population.init": Path("fresh"),
        "game.seeds": None,
        "matched": "total",
    }
    config = configured("quickstart", settings)
    assert (config.sampling.temperature, config.learning.lr) == (1 / 3, 1 / 30_000)
    assert (config.run.seed, config.game.kinds, config.population.init) == (12_345_679, ("code_o", "code_i"), "fresh")
    assert config.recipe == "quickstart matched=total"
    assert configured("quickstart", {"game.kinds": "code_o,code_f"}).game.kinds == ("code_o", "code_f")
    with pytest.raises(ConfigError, match=r"did you mean 'learning\.lr'"):
        configured("quickstart", {"learning.lrr": 1})


@pytest.mark.parametrize(
    ("override", "message"),
    [
        ("evals.benchmarks=none", "evals.benchmarks: it names no benchmark: .* write evals.every=0"),
        ("evals.benchmarks=", "evals.benchmarks: it names no benchmark"),
        ("run.steps=none", "run.steps cannot be none: see redqueen keys run.steps"),
        ("game.kinds=none", "game.kinds cannot be none"),
        ("game.kinds=", "game.kinds is empty: name at least one of code_o, code_i, "),
        ("model.targets=", "model.targets is empty: name at least one$"),
        (
            "run.steps=99999999999999999999999",
            "run.steps: 9{23} is more than 1,000,000,000,000,000, the most that a setting",
        ),
        ("game.proposals=1000000000000001", "game.proposals: 1000000000000001 is more than 1,000,000,000,000,000"),
    ],
)
def test_a_missing_value_is_one_line_in_our_words(override: str, message: str) -> None:
    with pytest.raises(ConfigError, match=message):
        configure([override])


@pytest.mark.parametrize(
    ("args", "message"),
    [
        (["matched=compute"], "matched=compute: choose one of none, per_adapter, total"),
        (
            ["matched=total", "population.single_agent=true", "population.teachers=1", "population.students=1"],
            "is a single agent already",
        ),
    ],
)
def test_what_cannot_be_matched_is_refused_in_one_line(args: list[str], message: str) -> None:
    with pytest.raises(ConfigError, match=message):
        configure(args)


def test_the_papers_run_is_as_published() -> None:
    paper = recipe("paper_7b")
    assert (paper.model.name, paper.model.rank, paper.run.steps) == ("Qwen/Qwen2.5-Coder-7B", 32, 200)
    assert (paper.population.teachers, paper.population.students) == (4, 4)


def test_unknown_recipe_is_refused_with_the_nearest_and_all_names() -> None:
    with pytest.raises(ConfigError, match="no recipe 'quickstrt': did you mean 'quickstart'") as caught:
        recipe("quickstrt")
    assert all(name in str(caught.value) for name in RECIPES)
    for name in ("nope", "nosuch"):
        with pytest.raises(ConfigError, match=rf"no recipe '{name}'\. There are: quickstart, "):
            recipe(name)
    assert "\n" not in str(caught.value)


@pytest.mark.parametrize(
    ("assignment", "value"),
    [
        ("run.steps=20", 20),
        ("--run.steps=20", 20),
        ("run.steps = 20", 20),
        ("learning.lr=3e-4", 3e-4),
        ("population.single_agent=false", False),
        ("evolution.enabled=no", False),
        ("model.name=org/some-model", "org/some-model"),
        ("population.init=a=b", "a=b"),
        ("game.kinds=code_o", ("code_o",)),
        ("game.kinds=code_f,code_i", ("code_f", "code_i")),
        ("game.kinds=(code_f, code_i,)", ("code_f", "code_i")),
        ("model.targets=[q_proj,v_proj]", ("q_proj", "v_proj")),
        ("evolution.mutations=copy_parent", ("copy_parent",)),
        ("evolution.crossovers=dare,linear_mean", ("dare", "linear_mean")),
    ],
)
def test_an_override_sets_its_key_and_nothing_else(assignment: str, value: object) -> None:
    key = assignment.partition("=")[0].strip().lstrip("-")
    changed = Config().override([assignment])
    got = field(changed, key)
    assert (got, type(got)) == (value, type(value))
    assert {k for k in keys(Config) if field(changed, k) != field(Config(), k)} <= {key}


def test_every_key_takes_its_own_value_written_as_text() -> None:
    config = recipe("quickstart")
    for key in keys(Config):
        value = field(config, key)
        text = ",".join(value) if isinstance(value, tuple) else str(value)
        assert config.override([f"{key}={text}"]) == config, key


def test_the_last_override_wins_and_the_original_stays() -> None:
    config = Config()
    assert config.override(["run.seed=1", "run.seed=2"]).run.seed == 2
    assert config == Config()


def test_overrides_are_judged_together() -> None:
    config = Config().override(["population.single_agent=true", "population.students=1", "population.teachers=1"])
    assert config.population.single_agent


@pytest.mark.parametrize(
    ("wrong", "nearest"),
    [
        ("learning.learning_rate", "learning.lr"),
        ("run.step", "run.steps"),
        ("populaton.teachers", "population.teachers"),
        ("evolution.gama", "evolution.gamma"),
        ("game.kind", "game.kinds"),
        ("league.gamma", "evolution.gamma"),
        ("league.evolution", "evolution.enabled"),
        ("league.probe_tasks", "league.held_out_tasks"),
        ("lr", "learning.lr"),
        ("model", "model.name"),
        ("steps", "run.steps"),
        ("workers", "model.workers"),
        ("sampling.lr", "learning.lr"),
    ],
)
def test_an_unknown_key_names_the_nearest_valid_one(wrong: str, nearest: str) -> None:
    message = refusal(f"{wrong}=1")
    assert message == f"unknown key '{wrong}': did you mean '{nearest}'?"


@example("model")
@example("population")
@given(st.text(min_size=1).filter(lambda t: "=" not in t))
def test_any_unknown_key_is_refused_with_a_valid_one_that_is_like_it(name: str) -> None:
    if name.strip().lstrip("-") in keys(Config):
        return
    with pytest.raises(ConfigError) as caught:
        Config().override([f"{name}=1"])
    said = str(caught.value)
    is_section = any(key.startswith(f"{name.strip().lstrip('-')}.") for key in keys(Config))
    if is_section and "is a section: give its settings one by one" in said:
        return
    # A word that is like no key gets no guess.
    assert "redqueen keys lists them all" in said or any(f"did you mean '{key}'?" in said for key in keys(Config))


@pytest.mark.parametrize("name", ["game.foo", "run.nope", "nosuch"])
def test_a_key_that_is_like_none_gets_no_guess(name: str) -> None:
    assert refusal(f"{name}=1") == f"unknown key '{name}', and none is like it: redqueen keys lists them all."


def test_a_seed_counts_nothing() -> None:
    assert configure(["run.seed=1000000000000"]).run.seed == 10**12


def test_an_unknown_key_in_a_stored_configuration_is_refused_too() -> None:
    with pytest.raises(ConfigError, match=r"unknown key 'run\.setps': did you mean 'run\.steps'"):
        resolve({"run": {"setps": 3}})
    with pytest.raises(ConfigError, match=r"unknown key 'league\.gamma': did you mean 'evolution\.gamma'"):
        resolve({"league": {"gamma": 0.5}})


def test_every_key_is_described_in_one_short_line_or_two() -> None:
    described = describe(Config)
    assert [key.name for key in described] == list(keys(Config))
    assert [key.name for key in described if not key.text or not key.text.endswith(".") or len(key.text) > 200] == []


def test_a_described_default_is_one_that_can_be_written() -> None:
    written = [f"{key.name}={key.default}" for key in describe(Config)]
    assert Config().override(written) == Config()


def test_choices_are_the_words_that_a_key_takes() -> None:
    choices = {key.name: key.choices for key in describe(Config)}
    assert choices["game.kinds"] == BUILT_IN
    assert choices["evolution.crossovers"] == get_args(Crossover)
    assert choices["learning.lr"] == choices["game.seed_lines"] == ()


@pytest.mark.parametrize(
    ("args", "message"),
    [
        (["--lr"], "no option '--lr': settings are written without dashes, e.g. learning.lr=VALUE (see redqueen keys)"),
        (["run.steps=3", "--stpes", "4"], "no option '--stpes': settings are written without dashes, e.g. run.steps"),
        (["learning.lr", "1e-4"], "'learning.lr' is a setting: write learning.lr=VALUE, without a space"),
        (["learning.lr=1e-4", "asymmetric"], "the recipe comes first: write 'asymmetric' before the settings"),
    ],
)
def test_a_command_line_in_the_wrong_order_says_what_is_right(args: list[str], message: str) -> None:
    with pytest.raises(ConfigError) as caught:
        configure(args)
    assert str(caught.value).startswith(message)


def test_a_whole_section_cannot_be_overridden() -> None:
    assert "'league' is a section: give its settings one by one" in refusal("league=1")


@pytest.mark.parametrize(
    ("text", "example"), [("learning.lr", "learning.lr=VALUE"), ("quickstart", "run.steps=20"), ("", "run.steps=20")]
)
def test_what_is_no_assignment_is_refused_with_an_example(text: str, example: str) -> None:
    assert f"write section.field=value, e.g. {example}" in refusal(text)


@pytest.mark.parametrize(
    ("assignments", "named"),
    [
        (["population.students=0"], "population.students"),
        (["population.teachers=-1"], "population.teachers"),
        (["population.teachers=-3"], "population.teachers"),
        (["population.students=two"], "population.students"),
        (["model.rank=0"], "model.rank"),
        (["model.rank=4.5"], "model.rank"),
        (["model.alpha=0"], "model.alpha"),
        (["model.dtype=float16"], "model.dtype"),
        (["evolution.every=0"], "evolution.every"),
        (["evolution.gamma=0"], "evolution.gamma"),
        (["evolution.gamma=1"], "evolution.gamma"),
        (["evolution.crossover=1.5"], "evolution.crossover"),
        (["evolution.mutations=svd_sepctral"], "svd_spectral"),
        (["evolution.crossovers=svd_spectral"], "evolution.crossovers"),
        (["evolution.mutations=dare"], "evolution.mutations"),
        (["evolution.mutations="], "evolution.mutations"),
        (["evolution.crossovers="], "evolution.crossovers"),
        (["game.kinds="], "game.kinds"),
        (["game.kinds=code_x"], "game.kinds"),
        (["game.attempts=0"], "game.attempts"),
        (["game.attempts=1"], "game.attempts: 1 can never learn"),
        (["game.proposals=1"], "game.proposals: 1 can never learn"),
        (["game.min_inputs=1"], "game.min_inputs"),
        (["game.min_inputs=8", "game.max_inputs=7"], "max_inputs"),
        (["game.matches=3"], "game.matches"),
        (["population.single_agent=true"], "population.teachers=1"),
        (["population.single_agent=true", "population.students=1"], "population.teachers=1"),
        (["sampling.temperature=0"], "sampling.temperature"),
        (["learning.lr=-1"], "learning.lr"),
        (["learning.lr=nan"], "learning.lr"),
        (["learning.beta1=1"], "learning.beta1"),
        (["learning.loss=mean"], "learning.loss"),
        (["learning.max_staleness=1", "learning.importance_ratio=off"], "learning.max_staleness"),
        (["sampling.vllm_url=http://127.0.0.1:8000"], "sampling.vllm_url was removed: a run starts its own vLLM"),
        (["sandbox.cpu_s=0"], "sandbox.cpu_s"),
        (["run.steps=0"], "run.steps"),
        (["run.seed=-1"], "run.seed"),
        (["run.keep_last=0"], "run.keep_last"),
    ],
)
def test_an_impossible_value_is_refused_in_one_line_that_names_it(assignments: list[str], named: str) -> None:
    message = refusal(*assignments)
    assert named in message
    assert "\n" not in message
    assert len(message) < 300


# A kind twice would give two proposals one id, and the archive's primary key would stop the run after its first step.
def test_a_kind_given_twice_is_refused() -> None:
    assert "game.kinds" in refusal("game.kinds=code_o,code_o")


# Without a site there is no adapter: saving one would end in a StopIteration.
def test_no_targets_are_refused() -> None:
    assert "model.targets" in refusal("model.targets=")


# The sandbox takes at most 256 inputs a job, and raises ValueError in the trainer's process for more.
def test_more_inputs_than_the_sandbox_takes_are_refused() -> None:
    assert "game.max_inputs" in refusal("game.max_inputs=257")


@pytest.mark.parametrize(
    "key",
    ["learning.lr", "model.alpha", "sampling.temperature", "sandbox.cpu_s", "population.perturbation"],
)
# An infinite rate trains to NaN; JSON has no infinity either, so a run with one could not be read back.
def test_infinity_is_refused(key: str) -> None:
    assert key in refusal(f"{key}=inf")


@pytest.mark.parametrize("value", ["nan", "inf"])
def test_a_reward_is_a_number(value: str) -> None:
    for key in ("teacher_invalid", "teacher_unsolved", "student_correct", "student_wrong", "student_malformed"):
        assert f"game.{key}" in refusal(f"game.{key}={value}")


def test_names_in_the_configuration_are_the_operators_there_are() -> None:
    both = {"copy_parent", "fresh", "linear_mean"}
    assert set(CONTROLS) == both
    mutations, crossovers = set(get_args(Mutation)), set(get_args(Crossover))
    assert mutations - both == set(MUTATIONS)
    assert crossovers - both == set(CROSSOVERS)
    # every control can be played against the others, as one of the two ways to make a child
    assert (mutations | crossovers) & both == both
    assert not mutations & crossovers


def test_controls_are_not_in_the_game_by_default() -> None:
    evolution = Config().evolution
    assert {*evolution.mutations, "neftune"} == set(MUTATIONS)  # neftune is not in the game by default
    assert set(evolution.crossovers) == set(CROSSOVERS)


def test_rewards_and_kinds_default_to_the_design() -> None:
    game = Config().game
    assert game.kinds == NAMES
    assert (game.student_correct, game.student_wrong, game.student_malformed) == (1.0, -0.5, -1.0)
    assert (game.teacher_invalid, game.teacher_unsolved) == (-1.0, 0.0)


def test_a_configuration_cannot_be_changed_in_place() -> None:
    with pytest.raises(ValueError, match="frozen"):
        Config().run.steps = 3  # type: ignore[misc]


@given(
    st.floats(min_value=1e-12, max_value=1.0),
    st.integers(1, 10**6),
    st.lists(st.sampled_from(NAMES), min_size=1, max_size=3, unique=True),
)
def test_numbers_survive_text_and_json_exactly(lr: float, steps: int, kinds: list[str]) -> None:
    config = Config().override([f"learning.lr={lr!r}", f"run.steps={steps}", f"game.kinds={','.join(kinds)}"])
    assert math.isclose(config.learning.lr, lr, rel_tol=0.0, abs_tol=0.0)
    assert resolve(json.loads(config.model_dump_json())) == config


def test_the_single_agent_learns_at_one_rate_whatever_it_wrote() -> None:
    changes = ["learning.teacher_lr=1e-5", "population.teachers=1", "population.students=1", "evolution.enabled=false"]
    assert Config().override(changes).engine_settings.learning.teacher_lr == 1e-5
    assert Config().override([*changes, "population.single_agent=true"]).engine_settings.learning.teacher_lr is None


def test_every_key_has_a_docstring() -> None:
    files = sorted(Path(config.__file__).parent.glob("*.py"))
    nodes = chain.from_iterable(ast.parse(path.read_text()).body for path in files)
    sections = [node for node in nodes if isinstance(node, ast.ClassDef) and node.name.endswith("Config")]
    bare: list[str] = []
    for section in sections:
        if section.name == "Config":
            continue
        for node, after in pairwise([*section.body, ast.Pass()]):
            documented = isinstance(after, ast.Expr) and isinstance(after.value, ast.Constant)
            if isinstance(node, ast.AnnAssign) and not documented:
                bare.append(f"{section.name}: {ast.unparse(node.target)}")
    assert len(sections) == 12
    assert bare == []
