"""Own parts by name: what a module registers can be configured, and nothing else can."""

from __future__ import annotations

import importlib
import sys
from pathlib import Path

import numpy
import pytest
import torch

from redqueen import plugins
from redqueen.config import Config, ConfigError
from redqueen.method.evolution import named_operator
from redqueen.method.fitness import named_fitness
from redqueen.method.operators import CROSSOVERS
from redqueen.method.prompts import prompts
from redqueen.plugins import PluginError

MODULE = """
from redqueen import plugins

@plugins.mutation
def mine(parents, generator): return parents[0]

@plugins.crossover
def ours(parents, generator): return parents[1]

@plugins.fitness
def luck(member): return 7.0

@plugins.prompts
class Short:
    def __init__(self, game): self.game = game
"""


@pytest.fixture(autouse=True)
def module(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> str:
    """The name of a module in the current folder."""
    name = "parts_of_mine"
    (tmp_path / f"{name}.py").write_text(MODULE)
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(plugins, "_parts", {})
    monkeypatch.setattr(sys, "path", list(sys.path))
    monkeypatch.setitem(sys.modules, name, None)  # so that the entry is restored, that is removed, at the end
    monkeypatch.delitem(sys.modules, name)
    return name


def test_a_registered_part_is_found_by_its_name(module: str) -> None:
    config = Config().override(
        [
            "evolution.mutations=mine,full_gaussian",
            "evolution.crossovers=ours",
            "league.student_fitness=luck",
            "league.teacher_fitness=luck",
            "model.prompts=Short",
            f"plugins={module}",
        ]
    )
    assert config.evolution.mutations == ("mine", "full_gaussian")
    assert named_operator("mine", 1)([{}], None) == {}  # pyright: ignore[reportArgumentType]
    assert named_operator("ours", 2)([{}, {"x": 1}], None) == {"x": 1}  # pyright: ignore[reportArgumentType]
    assert named_fitness("luck")(None) == 7.0  # pyright: ignore[reportArgumentType]
    plugins._parts["fitness"]["luck"] = lambda member: float("nan")
    with pytest.raises(PluginError, match="the fitness 'luck' gave nan: it must give a finite number"):
        named_fitness("luck")(None)  # pyright: ignore[reportArgumentType]
    plugins._parts["fitness"]["luck"] = lambda member: numpy.float32(0.5)
    assert named_fitness("luck")(None) == 0.5  # pyright: ignore[reportArgumentType]
    assert prompts("Short", config.game).game is config.game  # pyright: ignore[reportAttributeAccessIssue]


@pytest.mark.parametrize(
    ("assignment", "message"),
    [
        ("evolution.mutations=mine", "evolution.mutations.0: there is no mutation 'mine': choose one of svd_spectral"),
        ("league.student_fitness=luck", "there is no fitness 'luck': choose one of lcb"),
        (
            "model.prompts=chatt",
            "there is no prompt format 'chatt': choose one of completion, work, chat, or load your own",
        ),
        ("game.teacher_reward=x", "there is no teacher reward 'x': choose one of populora, novel, learnability"),
    ],
)
def test_a_name_that_nobody_registered_is_refused(assignment: str, message: str) -> None:
    with pytest.raises(ConfigError) as caught:
        Config().override([assignment])
    assert message in str(caught.value)
    assert str(caught.value).endswith("or load your own with plugins=MODULE")


@pytest.mark.parametrize("text", ["import nothing_of_that_name", "def f(:", None])
def test_a_module_that_cannot_be_imported_is_one_line(module: str, text: str | None) -> None:
    if text is not None:
        Path("broken_parts.py").write_text(text)
    with pytest.raises(PluginError, match="plugins=broken_parts cannot be imported: ") as caught:
        Config().override(["plugins=broken_parts"])
    assert "\n" not in str(caught.value)


def test_a_name_that_is_taken_is_refused(module: str, tmp_path: Path) -> None:
    (tmp_path / "other_parts.py").write_text(
        "from redqueen import plugins\n\n@plugins.fitness\ndef luck(m): return 1.0\n"
    )
    (tmp_path / "same_parts.py").write_text(
        "from redqueen import plugins\n\n@plugins.mutation\ndef svd_spectral(p, g): ...\n"
    )
    plugins.load([module])
    with pytest.raises(PluginError, match=f"other_parts: {module} has a fitness 'luck' already"):
        plugins.load(["other_parts"])
    with pytest.raises(PluginError, match="Red Queen has a mutation 'svd_spectral'"):
        plugins.load(["same_parts"])


def test_a_kind_that_two_modules_register_is_refused(tmp_path: Path) -> None:
    for name, kind in (("first_kind", "mine_o"), ("second_kind", "mine_o"), ("third_kind", "code_o")):
        (tmp_path / f"{name}.py").write_text(f"""
from redqueen import plugins
from redqueen.tasks.kinds.deduction import Deduction
from redqueen.tasks.python import PYTHON

plugins.kind(Deduction("{kind}", PYTHON))
""")
    plugins.load(["first_kind"])
    importlib.reload(sys.modules["first_kind"])
    with pytest.raises(PluginError, match=r"^second_kind: first_kind has a kind 'mine_o' already"):
        plugins.load(["second_kind"])
    with pytest.raises(PluginError, match=r"^third_kind: Red Queen has a kind 'code_o': give yours another name"):
        plugins.load(["third_kind"])


def test_a_mutation_and_a_crossover_may_share_a_name(tmp_path: Path) -> None:
    """The number of parents decides, also where the other one is Red Queen's own."""
    (tmp_path / "twins.py").write_text("""
from redqueen import plugins

def named(name, parent):
    def operator(parents, generator): return parents[parent]
    operator.__name__ = name
    return operator

plugins.mutation(named("blend", 0))
plugins.crossover(named("blend", 1))
plugins.mutation(named("dare", 0))
""")
    plugins.load(["twins"])
    mother: dict = {}
    father: dict = {}
    generator = torch.Generator()
    assert named_operator("blend", 1)([mother, father], generator) is mother
    assert named_operator("blend", 2)([mother, father], generator) is father
    assert named_operator("dare", 1)([mother], generator) is mother
    assert named_operator("dare", 2) is CROSSOVERS["dare"]


def test_a_decorator_with_a_name_in_brackets_is_refused_with_how_to_write_it() -> None:
    with pytest.raises(PluginError, match="the decorator of a mutation got 'mine': write it without brackets above"):
        plugins.mutation("mine")


def test_a_module_may_be_imported_again(module: str) -> None:
    plugins.load([module])
    importlib.reload(sys.modules[module])
    assert plugins.find("fitness", "luck") is sys.modules[module].luck
