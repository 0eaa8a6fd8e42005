"""Tasks out and in: other libraries read what is exported, and what is imported has been run again."""

from __future__ import annotations

import contextlib
import json
import os
import re
import shutil
import sqlite3
import tomllib
from dataclasses import replace
from pathlib import Path

import pandas
import pyarrow.parquet
import pytest
from datasets import load_dataset

from redqueen.base import optional
from redqueen.cli.tasks_export import described, written
from redqueen.config import GameConfig
from redqueen.errors import UserError
from redqueen.extras.rewards.verifiers_package import module_name
from redqueen.method.planting import verified_seeds
from redqueen.method.verifier import LocalVerifier, answer_to
from redqueen.records import Draft
from redqueen.store.dataset import read_tasks
from redqueen.store.dataset.files import column_table, columns, fixed_tasks, read_rows, rows_at_once
from redqueen.tasks.kinds.language import read_own
from redqueen.tasks.python import PYTHON, reserved, write_block
from tests.cli.archived import ADD, ADD_TOO, ADDS, JOIN, archived, archived_tests
from tests.cli.running import Done, redqueen

pytestmark = pytest.mark.integration


@pytest.fixture(scope="module")
def run(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A run that no test may change."""
    return archived(tmp_path_factory.mktemp("archived") / "run")


def export(run: Path, out: Path, *options: str) -> Done:
    done = redqueen("tasks", "export", str(run), "--out", str(out), *options)
    assert done.returncode == 0, done.stderr
    return done


def ids(run: Path, out: Path, *options: str) -> list[str]:
    export(run, out, *options)
    return [json.loads(line)["id"] for line in out.read_text().splitlines()]


def test_every_column_has_the_value_of_the_run(run: Path, tmp_path: Path) -> None:
    export(run, tmp_path / "tasks.jsonl")
    first, *_, last = map(json.loads, (tmp_path / "tasks.jsonl").read_text().splitlines())
    # The attempt that the machine lost counts nowhere.
    assert {key: first[key] for key in first if key != "shape"} == {
        "run": "run", "id": "1.0.a", "step": 1, "kind": "code_o", "author": "T0", "student": "S1", "program": ADD,
        "inputs": ["1"], "outputs": ["4"], "message": "", "shown": 0, "attempts": 2, "solved": 1, "solve_rate": 0.5,
        "teacher_reward": 0.25, "novel": True, "work": "", "answer": "4",
    }  # fmt: skip
    assert list(first) == [column.name for column in columns()]
    assert last["program"] == JOIN
    assert last["message"] == "put it in bold"
    assert last["outputs"][2] == r"'<b>é\n'"
    assert (last["shown"], last["attempts"], last["solve_rate"]) == (2, 0, None)


def test_the_first_right_answer_comes_with_its_work(run: Path, tmp_path: Path) -> None:
    worked = tmp_path / "worked"
    shutil.copytree(run, worked)
    config = json.loads((worked / "config.json").read_text())
    config["model"]["prompts"] = "work"
    (worked / "config.json").write_text(json.dumps(config))
    with sqlite3.connect(worked / "run.sqlite") as archive:
        archive.execute("UPDATE attempts SET text = 'x = 1\nreturn x + 3 -> 4' WHERE status = 'correct'")
    export(worked, tmp_path / "tasks.jsonl")
    rows = list(map(json.loads, (tmp_path / "tasks.jsonl").read_text().splitlines()))
    assert (rows[0]["work"], rows[0]["answer"]) == ("x = 1\nreturn x + 3", "4")
    assert {(row["work"], row["answer"]) for row in rows if not row["solved"]} == {("", "")}


def test_reserved_programs_are_left_out_and_counted(run: Path, tmp_path: Path) -> None:
    done = export(run, tmp_path / "tasks.jsonl")
    assert "wrote 4 of 5 tasks" in done.stdout
    assert "1 is similar to a reserved program" in done.stdout
    assert reserved()[0].program not in (tmp_path / "tasks.jsonl").read_text()


def test_filters_filter(run: Path, tmp_path: Path) -> None:
    assert ids(run, tmp_path / "1.jsonl", "--kind", "code_i") == ["1.0.b"]
    assert ids(run, tmp_path / "2.jsonl", "--solve-rate", "0.5", "1") == ["1.0.a", "2.0.a"]
    # A task without an attempt has no solve rate.
    assert ids(run, tmp_path / "3.jsonl", "--solve-rate", "0", "0.5") == ["1.0.a", "1.0.b"]
    # One program is one task of each kind.
    assert ids(run, tmp_path / "4.jsonl", "--distinct") == ["1.0.a", "1.0.b", "2.0.b"]
    # What is filtered does not hide what is not.
    assert ids(run, tmp_path / "5.jsonl", "--distinct", "--solve-rate", "0.9", "1") == ["2.0.a"]


def test_pandas_reads_both_formats(run: Path, tmp_path: Path) -> None:
    export(run, tmp_path / "tasks.parquet")
    export(run, tmp_path / "tasks.jsonl")
    table = pandas.read_parquet(tmp_path / "tasks.parquet")
    lines = pandas.read_json(tmp_path / "tasks.jsonl", lines=True, dtype_backend="numpy_nullable")
    assert list(table.columns) == list(lines.columns) == [column.name for column in columns()]
    for frame in (table, lines):
        assert [list(each) for each in frame.inputs] == [["1"], ["2"], ["1"], ["'a'", "''", "'é'"]]
        assert frame.solve_rate.isna().tolist() == [False, False, False, True]
        assert frame.solve_rate[:3].tolist() == [0.5, 0.0, 1.0]
        assert frame.program[2] == ADD_TOO


def test_types_do_not_depend_on_the_values(run: Path, tmp_path: Path) -> None:
    """A column of nothing but nulls has its type, so files can be put together."""
    export(run, tmp_path / "f.parquet", "--kind", "code_f")
    export(run, tmp_path / "all.parquet")
    one, other = (pyarrow.parquet.read_schema(tmp_path / name) for name in ("f.parquet", "all.parquet"))
    assert one == other
    types = {field.name: (str(field.type).replace("element: ", ""), field.nullable) for field in other}
    assert types == {column.name: (column.type, column.nullable) for column in columns()}


@pytest.mark.integration
def test_the_library_datasets_reads_files_and_the_folder(
    run: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    for name in ("tasks.jsonl", "tasks.parquet", "folder/"):
        done = redqueen("tasks", "export", str(run), "--out", f"{tmp_path}/{name}")
        assert done.returncode == 0, done.stderr
    cache = str(tmp_path / "cache")
    loaded = [
        load_dataset("json", data_files=str(tmp_path / "tasks.jsonl"), split="train", cache_dir=cache),
        load_dataset("parquet", data_files=str(tmp_path / "tasks.parquet"), split="train", cache_dir=cache),
        # By the head of the card, as on the hub.
        load_dataset(str(tmp_path / "folder"), split="train", cache_dir=cache),
    ]
    for tasks in loaded:
        assert tasks.column_names == [column.name for column in columns()]
        assert tasks["id"][:] == ["1.0.a", "1.0.b", "2.0.a", "2.0.b"]
        assert tasks[3]["inputs"] == ["'a'", "''", "'é'"]


def test_a_folder_has_a_card_that_is_true(run: Path, tmp_path: Path) -> None:
    export(run, tmp_path / "my-tasks", "--distinct")
    card = (tmp_path / "my-tasks" / "README.md").read_text()
    assert "path: data/tasks.parquet" in card
    assert (tmp_path / "my-tasks" / "data" / "tasks.parquet").exists()
    assert "Run them in a sandbox only" in card
    assert "\nlicense:" not in card
    assert "Of 5 valid tasks of the run" in card
    assert "| `code_o` | predict the output | 1 | 0.50 |" in card
    assert "| `code_f` | write the function from examples and a message | 1 | - |" in card
    assert column_table() in card
    assert sorted(path.name for path in (tmp_path / "my-tasks").rglob("*")) == ["README.md", "data", "tasks.parquet"]


def test_a_card_says_who_wrote_the_tasks_and_in_what_language(run: Path) -> None:
    records = read_tasks(run)
    assert described(records) == f"{len(records)} small Python tasks"
    assert written(records).startswith("A language model wrote them")
    seeds = [replace(record, author="seed", kind="expr_o") for record in records]
    assert described(seeds) == f"{len(records)} small expr tasks"
    assert written(seeds).startswith("No model wrote them")
    assert described([*records, *seeds]) == f"{2 * len(records)} small tasks"
    assert f"{len(seeds)} of them no model wrote" in written([*records, *seeds])


def test_parquet_without_its_library_is_one_line(run: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def refuse(name: str) -> None:
        raise ImportError(name)

    monkeypatch.setattr(optional.importlib, "import_module", refuse)
    done = redqueen("tasks", "export", str(run), "--out", str(tmp_path / "tasks.parquet"))
    assert done.returncode == 2
    assert done.stderr.endswith("pip install '.[data]' in a checkout of Red Queen\n")
    assert len(done.stderr.splitlines()) == 1
    assert list(tmp_path.iterdir()) == []


def test_the_page_lists_every_column() -> None:
    page = Path(__file__).parents[2] / "docs" / "DATA.md"
    assert column_table() in page.read_text()


def test_what_is_exported_can_be_imported(run: Path, tmp_path: Path, verifier: LocalVerifier) -> None:
    for name in ("tasks.parquet", "tasks.jsonl", "folder"):
        export(run, tmp_path / name)
        seeds = tmp_path / f"{name}.txt"
        done = redqueen("tasks", "import", str(tmp_path / name), "--out", str(seeds))
        assert done.returncode == 0, done.stderr
        assert "wrote 3 seed programs" in done.stdout
        assert "from 4 of 4 rows" in done.stdout
        assert "2 of them have no message" in done.stdout
        drafts = read_own(seeds)
        # The two tasks on one program are one seed. A blank line would end a seed, so there is none.
        assert drafts == (
            Draft(ADD, ("1", "2"), "see the examples"),
            Draft(ADD_TOO.replace("\n\n", "\n"), ("1",), "see the examples"),
            Draft(JOIN, ("'a'", "''", "'é'"), "put it in bold"),
        )
        # A run takes them as they are.
        assert len(verified_seeds(verifier, dict(enumerate(drafts)), PYTHON, GameConfig(seeds=str(seeds)).seeds)) == 3


@pytest.mark.slow
@pytest.mark.parametrize("name", ["tasks.parquet", "tasks.jsonl", "folder"])
def test_tasks_with_tests_keep_them_and_are_imported_as_what_they_are(
    name: str, tmp_path: Path, verifier: LocalVerifier
) -> None:
    export(archived_tests(tmp_path / "run"), tmp_path / name)
    exported = fixed_tasks(tmp_path / name)
    assert {task.kind for task in exported} == {"code_t"}
    assert [(task.program, task.message) for task in exported][1:] == [
        (ADDS, "Add two numbers.\nThey are whole."),
        ("", "Read a number and print twice as much."),
    ]
    done = redqueen("tasks", "import", str(tmp_path / name), "--out", str(tmp_path / "again.jsonl"))
    assert done.returncode == 0, done.stderr
    assert "3 rows: a prompt with tests (as tasks export)" in done.stdout
    assert "from 3 of 3 rows; 2 have a program that passes their tests" in done.stdout
    again = fixed_tasks(tmp_path / "again.jsonl")
    assert [(task.kind, task.program, task.message, task.pairs) for task in again] == [
        (task.kind, task.program, task.message, task.pairs) for task in exported
    ]
    right = ["def f(x):\n    return x - 1", ADDS, "print(2 * int(input()))"]
    for task, text in zip(again, right, strict=True):
        assert verifier.judge_answer(answer_to(task, text)).result().status == "correct"
        assert verifier.judge_answer(answer_to(task, "print(0)")).result().status != "correct"


def test_the_card_and_the_columns_say_which_tasks_are_yours(tmp_path: Path) -> None:
    run = archived_tests(tmp_path / "run")
    export(run, tmp_path / "folder")
    card = (tmp_path / "folder" / "README.md").read_text()
    assert "2 of them no model wrote: the run was given them (`author` is `own` or `seed`)." in card
    export(run, tmp_path / "tasks.jsonl", "--distinct")
    rows = list(map(json.loads, (tmp_path / "tasks.jsonl").read_text().splitlines()))
    assert [(row["id"], row["author"]) for row in rows] == [("1.0.a", "T0"), ("1.1.a", "own"), ("1.1.b", "own")]
    # What has no program has no equal by it.
    assert len({row["shape"] for row in rows}) == 3


def test_a_package_for_verifiers_says_what_no_teacher_can_vary(tmp_path: Path) -> None:
    out = tmp_path / "redqueen-tasks"
    done = redqueen(
        "tasks", "export", str(archived_tests(tmp_path / "run")), "--format", "verifiers", "--out", str(out)
    )
    assert done.returncode == 0, done.stderr
    assert "wrote 3 of 3 tasks" in done.stdout
    assert "redqueen_tasks_game shows its teacher 2 of them: 1 have no program to vary" in done.stdout
    assert "What is asked: write the program that passes these tests (`code_t`)." in (out / "README.md").read_text()
    assert len((out / "redqueen_tasks" / "tasks.jsonl").read_text().splitlines()) == 3


ROWS = {
    "valid": {"program": ADD, "inputs": ["1"]},
    "gives 4, and the file says 5": {"program": ADD, "inputs": ["1"], "outputs": ["5"]},
    "cannot be read": {"program": ADD, "inputs": ["1"], "outputs": ["1 +"]},
    "error: TypeError": {"program": ADD, "inputs": ["'a'"]},
    "forbidden": {"program": "import os\ndef f(x):\n    return x", "inputs": ["1"]},
    "similar to a reserved one": {"program": reserved()[0].program, "inputs": [reserved()[0].inputs[0]]},
    "malformed": {"program": "def g(x):\n    return x", "inputs": ["1"]},
    "of no form that is read here": {"inputs": ["1"]},
    '"inputs" must be a list of texts': {"program": ADD, "inputs": [1]},
    '"inputs" must hold 1 to': {"program": ADD, "inputs": []},
    '"outputs" must be as many as "inputs"': {"program": ADD, "inputs": ["1"], "outputs": ["4", "5"]},
    '"message" must be a text': {"program": ADD, "inputs": ["1"], "message": 3},
    "not a JSON object": [1],
    "the file says '\\x1b[31m'": {"program": ADD, "inputs": ["1"], "outputs": ["'\x1b[31m'"]},
}


def test_every_refused_row_is_listed_with_its_reason(tmp_path: Path) -> None:
    (tmp_path / "rows.jsonl").write_text("\n".join([*map(json.dumps, ROWS.values()), "{nonsense"]))
    done = redqueen("tasks", "import", str(tmp_path / "rows.jsonl"), "--out", str(tmp_path / "seeds.txt"))
    assert done.returncode == 0, done.stderr
    reasons = dict(re.findall(r"^refused: row (\d+): (.*)$", done.stdout, re.M))
    for number, reason in enumerate([*ROWS, "not JSON"], 1):
        if reason != "valid":
            assert reason in reasons.pop(str(number))
    assert reasons == {}
    assert "from 1 of 15 rows" in done.stdout


def test_equal_rows_are_judged_once_and_counted(tmp_path: Path) -> None:
    rows: list[object] = [{"program": ADD, "inputs": ["1"]}, {"program": "x", "inputs": ["1"]}] * 40
    # Limits are in bytes, and "é" has two.
    rows += [{"program": "é" * 35_000, "inputs": [str(number)]} for number in range(7)]
    rows += [{"program": ADD, "inputs": ["1"], "message": "é" * 10_000}, {"program": ADD, "inputs": ["é" * 10_000]}]
    (tmp_path / "rows.jsonl").write_text("\n".join(map(json.dumps, rows)))
    done = redqueen("tasks", "import", str(tmp_path / "rows.jsonl"), "--out", str(tmp_path / "seeds.txt"))
    assert done.returncode == 0, done.stderr
    assert [line for line in done.stdout.splitlines() if line.startswith("refused")] == [
        "refused: row 2 and 39 more: error: NameError at line 1",
        'refused: rows 81, 82, 83, 84, 85 and 2 more: "program" is longer than 65,536 bytes',
        'refused: row 88: "message" is longer than 16,384 bytes',
        'refused: row 89: a text of "inputs" is longer than 16,384 bytes',
    ]
    assert "wrote 1 seed program" in done.stdout
    assert "from 40 of 89 rows" in done.stdout


@pytest.mark.parametrize("ending", ["jsonl", "parquet"])
def test_a_pipe_and_a_device_are_no_files_of_tasks(tmp_path: Path, ending: str) -> None:
    os.mkfifo(tmp_path / f"pipe.{ending}")
    (tmp_path / f"zero.{ending}").symlink_to("/dev/zero")
    for name in ("pipe", "zero"):
        done = redqueen("tasks", "import", str(tmp_path / f"{name}.{ending}"), "--out", str(tmp_path / "seeds.txt"))
        assert done.returncode == 2
        assert "is no ordinary file" in done.stderr


def test_marks_and_blank_lines_of_editors_are_no_rows(tmp_path: Path) -> None:
    rows = [{"program": f"\ufeff{ADD}", "inputs": ["1"]}, {"program": ADD, "inputs": ["2"]}]
    first, second = map(json.dumps, rows)
    (tmp_path / "rows.jsonl").write_text(f"\ufeff{first}\r\n\n  \t\n{second}\n\n")
    done = redqueen("tasks", "import", str(tmp_path / "rows.jsonl"), "--out", str(tmp_path / "seeds.txt"))
    assert "refused" not in done.stdout
    (draft,) = read_own(tmp_path / "seeds.txt")
    assert draft == Draft(ADD, ("1", "2"), "see the examples")


def test_a_seed_has_as_many_inputs_as_a_task_shows(tmp_path: Path) -> None:
    rows = [{"program": ADD, "inputs": [str(number)]} for number in range(30)]
    (tmp_path / "rows.jsonl").write_text("\n".join(map(json.dumps, rows)))
    redqueen("tasks", "import", str(tmp_path / "rows.jsonl"), "--out", str(tmp_path / "seeds.txt"))
    (draft,) = read_own(tmp_path / "seeds.txt")
    assert draft.inputs == tuple(map(str, range(GameConfig().max_inputs)))


def test_a_program_that_a_block_cannot_hold_is_written_anew_or_refused() -> None:
    # A blank line inside of a text cannot be left out.
    with pytest.raises(ValueError, match="seed file"):
        write_block(Draft("def f(x):\n    return '''a\n\nb'''", ("1",), "m"))
    # Read again, the last line would be a call.
    with pytest.raises(ValueError, match="seed file"):
        write_block(Draft("def f(x):\n    return x\nf(3)", ("1",), "m"))


def test_a_text_of_several_lines_is_written_in_one(tmp_path: Path) -> None:
    row = {"program": "def f(x):\n    return '''a\n\nb''' * x", "inputs": ["1"], "message": "two\nlines"}
    (tmp_path / "rows.jsonl").write_text(json.dumps(row))
    done = redqueen("tasks", "import", str(tmp_path / "rows.jsonl"), "--out", str(tmp_path / "seeds.txt"))
    assert done.returncode == 0, done.stderr
    assert read_own(tmp_path / "seeds.txt") == (Draft("def f(x):\n    return 'a\\n\\nb' * x", ("1",), "two lines"),)


def test_where_nothing_is_left_nothing_is_written(tmp_path: Path) -> None:
    (tmp_path / "rows.jsonl").write_text('{"program": "x", "inputs": ["1"]}\n')
    done = redqueen("tasks", "import", str(tmp_path / "rows.jsonl"), "--out", str(tmp_path / "seeds.txt"))
    assert done.returncode == 2
    assert "refused: row 1: error: NameError" in done.stdout
    assert "no row of 1 can be a seed" in done.stderr
    assert not (tmp_path / "seeds.txt").exists()


def test_a_text_that_many_rows_share_is_read_for_a_few_of_them_at_a_time(tmp_path: Path) -> None:
    text = "x" * 1_000_000
    for rows, most in ((300, 8), (1, 8)):
        file = tmp_path / f"{rows}.parquet"
        table = pyarrow.table({"program": pyarrow.array([text] * rows), "inputs": pyarrow.array([["1"]] * rows)})
        pyarrow.parquet.write_table(table, file, compression="zstd")
        assert file.stat().st_size < 2_000
        assert 1 <= rows_at_once(pyarrow.parquet.ParquetFile(file).metadata) <= most
        assert [row["program"] == text for row in read_rows(file) if isinstance(row, dict)] == [True] * rows


def test_a_column_that_is_one_huge_page_is_not_unpacked(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("redqueen.store.dataset.files._MOST_IN_COLUMN", 2 << 20)
    table = pyarrow.table({"program": pyarrow.array(["x" * 1_000_000] * 5)})
    pyarrow.parquet.write_table(table, tmp_path / "huge.parquet", compression="zstd", use_dictionary=False)
    with pytest.raises(UserError, match=r"huge\.parquet: a group of its rows has 4 MiB in one column"):
        list(read_rows(tmp_path / "huge.parquet"))


def test_a_package_for_verifiers_has_its_tasks_and_says_how_to_use_them(run: Path, tmp_path: Path) -> None:
    out = tmp_path / "My-Tasks"
    export(run, out, "--format", "verifiers", "--kind", "code_o")
    assert sorted(str(path.relative_to(out)) for path in out.rglob("*") if path.is_file()) == [
        "README.md",
        "my_tasks/__init__.py",
        "my_tasks/tasks.jsonl",
        "my_tasks_game/__init__.py",
        "pyproject.toml",
    ]
    project = tomllib.loads((out / "pyproject.toml").read_text())
    assert project["project"]["name"] == "my-tasks"
    compile((out / "my_tasks" / "__init__.py").read_text(), "package", "exec")
    assert [json.loads(line)["id"] for line in (out / "my_tasks" / "tasks.jsonl").read_text().splitlines()] == [
        "1.0.a",
        "2.0.a",
    ]
    assert "1 is similar to a reserved program" in (out / "README.md").read_text()


@pytest.mark.parametrize(("needs", "taken"), [("redqueen>=0.1", False), ("numpy", True), (None, True)])
def test_an_earlier_export_may_be_exported_again_under_its_name(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, needs: str | None, taken: bool
) -> None:
    (tmp_path / "earlier_tasks").mkdir()
    (tmp_path / "earlier_tasks" / "__init__.py").touch()
    (tmp_path / "earlier_tasks_game.py").touch()
    if needs is not None:
        (tmp_path / "earlier_tasks-0.1.0.dist-info").mkdir()
        metadata = f"Metadata-Version: 2.1\nName: earlier-tasks\nVersion: 0.1.0\nRequires-Dist: {needs}\n"
        (tmp_path / "earlier_tasks-0.1.0.dist-info" / "METADATA").write_text(metadata)
    monkeypatch.syspath_prepend(tmp_path)
    with pytest.raises(UserError, match="that is installed here") if taken else contextlib.nullcontext():
        assert module_name(Path("earlier-tasks")) == "earlier_tasks"
    # A folder is no module.
    (tmp_path / "free_tasks").mkdir()
    assert module_name(Path("free_tasks")) == "free_tasks"


def test_a_package_needs_a_folder_whose_name_python_can_import(run: Path, tmp_path: Path) -> None:
    refused = (
        ("tasks.jsonl", "must name a folder"),
        ("2nd", "starts with a letter"),
        ("tasks_", "ends with a letter"),
        ("class", "is a word of Python's own"),
        ("Async", "is a word of Python's own"),
        ("json", "is a module of Python's standard library"),
        ("tests", "is what projects call their tests"),
        ("RedQueen", "is this program, which installing the package would remove"),
        ("verifiers", "is a package that this program or the new one needs"),
        ("pydantic", "is a package that this program or the new one needs"),
        ("Math--Verify", "is a package that this program or the new one needs"),
        # By its name of a distribution, and by the one that it is imported by.
        ("pygments", "is a package that is installed here"),
        ("click", "is a package that is installed here"),
        ("typing-extensions", "is a package that is installed here"),
    )
    for name, said in refused:
        done = redqueen("tasks", "export", str(run), "--out", str(tmp_path / name), "--format", "verifiers")
        assert (done.returncode, said in done.stderr) == (2, True), done.stderr
    assert list(tmp_path.iterdir()) == []
