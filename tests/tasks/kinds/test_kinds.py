"""The registry of kinds: what is there by name, what a plugin adds, and what reads a run without the plugin."""

from __future__ import annotations

import pytest

from redqueen import plugins
from redqueen.config import Config, ConfigError
from redqueen.extras.page.tasks import TaskQueryError, read_filter
from redqueen.plugins import PluginError
from redqueen.records import Pair, Task
from redqueen.run.recording.terminal import legend, short_names
from redqueen.tasks.kinds import BUILT_IN, TaskKind, find, find_or_plain, languages, names, names_of_languages
from redqueen.tasks.kinds.deduction import Deduction
from redqueen.tasks.python import DEDUCTION, INDUCTION, NAMES, PYTHON

PROGRAM = "def f(x):\n    return x"
TASK = Task(id="t", kind="code_x", author="T0", step=1, program=PROGRAM, pairs=(Pair("1", "1"),), message="same")


@pytest.fixture(autouse=True)
def no_part_stays(monkeypatch: pytest.MonkeyPatch) -> None:
    """What a test registers is forgotten at its end."""
    monkeypatch.setattr(plugins, "_parts", {})


def test_python_has_the_three_kinds_of_the_paper() -> None:
    assert NAMES == ("code_o", "code_i", "code_f")
    assert find("code_o") is DEDUCTION
    assert languages(NAMES) == [PYTHON]
    assert names_of_languages(["code_f"]) == NAMES


def test_python_comes_first_and_each_language_has_names_of_its_own() -> None:
    assert names() == BUILT_IN
    assert BUILT_IN[:3] == NAMES
    assert len(set(BUILT_IN)) == len(BUILT_IN)
    assert len({language.name for language in languages(BUILT_IN)}) == len(languages(BUILT_IN))


def test_a_languages_name_stands_for_its_programs() -> None:
    assert type(find("python")) is TaskKind
    assert find("python").language is PYTHON
    assert "python" not in names()


def test_a_kind_of_a_plugin_can_be_configured_and_a_taken_name_is_refused() -> None:
    with pytest.raises(ConfigError, match=r"game.kinds.1: there is no kind 'code_x': choose one of code_o, code_i"):
        Config().override(["game.kinds=code_o,code_x"])
    own = plugins.kind(Deduction("code_x", PYTHON))
    assert find("code_x") is own
    assert names_of_languages(["code_o"]) == (*NAMES, "code_x")
    assert Config().override(["game.kinds=code_o,code_x"]).game.kinds == ("code_o", "code_x")
    with pytest.raises(PluginError, match="Red Queen has a kind 'code_f'"):
        plugins.kind(Deduction("code_f", PYTHON))


def test_a_kind_that_nobody_loaded_is_read_as_a_program_with_its_pairs() -> None:
    with pytest.raises(PluginError, match="this needs the kind 'code_x'"):
        find("code_x")
    plain = find_or_plain("code_x")
    assert plain.write_question(TASK) == "def f(x):\n    return x\n# same\nf(1) == 1"
    assert plain.recorded_answer(TASK) == plain.only_answer(TASK) == ""
    assert not plain.shown(TASK)


def test_only_induction_shows_pairs() -> None:
    pairs = tuple(Pair(str(number), str(number)) for number in range(5))
    whole = Task(id="t", kind="python", author="T0", step=1, program=PROGRAM, pairs=pairs)
    (one, _, several) = [find(name).of_program(whole) for name in NAMES]
    assert one is not None
    assert several is not None
    assert (one.id, one.kind, one.pairs) == ("t-code_o", "code_o", pairs[:1])
    assert not DEDUCTION.shown(one)
    assert INDUCTION.shown(several) == pairs[:3]
    assert INDUCTION.judged_on(several) == pairs[3:]


def test_a_line_names_kinds_by_a_letter_where_that_is_enough() -> None:
    assert short_names(NAMES) == ["o", "i", "f"]
    assert short_names(["code_o", "expr_o"]) == ["code_o", "expr_o"]
    assert "o, f: right answers by kind (predict the output, write" in legend(["code_o", "code_f"])
    assert legend(["code_o"], alone=True).startswith("o: ")
    assert "games" not in legend(["code_o"], alone=True)


def test_the_page_filters_by_the_kinds_of_the_run() -> None:
    assert read_filter({"kind": "code_x"}, (*NAMES, "code_x")).kind == "code_x"
    with pytest.raises(TaskQueryError, match="kind=code_x: choose one of code_o"):
        read_filter({"kind": "code_x"}, NAMES)
