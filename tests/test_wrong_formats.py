"""Files of another format or encoding, and widths that are none: one line says what to do."""

from __future__ import annotations

import gzip
from pathlib import Path

import pytest

import redqueen
from redqueen.cli.app import _start, memory_size
from redqueen.config import Config, ConfigError
from redqueen.errors import UserError
from redqueen.run.recording.plain_console import table_console
from redqueen.store.dataset.files import read_rows

ROW = '{"program": "def f(x): return x", "inputs": ["1"]}\n'


@pytest.mark.parametrize(
    "content", [ROW.encode("utf-16"), gzip.compress(ROW.encode(), mtime=0)], ids=["utf-16", "gzip"]
)
def test_rows_that_are_no_text_are_refused_as_a_file(tmp_path: Path, content: bytes) -> None:
    file = tmp_path / "rows.jsonl"
    file.write_bytes(content)
    with pytest.raises(UserError, match="is not UTF-8 text: save it in that encoding"):
        list(read_rows(file))


@pytest.mark.parametrize("text", [f"[{ROW}]", f"[\n{ROW}]", '{\n  "program": "def f(x): return x"\n}\n'])
def test_one_json_value_over_a_whole_file_is_refused_as_a_file(tmp_path: Path, text: str) -> None:
    file = tmp_path / "rows.jsonl"
    file.write_text(text)
    with pytest.raises(UserError, match="write a row a line"):
        list(read_rows(file))


@pytest.mark.parametrize("text", ["prompt,tests\nAdd.,x\n", '"prompt";"tests"\n', "prompt\ttests\n"])
def test_rows_of_csv_are_refused_as_a_file(tmp_path: Path, text: str) -> None:
    file = tmp_path / "rows.jsonl"
    file.write_text(text)
    with pytest.raises(UserError, match="looks like CSV, and not like rows of JSON"):
        list(read_rows(file))


@pytest.mark.parametrize("text", ["{nonsense\n", '{"a": 1, "b"\n', "nonsense\n", "3\n"])
def test_a_bad_first_row_is_a_bad_row(tmp_path: Path, text: str) -> None:
    file = tmp_path / "rows.jsonl"
    file.write_text(f"\n{text}{ROW}")
    assert [type(row) for row in read_rows(file)] == [str, dict]


def test_a_row_in_another_encoding_is_told_so(tmp_path: Path) -> None:
    file = tmp_path / "rows.jsonl"
    file.write_bytes(ROW.replace("return x", "return 'ä'").encode("latin-1") + ROW.encode())
    assert next(read_rows(file)) == "not UTF-8 text: save the file in that encoding"


def test_half_of_a_surrogate_pair_is_refused_by_row(tmp_path: Path) -> None:
    file = tmp_path / "rows.jsonl"
    file.write_text('{"question": "\\ud83d\\ude00 a \\\\ud800"}\n{"question": {"deep": ["\\uD800"]}}\n')
    whole, half = read_rows(file)
    assert whole == {"question": "😀 a \\ud800"}
    assert half == "no text: half of a surrogate pair stands in it"


def test_nan_is_no_value_as_pandas_writes_it(tmp_path: Path) -> None:
    file = tmp_path / "rows.jsonl"
    file.write_text('{"question": "1 + 1?", "answer": NaN, "tests": [NaN]}\n')
    (row,) = read_rows(file)
    assert isinstance(row, dict)
    assert row["answer"] is None
    assert row["tests"][0] != row["tests"][0], "inside a value it is one of Python's"


def test_rows_with_a_mark_in_front_and_ends_of_windows_are_read(tmp_path: Path) -> None:
    file = tmp_path / "rows.jsonl"
    file.write_bytes(b"\xef\xbb\xbf" + ROW.replace("\n", "\r\n").encode())
    assert [type(row) for row in read_rows(file)] == [dict]


@pytest.mark.parametrize(
    "content", ["[run]\nsteps = 3\n".encode("utf-16"), gzip.compress(b"[run]\n", mtime=0)], ids=["utf-16", "gzip"]
)
def test_settings_that_are_no_text_are_refused(tmp_path: Path, content: bytes) -> None:
    file = tmp_path / "mine.toml"
    file.write_bytes(content)
    with pytest.raises(ConfigError, match="is not UTF-8 text"):
        _start(file)


def test_a_file_of_settings_without_its_ending_is_not_called_damaged(tmp_path: Path) -> None:
    file = tmp_path / "mine"
    file.write_text("[run]\nsteps = 3\n")
    with pytest.raises(ConfigError, match=r"must end in \.toml, \.yaml or \.json"):
        _start(file)


@pytest.mark.parametrize("value", [3, {"steps": 40}, [{"steps": 3}]])
def test_a_section_in_the_place_of_a_setting_is_called_one(value: object) -> None:
    with pytest.raises(ConfigError, match=r"'run' is a section: give its settings one by one, e\.g\. run\."):
        Config().with_settings({"run": value})


@pytest.mark.parametrize("key", ["run.steps", "learning.lr", "game.seed_tasks"])
def test_a_flag_is_no_number(key: str) -> None:
    with pytest.raises(ConfigError, match=rf"{key}: .*a number is wanted here, and not true or false"):
        Config().with_settings({key: True})
    assert Config().with_settings({"evolution.enabled": False}).evolution.enabled is False


@pytest.mark.parametrize("columns", ["0", "abc", "-5", ""])
def test_columns_that_are_no_width_are_ignored(monkeypatch: pytest.MonkeyPatch, columns: str) -> None:
    monkeypatch.setenv("COLUMNS", columns)
    assert table_console().width >= 80


def test_a_card_without_memory_is_no_size() -> None:
    with pytest.raises(ConfigError, match="no size of memory"):
        memory_size("0GiB")


def test_no_runs_to_compare_are_refused_and_one_path_is_one_run(tmp_path: Path) -> None:
    with pytest.raises(UserError, match="no run is given"):
        redqueen.compare([])
    with pytest.raises(UserError, match="does not exist"):
        redqueen.compare(str(tmp_path / "none"))
