"""`redqueen grow` takes rows as people publish them: it imports them into a file beside theirs, once."""

from __future__ import annotations

import gzip
import json
import os
from collections import Counter
from collections.abc import Mapping
from pathlib import Path

import pytest

from redqueen.cli.grow import grown, introduce_own
from redqueen.config import ConfigError
from redqueen.errors import UserError
from redqueen.run.session import check_tasks, warnings_about

CRUXEVAL = {"id": "sample_0", "code": "def f(a):\n    return a + [1]", "input": "[2]", "output": "[2, 1]"}
MBPP = {
    "text": "Write a function to add two numbers.",
    "code": "def add(a, b):\n    return a + b",
    "test_list": ["assert add(1, 2) == 3", "assert add(0, 0) == 0"],
}
GSM8K = {"question": "How much is 2 and 3?", "answer": "2 + 3 = <<2+3=5>>5\n#### 5"}


def published(file: Path, row: Mapping[str, object]) -> Path:
    text = json.dumps(row) + "\n"
    if file.suffix == ".gz":
        file.write_bytes(gzip.compress(text.encode()))
    else:
        file.write_text(text)
    return file


def test_rows_of_programs_become_seeds(tmp_path: Path) -> None:
    config = grown(published(tmp_path / "cruxeval.jsonl", CRUXEVAL), [], None, None)
    assert config.game.seeds == str(tmp_path / "cruxeval.seeds.txt")
    assert (config.game.tasks, config.game.kinds) == (None, ("code_o", "code_i"))
    assert config.population.teachers == 1


def test_rows_with_tests_become_tasks_that_a_teacher_varies(tmp_path: Path) -> None:
    config = grown(published(tmp_path / "mbpp.jsonl.gz", MBPP), [], None, None)
    assert config.game.tasks == str(tmp_path / "mbpp.tasks.jsonl")
    assert (config.game.kinds, config.population.teachers) == (("code_t",), 1)
    assert config.sampling.attempt_tokens == 256


def test_no_teacher_writes_questions_of_mathematics(tmp_path: Path) -> None:
    config = grown(published(tmp_path / "gsm8k.jsonl", GSM8K), ["game.attempts=4"], 3, None)
    assert (config.game.kinds, config.population.teachers) == (("maths",), 0)
    assert (config.game.attempts, config.run.steps) == (4, 3)


def test_a_file_that_was_imported_before_is_used_as_it_is(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    file = published(tmp_path / "gsm8k.jsonl", GSM8K)
    first = grown(file, [], None, None)
    imported = Path(str(first.game.tasks))
    imported.write_text(imported.read_text().replace("How much", "How many"))
    assert grown(file, [], None, None) == first == grown(imported, [], None, None)
    assert "How many" in imported.read_text()
    assert "delete it to import gsm8k.jsonl again" in capsys.readouterr().out


def test_a_file_that_changed_since_it_was_imported_is_not_grown_as_it_was(tmp_path: Path) -> None:
    file = published(tmp_path / "gsm8k.jsonl", GSM8K)
    imported = Path(str(grown(file, [], None, None).game.tasks))
    os.utime(file, (imported.stat().st_atime, imported.stat().st_mtime + 1))
    with pytest.raises(UserError, match=r"gsm8k\.jsonl is newer than .*: delete that to import"):
        grown(file, [], None, None)


def test_too_few_tasks_to_hold_one_out_are_said(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    config = grown(published(tmp_path / "gsm8k.jsonl", GSM8K), [], None, None)
    introduce_own(config.game, config.evals, config.population, config.run.steps)
    said = " ".join(capsys.readouterr().out.split())
    assert "found: 1 different question in " in said
    assert "held out: none, so nothing is measured on your own tasks" in said
    assert "compared: what the students solve of the reserved tasks" in said


def test_seeds_of_one_language_for_kinds_of_two_are_one_line(tmp_path: Path) -> None:
    (tmp_path / "seeds.txt").write_text("# double it\ndef f(x):\n    return 2 * x\nf(1)\n")
    config = grown(tmp_path / "seeds.txt", ["game.kinds=code_o,sql_o"], None, None)
    with pytest.raises(UserError, match=r"seeds\.txt is of one language, and game\.kinds are of several"):
        introduce_own(config.game, config.evals, config.population, config.run.steps)


def test_files_whose_names_differ_behind_a_dot_are_imported_apart(tmp_path: Path) -> None:
    first = grown(published(tmp_path / "mine.v1.jsonl", GSM8K), [], None, None)
    second = grown(published(tmp_path / "mine.v2.jsonl.gz", MBPP), [], None, None)
    assert first.game.tasks == str(tmp_path / "mine.v1.tasks.jsonl")
    assert second.game.tasks == str(tmp_path / "mine.v2.tasks.jsonl")


@pytest.mark.parametrize("key", ["game.seeds", "game.tasks"])
def test_what_the_file_becomes_is_not_given_beside_it(key: str, tmp_path: Path) -> None:
    file = published(tmp_path / "gsm8k.jsonl", GSM8K)
    with pytest.raises(UserError, match=rf"redqueen grow sets {key} to .*gsm8k\.jsonl itself: leave {key} out"):
        grown(file, ["game.attempts=4", f"{key}=x.txt"], None, None)
    assert list(tmp_path.iterdir()) == [file]


def test_a_file_is_read_once_until_it_changes(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    seeds = tmp_path / "mine.txt"
    seeds.write_text("# add one\ndef f(x):\n    return x + 1\nf(1)\nf(2)\n")
    tasks = published(
        tmp_path / "mine.jsonl",
        {"kind": "code_t", "message": "Add.", "program": "", "inputs": ["f(1)", "f(2)"], "outputs": ["2", "3"]},
    )
    opened: Counter[str] = Counter()
    open_file = os.open

    def counted(path: str | Path, *args: int, **names: int) -> int:
        opened[Path(path).name] += 1
        return open_file(path, *args, **names)

    monkeypatch.setattr(os, "open", counted)
    for file in (seeds, tasks):
        os.utime(file, (1e9, 1e9))
        config = grown(file, [], None, None)
        introduce_own(config.game, config.evals, config.population, config.run.steps)
        check_tasks(config.game, config.evals, config.league)
        assert warnings_about(config.sampling, config.game, "auto", config.model.name) == []
    # Of rows the first is looked at, which tells their form.
    assert (opened["mine.txt"], opened["mine.jsonl"]) == (1, 2)
    os.utime(seeds, (2e9, 1.1e9))
    grown(seeds, [], None, None)
    check_tasks(grown(seeds, [], None, None).game, config.evals, config.league)
    assert opened["mine.txt"] == 2


def test_a_wrong_setting_or_file_leaves_nothing_behind(tmp_path: Path) -> None:
    file = published(tmp_path / "gsm8k.jsonl", GSM8K)
    with pytest.raises(ConfigError, match=r"run\.steps"):
        grown(file, ["run.step=4"], None, None)
    broken = tmp_path / "rows.jsonl.gz"
    broken.write_bytes(gzip.compress(file.read_bytes())[:-10])
    with pytest.raises(UserError, match=r"cannot read .*rows\.jsonl\.gz"):
        grown(broken, [], None, None)
    unknown = published(tmp_path / "unknown.jsonl", {"a": 1})
    with pytest.raises(UserError, match="no row of 1 can be a task"):
        grown(unknown, [], None, None)
    assert sorted(path.name for path in tmp_path.iterdir()) == ["gsm8k.jsonl", "rows.jsonl.gz", "unknown.jsonl"]
