"""`redqueen recipes`, `redqueen keys` and the page that says the same."""

from __future__ import annotations

import pytest

from redqueen.config import Config
from redqueen.config.keys import FIRST, keys
from redqueen.config.recipes import RECIPES
from tests.cli.running import redqueen
from tools import write_commands, write_keys


def test_recipes_names_every_recipe() -> None:
    done = redqueen("recipes")
    assert done.returncode == 0
    assert [line.split()[0] for line in done.stdout.splitlines()[: len(RECIPES)]] == list(RECIPES)


def test_keys_names_every_key_the_first_ten_first_or_those_of_a_section_or_those_with_a_part() -> None:
    def tables(*args: str) -> list[list[str]]:
        done = redqueen("keys", *args)
        assert done.returncode == 0, done.stderr
        return [[line.split()[0] for line in block.splitlines()] for block in done.stdout.split("\n\n")[::2]]

    def shown(*args: str) -> list[str]:
        return tables(*args)[0]

    first, rest = tables()
    assert first == list(FIRST)
    assert len(FIRST) == 10
    assert rest == [key for key in keys(Config) if key not in FIRST]
    assert shown("learning") == [key for key in keys(Config) if key.startswith("learning.")]
    assert shown("tokens") == [
        "sampling.proposal_tokens",
        "sampling.attempt_tokens",
        "sampling.prefill_tokens",
        "sampling.cache_tokens",
        "learning.batch_tokens",
        "evals.max_tokens",
    ]


def test_a_section_that_is_none_is_one_line_with_the_nearest_key() -> None:
    done = redqueen("keys", "learnign.lr")
    assert (done.returncode, done.stderr) == (2, "redqueen: unknown key 'learnign.lr': did you mean 'learning.lr'?\n")


def test_the_page_of_settings_is_what_the_tool_writes() -> None:
    assert write_keys.TARGET.read_text(encoding="utf-8") == write_keys.page(), "run python -m tools.write_keys"


def test_the_page_of_commands_is_what_the_tool_writes() -> None:
    page = write_commands.TARGET.read_text(encoding="utf-8")
    assert page == write_commands.page(), "run python -m tools.write_commands"
    assert page.count("\n## redqueen ") == 23


def test_in_a_pipe_no_line_ends_in_blanks_and_columns_is_its_width(monkeypatch: pytest.MonkeyPatch) -> None:
    for command in ("recipes", "keys"):
        assert [line for line in redqueen(command).stdout.splitlines() if line != line.rstrip()] == []
    monkeypatch.setenv("COLUMNS", "60")
    listed = redqueen("recipes").stdout.partition("\nTrain one")[0]
    assert max(map(len, listed.splitlines())) <= 60
