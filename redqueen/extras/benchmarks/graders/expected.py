"""What reference solutions give, kept in a file, so that they run once and not before each evaluation."""

from __future__ import annotations

import hashlib
import json
import platform
import sqlite3
import threading
from collections.abc import Mapping
from contextlib import closing
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from redqueen.evals.graders import jailed
from redqueen.jail import encode_arguments
from redqueen.jail.child.values import CodecError, decode

_FIELDS = ("task_id", "prompt", "canonical_solution", "entry_point", "base_input", "plus_input")


@dataclass(frozen=True, slots=True, kw_only=True)
class Expected:
    """What the reference gives, by the list of inputs ("base" and "plus")."""

    outputs: Mapping[str, list[Any]]
    """One for each input, as the jail carries it."""
    cpu_s: Mapping[str, list[float]]
    """CPU seconds of each process that computed some of them."""


def key_of(row: Mapping[str, Any]) -> str:
    """Returns the checksum of everything that the expected outputs depend on."""
    dependencies = [row[field] for field in _FIELDS]
    dependencies += [Path(jailed.__file__).read_text(encoding="utf-8"), platform.python_version()]
    return hashlib.sha256(json.dumps(dependencies).encode()).hexdigest()


class ExpectedFile:
    """An SQLite file of expected outputs by their checksum. Without a path it keeps nothing."""

    def __init__(self, path: Path | None) -> None:
        self._path = path
        self._lock = threading.Lock()
        if path is not None:
            path.parent.mkdir(parents=True, exist_ok=True)
            self._execute("CREATE TABLE IF NOT EXISTS expected (key TEXT PRIMARY KEY, said BLOB, sum TEXT)")

    def read(self, key: str) -> Expected | None:
        """Returns what is kept; None if there is nothing or the bytes are not those that were written."""
        rows = self._execute("SELECT said, sum FROM expected WHERE key = ?", key)
        if not rows or hashlib.sha256(rows[0][0]).hexdigest() != rows[0][1]:
            return None
        try:
            outputs, cpu_s = decode(rows[0][0])
        except CodecError:
            return None
        return Expected(outputs=outputs, cpu_s=cpu_s)

    def write(self, key: str, expected: Expected) -> None:
        encoded = encode_arguments((dict(expected.outputs), dict(expected.cpu_s)))
        self._execute(
            "INSERT OR REPLACE INTO expected VALUES (?, ?, ?)", key, encoded, hashlib.sha256(encoded).hexdigest()
        )

    def _execute(self, statement: str, *values: Any) -> list[Any]:
        if self._path is None:
            return []
        with self._lock, closing(sqlite3.connect(self._path)) as connection, connection:
            return connection.execute(statement, values).fetchall()
