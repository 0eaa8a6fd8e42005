"""Tasks in a Parquet or JSONL file: its columns, its writing and reading, and its rows as tasks to be posed again."""

from __future__ import annotations

import codecs
import gzip
import json
import math
import re
import zlib
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass, replace
from functools import cache
from pathlib import Path
from typing import Any, Literal, cast

from pydantic import TypeAdapter, ValidationError

from redqueen.base.optional import require
from redqueen.base.plain_files import open_plain, read_once
from redqueen.errors import UserError
from redqueen.method.seeds import OWN
from redqueen.records import Pair, Task
from redqueen.store.archive.reader import ArchiveReader
from redqueen.store.archive.rows import TaskRow
from redqueen.store.dataset import TaskRecord
from redqueen.store.directory import RunDirectory
from redqueen.tasks.kinds import is_kind

ColumnType = Literal["string", "int64", "double", "bool", "list<string>"]
# By the names of JSON's schemas.
_TYPES: dict[str, ColumnType] = {
    "string": "string",
    "integer": "int64",
    "number": "double",
    "boolean": "bool",
    "array": "list<string>",
}


@dataclass(frozen=True, slots=True, kw_only=True)
class DataColumn:
    """One column."""

    name: str
    type: ColumnType
    """Its type as Arrow calls it."""
    nullable: bool
    """Whether a row may have no value here."""
    text: str
    """What it means."""


@cache
def columns() -> tuple[DataColumn, ...]:
    """Returns the columns of an exported file, in order."""
    described = TypeAdapter(TaskRecord).json_schema()["properties"]
    return tuple(_column(name, schema) for name, schema in described.items())


def column_table() -> str:
    """Returns the columns as a table in Markdown."""
    lines = ["| column | type | meaning |", "|---|---|---|"]
    for column in columns():
        # As code: a page would take `<string>` for a tag.
        kind = f"`{column.type}` or null" if column.nullable else f"`{column.type}`"
        lines.append(f"| `{column.name}` | {kind} | {column.text} |")
    return "\n".join(lines)


def _column(name: str, schema: Mapping[str, Any]) -> DataColumn:
    # `float | None` has two options, of which null is the last.
    options = schema.get("anyOf", [schema])
    text = " ".join(schema["description"].split())
    return DataColumn(name=name, type=_TYPES[options[0]["type"]], nullable=len(options) > 1, text=text)


FORMATS = (".parquet", ".jsonl")
PACKED = ".jsonl.gz"
"""What is read beside `FORMATS`, as EvalPlus publishes its rows."""
FOLDER_FILE = Path("data") / "tasks.parquet"
"""Where the file lies in a folder that is a whole data set."""
# Rows of contests with their tests have megabytes.
_MAX_LINE_BYTES = 256 << 20


def write_tasks(records: Sequence[TaskRecord], file: Path) -> None:
    """Writes the tasks in the format of the file's ending. Raises OSError if it cannot be written.

    Raises MissingLibraryError if the format needs a library that is not installed.
    """
    if file.suffix == ".jsonl":
        with file.open("w", encoding="utf-8") as lines:
            for record in records:
                lines.write(json.dumps(asdict(record), ensure_ascii=False) + "\n")
        return
    arrow = require_arrow(file)
    parquet = require("pyarrow.parquet", "data", str(file))
    # The types are given and not guessed: a column of nothing but nulls would have none.
    types = {
        "string": arrow.string(),
        "int64": arrow.int64(),
        "double": arrow.float64(),
        "bool": arrow.bool_(),
        "list<string>": arrow.list_(arrow.string()),
    }
    fields = [arrow.field(column.name, types[column.type], nullable=column.nullable) for column in columns()]
    values = {column.name: [getattr(record, column.name) for record in records] for column in columns()}
    parquet.write_table(arrow.table(values, schema=arrow.schema(fields)), file)


def require_arrow(file: Path) -> Any:
    """Returns the library that reads and writes Parquet. Raises MissingLibraryError if it is not installed."""
    return require("pyarrow", "data", f"{file.name} is Parquet, which")


def is_exported(source: Path) -> bool:
    """Returns whether this is a file, or a folder that is a data set, and no run."""
    return source.is_file() or (source / FOLDER_FILE).is_file()


def read_rows(file: Path) -> Iterator[dict[str, Any] | str]:
    """Yields the rows of a file, or of a folder that is a data set, in order; of a bad line, what is wrong with it.

    Raises UserError if the file cannot be read or has another ending.
    """
    if file.is_dir() and not is_exported(file):
        raise UserError(f"{file} holds no tasks: give a file, or a folder that has {FOLDER_FILE}")
    if file.is_dir():
        file = file / FOLDER_FILE
    if not is_rows(file):
        raise UserError(f"{file}: the file's name must end in {', '.join(FORMATS)} or {PACKED}")
    try:
        for row in _read_parquet(file) if file.suffix == ".parquet" else _read_lines(file):
            yield row if isinstance(row, str) else {name: _given(value) for name, value in row.items()}
    except (OSError, EOFError, zlib.error) as error:
        raise UserError(f"cannot read {file}: {getattr(error, 'strerror', None) or error}") from error


def _given(value: Any) -> Any:
    """Returns a row's value. NaN, which pandas writes for a missing value, becomes None."""
    return None if isinstance(value, float) and math.isnan(value) else value


def is_rows(file: Path) -> bool:
    """Returns whether a file's name says that it holds rows."""
    return file.suffix in FORMATS or file.name.endswith(PACKED)


_HEAD_BYTES = 64 << 10
_BATCH_BYTES = 8 << 20
_BATCH_ROWS = 1024
_MOST_IN_COLUMN = 256 << 20
"""Bytes of one column in one group of rows. They may be a single page, which is unpacked at once."""


def _read_lines(file: Path) -> Iterator[dict[str, Any] | str]:
    with open_plain(file) as plain:
        lines = gzip.GzipFile(fileobj=plain) if file.name.endswith(PACKED) else plain
        _check_lines(file, lines.read(_HEAD_BYTES))
        lines.seek(0)
        # No line can fill the memory: of a longer one only its number is kept.
        while line := lines.readline(_MAX_LINE_BYTES):
            if len(line) == _MAX_LINE_BYTES and not line.endswith(b"\n"):
                while line and not line.endswith(b"\n"):
                    line = lines.readline(_MAX_LINE_BYTES)
                yield f"it is longer than {_MAX_LINE_BYTES:,} bytes"
            elif line.strip():
                yield _row(line)


def _check_lines(file: Path, head: bytes) -> None:
    """Raises UserError if a file that begins with `head` is of another format: each of its lines would be refused."""
    # A character may be cut at the end of the head.
    text = codecs.getincrementaldecoder("utf-8-sig")(errors="replace").decode(head).lstrip()
    first = text.partition("\n")[0].strip()
    if "\x00" in text or head.startswith(b"\x1f\x8b"):
        raise UserError(f"{file} is not UTF-8 text: save it in that encoding, uncompressed")
    if first == "{" or first.startswith("["):
        raise UserError(f"{file} is not one JSON object a line, but one value over the whole file: write a row a line")
    if not first.startswith("{") and re.search(r"[^\s,;\t][,;\t]", first):
        raise UserError(f"{file} looks like CSV, and not like rows of JSON: write one JSON object a line")


def _row(line: bytes) -> dict[str, Any] | str:
    try:
        row = json.loads(line.decode("utf-8-sig"))
    except UnicodeDecodeError:
        return "not UTF-8 text: save the file in that encoding"
    except (ValueError, RecursionError) as error:
        # ValueError is also raised for numbers with too many digits.
        return f"not JSON: {str(error)[:200]}"
    # JSON can spell half of a surrogate pair, which no file in UTF-8 and no tokenizer takes.
    if b"\\ud" in line.lower() and not _is_text(json.dumps(row, ensure_ascii=False)):
        return "no text: half of a surrogate pair stands in it"
    return cast(dict[str, Any], row) if isinstance(row, dict) else "not a JSON object"


def _is_text(text: str) -> bool:
    try:
        text.encode()
    except UnicodeEncodeError:
        return False
    return True


def rows_at_once(metadata: Any) -> int:
    """Returns how many rows of a Parquet file are read together, so that they take about `_BATCH_BYTES`.

    Raises OSError if even one may take too many.
    """
    # A text that many rows share is stored once and read for each of them: 3,000 rows of 1 MB make a file of 903 bytes.
    # No text is longer than all of its column in a group of rows.
    largest = 1
    for group in range(metadata.num_row_groups):
        columns = metadata.row_group(group)
        largest = max([largest, *(columns.column(i).total_uncompressed_size for i in range(columns.num_columns))])
    if largest > _MOST_IN_COLUMN:
        raise OSError(
            f"a group of its rows has {largest >> 20} MiB in one column, more than {_MOST_IN_COLUMN >> 20}: "
            "write it with fewer rows in a group"
        )
    return max(1, min(_BATCH_ROWS, _BATCH_BYTES // largest))


def _read_parquet(file: Path) -> Iterator[dict[str, Any] | str]:
    arrow = require_arrow(file)
    parquet = require("pyarrow.parquet", "data", str(file))
    try:
        with open_plain(file) as plain:
            opened = parquet.ParquetFile(plain)
            for batch in opened.iter_batches(batch_size=rows_at_once(opened.metadata)):
                yield from batch.to_pylist()
    except arrow.ArrowException as error:
        raise UserError(f"cannot read {file}: {str(error).splitlines()[0]}") from error


def fixed_tasks(source: Path) -> list[Task]:
    """Returns the valid tasks of a run's folder, or the rows of a file of `redqueen tasks export`, in order.

    Raises UserError if there are none, or the first row that is no task, with its number.
    """
    if source.is_dir() and not is_exported(source):
        with ArchiveReader(RunDirectory(source).archive) as reader:
            tasks = [row.task() for row in reader.every(TaskRow)]
    else:
        tasks = list(_exported(source))
    if not tasks:
        raise UserError(f"{source} holds no tasks")
    return tasks


@read_once
def _exported(file: Path) -> tuple[Task, ...]:
    rows = enumerate(exported_rows(file), 1)
    return tuple(replace(task_of(row, f"{file}, row {number}"), id=f"row-{number}", author=OWN) for number, row in rows)


def exported_rows(file: Path) -> Iterator[dict[str, Any]]:
    """Yields the rows of an exported file. Raises UserError for a line that is none."""
    for number, row in enumerate(read_rows(file), 1):
        if isinstance(row, str):
            raise UserError(f"{file}, row {number}: {row}")
        yield row


def exported_tasks(file: Path) -> list[TaskRecord]:
    """Returns the tasks of an exported file, in order. Raises UserError for the first row that is none."""
    columns = TypeAdapter(TaskRecord)
    found: list[TaskRecord] = []
    for number, row in enumerate(exported_rows(file), 1):
        what = f"{file}, row {number}"
        task_of(row, what)
        try:
            found.append(columns.validate_python(row))
        except ValidationError as error:
            first = error.errors()[0]
            raise UserError(
                f"{what}, {first['loc'][0]}: {first['msg']}. Write the file by redqueen tasks export"
            ) from error
    return found


def task_of(row: Mapping[str, Any], what: str = "a row") -> Task:
    """Returns the task of a row of an exported file. Raises UserError, which begins with `what`, if the row is none."""
    kind = str(row.get("kind"))
    inputs = _texts(row.get("inputs"))
    outputs = _texts(row.get("outputs"))
    program = row.get("program")
    if not is_kind(kind) or not isinstance(program, str) or not inputs or len(inputs) != len(outputs):
        raise UserError(
            f"{what} is no task of redqueen tasks export: it needs kind, program, and as many inputs as outputs, and "
            f"has kind={kind!r}, {len(inputs)} inputs and {len(outputs)} outputs. To take programs from elsewhere: "
            "redqueen tasks import, then game.seeds=FILE"
        )
    return Task(
        id=str(row.get("id") or ""),
        kind=kind,
        author="",
        step=0,
        program=program.removeprefix("\ufeff"),
        pairs=tuple(Pair(given, output) for given, output in zip(inputs, outputs, strict=True)),
        message=str(row.get("message") or ""),
    )


def _texts(value: object) -> Sequence[str]:
    """Returns a list of texts, or nothing if it is none."""
    texts = cast(Sequence[object], value) if isinstance(value, list | tuple) else ()
    return cast(Sequence[str], texts) if all(isinstance(text, str) for text in texts) else ()
