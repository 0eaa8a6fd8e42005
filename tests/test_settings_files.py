"""Files of settings: what `redqueen init` writes is read back, and what a person writes means what it says."""

from __future__ import annotations

import os
import re
from pathlib import Path

import pytest

from redqueen.config import Config, ConfigError
from redqueen.config.files import read_settings, write_settings
from redqueen.config.keys import keys
from redqueen.config.recipes import RECIPES, configure, match_compute, recipe, settings_of
from redqueen.tasks.kinds.language import SeedError, read_own
from tests.cli.running import redqueen


def written(folder: Path, text: str, name: str = "mine.toml") -> Path:
    file = folder / name
    file.write_text(text)
    return file


@pytest.mark.parametrize("ending", ["toml", "yaml"])
@pytest.mark.parametrize("name", RECIPES)
def test_what_init_writes_is_the_recipe(tmp_path: Path, name: str, ending: str) -> None:
    file = tmp_path / f"mine.{ending}"
    write_settings(recipe(name), file)
    assert settings_of(file) == recipe(name)


@pytest.mark.parametrize("ending", ["toml", "yaml"])
def test_every_setting_is_there_and_its_mark_can_be_taken_away(tmp_path: Path, ending: str) -> None:
    file = tmp_path / f"mine.{ending}"
    write_settings(Config(), file)
    sign = "=" if ending == "toml" else ":"
    file.write_text(re.sub(rf"^(\s*)#(\w+ ?{sign} .*)$", r"\1\2", file.read_text(), flags=re.M))
    assert {*read_settings(file)} == {*keys(Config), "recipe"}
    assert settings_of(file) == Config()


@pytest.mark.parametrize("name", ["mine.toml", "mine.yaml"])
def test_a_mark_that_an_editor_writes_in_front_is_no_setting(tmp_path: Path, name: str) -> None:
    text = "[learning]\nlr = 1e-5\n" if name.endswith("toml") else "learning:\n  lr: 1e-5\n"
    assert settings_of(written(tmp_path, f"\ufeff{text}", name)) == settings_of(written(tmp_path, text, name))


def test_toml_and_yaml_mean_the_same(tmp_path: Path) -> None:
    toml = written(
        tmp_path, 'recipe = "rlvr"\n[learning]\nlr = 1e-5\n[game]\nkinds = ["code_o"]\nseed_lines = "none"\n'
    )
    yaml = written(
        tmp_path, "recipe: rlvr\nlearning:\n  lr: 1e-5\ngame: {kinds: [code_o], seed_lines: null}\n", "m.yaml"
    )
    expected = configure(["rlvr", "learning.lr=1e-5", "game.kinds=code_o", "game.seed_lines=none"])
    assert settings_of(toml) == settings_of(yaml) == expected


def test_keys_with_points_lists_with_commas_and_the_single_agent(tmp_path: Path) -> None:
    file = written(tmp_path, 'matched = "total"\ngame.kinds = "code_o, code_i"\nlearning.lr = 1e-5\n')
    assert settings_of(file) == match_compute(configure(["learning.lr=1e-5", "game.kinds=code_o,code_i"]), "total")
    source = written(tmp_path, 'recipe = "rlvr"\ngame.source = "reasoning_gym:countdown,chain_sum"\n')
    assert settings_of(source).game.kinds == ("reasoning_gym:countdown", "reasoning_gym:chain_sum")


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("[learning]\nlrr = 1", r"unknown key 'learning\.lrr': did you mean 'learning\.lr'\?"),
        ("[learning]\nlr = 'fast'", r"learning\.lr: "),
        ("learning = 3", "'learning' is a section: give its settings one by one"),
        ("recipe = 'quickstrt'", "did you mean 'quickstart'"),
        ("[learning\n", r"mine\.toml: "),
        ("[population]\nteachers = 0\n", "evolution.enabled=false"),
    ],
)
def test_a_mistake_in_a_file_is_named_in_one_line(tmp_path: Path, text: str, message: str) -> None:
    with pytest.raises(ConfigError, match=message) as caught:
        settings_of(written(tmp_path, text))
    assert "\n" not in str(caught.value)


@pytest.mark.parametrize("text", ["a: [", "- 1", "", "!!python/object/apply:os.system ['true']"])
def test_a_yaml_file_of_another_form_is_refused(tmp_path: Path, text: str) -> None:
    with pytest.raises(ConfigError, match=r"m\.yaml"):
        settings_of(written(tmp_path, text, "m.yaml"))


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("run: [1\n", "m.yaml: line 2: expected ',' or ']', but got '<stream end>'"),
        ("run:\n  steps: 5\n  seed: 1\n  steps: 6\n", "m.yaml: line 4: 'steps' is written twice: write it once"),
        ("run: {steps: 5}\ngame: {shots: 1}\n'run': {seed: 6}\n", "m.yaml: line 3: 'run' is written twice"),
    ],
)
def test_a_mistake_in_yaml_is_named_with_its_line(tmp_path: Path, text: str, message: str) -> None:
    with pytest.raises(ConfigError) as caught:
        settings_of(written(tmp_path, text, "m.yaml"))
    assert message in str(caught.value)


def test_a_section_of_yaml_may_change_one_that_it_merges(tmp_path: Path) -> None:
    text = "run: &a {steps: 5, seed: 3}\nrun.keep_last: 4\ngame: {<<: {shots: 2, references: 1}, shots: 1}\n"
    assert settings_of(written(tmp_path, text, "m.yaml")).game.shots == 1


# A name that stands in itself, in three ways; and names that stand for 10^9 others in a few lines.
LAUGHS = "\n".join(["a0: &a0 [x]", *(f"a{n}: &a{n} [{', '.join([f'*a{n - 1}'] * 10)}]" for n in range(1, 10))])
WIDE = "b: &b {" + ", ".join(f"k{n}: x" for n in range(200)) + "}\n"
HOSTILE = {
    "loop.yaml": "run: &a\n  steps: *a\n",
    "list.yaml": "game:\n  kinds: &a [*a]\n",
    "both.yaml": "&a {run: [{steps: *a}]}",
    "laughs.yaml": LAUGHS,
    "wide.yaml": WIDE + "d: {" + ", ".join(f"k{n}: *b" for n in range(99)) + "}\n",
    "deep.yaml": "[" * 100_000,
    "deep.toml": "a = " + "[" * 100_000,
    "dotted.toml": "a" + ".a" * 5_000 + " = 1",
    "long.toml": "# " + "x" * (1 << 20),
}


@pytest.mark.parametrize("name", HOSTILE)
def test_a_file_that_nests_without_end_is_refused_in_one_line(tmp_path: Path, name: str) -> None:
    with pytest.raises(ConfigError, match=rf"{name}.*(nested too deeply|more than)") as caught:
        settings_of(written(tmp_path, HOSTILE[name], name))
    assert "\n" not in str(caught.value)
    assert len(str(caught.value)) < 400


def test_a_pipe_and_a_device_are_no_files_of_settings_or_seeds(tmp_path: Path) -> None:
    os.mkfifo(tmp_path / "pipe.toml")
    (tmp_path / "zero.toml").symlink_to("/dev/zero")
    for name in ("pipe.toml", "zero.toml"):
        with pytest.raises(ConfigError, match="is no ordinary file"):
            settings_of(tmp_path / name)
        with pytest.raises(SeedError, match="is no ordinary file"):
            read_own(tmp_path / name)


def test_a_file_may_come_from_another_system(tmp_path: Path) -> None:
    text = 'recipe = "quickstart"\r\n[learning]\r\nlr = 0.5\r\n'
    (tmp_path / "m.toml").write_bytes(b"\xef\xbb\xbf" + text.encode())
    assert settings_of(tmp_path / "m.toml").learning.lr == 0.5
    seeds = "# m\ndef f(x):\n    return x\nf(1)\n\n# n\ndef f(x):\n    return 2\nf(1)"
    (tmp_path / "seeds.txt").write_bytes(seeds.replace("\n", "\r\n").encode())
    one, other = (draft.program for draft in read_own(tmp_path / "seeds.txt"))
    assert (one, other) == ("def f(x):\n    return x", "def f(x):\n    return 2")


def test_a_module_in_a_file_is_not_imported_unless_that_is_allowed(tmp_path: Path) -> None:
    written(tmp_path, f"open({str(tmp_path / 'ran')!r}, 'w')\n", "parts_of_a_file.py")
    file = written(tmp_path, 'plugins = ["parts_of_a_file"]\n')
    assert Config().with_settings(read_settings(file)).plugins == ("parts_of_a_file",)
    done = redqueen("train", "--config", str(file), "--run", str(tmp_path / "run"), cwd=tmp_path)
    assert done.returncode == 2
    assert "--load-plugins" in done.stderr
    assert not (tmp_path / "ran").exists()


def test_the_command_writes_a_file_and_the_command_line_wins_over_it(tmp_path: Path) -> None:
    done = redqueen("init", "rlvr", cwd=tmp_path)
    assert done.returncode == 0, done.stderr
    assert "redqueen train --config redqueen.toml" in done.stdout
    assert redqueen("init", cwd=tmp_path).returncode == 2
    assert redqueen("init", "--out", "mine.ini", cwd=tmp_path).returncode == 2
    planned = redqueen("train", "--config", "redqueen.toml", "run.steps=3", "--dry-run", "--json", cwd=tmp_path)
    assert planned.returncode == 0, planned.stderr
    config = Config.model_validate_json(planned.stdout[planned.stdout.index("{\n") :])
    assert config == configure(["rlvr", "run.steps=3"])
