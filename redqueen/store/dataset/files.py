"""Writes tasks to a Parquet or JSONL file, and reads the rows of such a file."""

from __future__ import annotations

import json
from collections.abc import Iterator, Sequence
from dataclasses import asdict
from pathlib import Path
from typing import Any, cast

from redqueen.base.optional import require
from redqueen.base.plain_files import open_plain
from redqueen.errors import UserError
from redqueen.store.dataset.columns import columns
from redqueen.store.dataset.rows import TaskRecord

FORMATS = (".parquet", ".jsonl")
FOLDER_FILE = Path("data") / "tasks.parquet"
"""Where the file lies in a folder that is a whole data set."""
# A row with this many bytes is no task: the sandbox takes no program of more than 64 KiB.
_MAX_LINE_BYTES = 4 << 20


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
    if file.is_dir():
        file = file / FOLDER_FILE
    if file.suffix not in FORMATS:
        raise UserError(f"{file}: the file's name must end in {' or '.join(FORMATS)}")
    try:
        yield from _read_parquet(file) if file.suffix == ".parquet" else _read_lines(file)
    except OSError as error:
        raise UserError(f"cannot read {file}: {error.strerror or error}") from error


_BATCH_BYTES = 8 << 20
_BATCH_ROWS = 1024
_MOST_IN_COLUMN = 256 << 20
"""Bytes of one column in one group of rows. They may be a single page, which is unpacked at once."""


def _read_lines(file: Path) -> Iterator[dict[str, Any] | str]:
    with open_plain(file) as lines:
        # A longer line is read in parts, which are bad lines each; so no line can fill the memory.
        while line := lines.readline(_MAX_LINE_BYTES):
            if line.strip():
                yield _row(line)


def _row(line: bytes) -> dict[str, Any] | str:
    try:
        row = json.loads(line.decode("utf-8-sig"))
    except (ValueError, RecursionError) as error:
        # ValueError is also raised for bytes that are no UTF-8 and for numbers with too many digits.
        return f"not JSON: {str(error)[:200]}"
    return cast(dict[str, Any], row) if isinstance(row, dict) else "not a JSON object"


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
