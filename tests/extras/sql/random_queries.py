"""Draws databases and queries of the language. Most of the queries are admitted; all are valid for SQLite."""

from __future__ import annotations

import random
import sqlite3
from collections.abc import Sequence

from redqueen.extras.sql.database import DIGITS, Cell, Database, Row, Table, in_order

SCHEMA = {"t": ("a", "b", "x"), "u": ("a", "c", "y"), "v": ("c", "x", "z")}
"""Columns from `x` on are texts."""
WORDS = ("ant", "bee", "cat", "Bee", "a b", "it's", "", "50%")


def database(rng: random.Random) -> Database:
    """Draws a database."""
    tables: dict[str, Table] = {}
    for name, columns in SCHEMA.items():
        rows = [tuple(_cell(column, rng) for column in columns) for _ in range(rng.randint(0, 6))]
        tables[name] = Table(columns, tuple(rows))
    return Database(tables)


def _cell(column: str, rng: random.Random) -> Cell:
    if rng.random() < 0.15:
        return None
    return rng.choice(WORDS) if column >= "x" else rng.randint(-3, 9)


class Writer:
    """Writes one query."""

    def __init__(self, rng: random.Random) -> None:
        self.rng = rng
        self.names = 0

    def query(self) -> str:
        """Returns a query, with WITH, set operations and an order now and then."""
        rng = self.rng
        prefix = ""
        if rng.random() < 0.1:
            prefix = "WITH w AS (SELECT a, count(*) AS b, max(x) AS x FROM t GROUP BY a) "
        widths = rng.choice(((0,), (1,), (0, 1), (0, 0), (1, 0, 0)))
        text = self.core(widths, "w" if prefix else None)
        if rng.random() < 0.15:
            operator = rng.choice(("UNION", "UNION ALL", "INTERSECT", "EXCEPT"))
            text += f" {operator} {self.core(widths, None)}"
        if rng.random() < 0.3:
            keys = [f"{place} {rng.choice(('ASC', 'DESC', ''))}" for place in range(1, rng.randint(1, len(widths)) + 1)]
            text += f" ORDER BY {', '.join(keys)}"
            if rng.random() < 0.5:
                text += f" LIMIT {rng.randint(1, 4)}"
                text += f" OFFSET {rng.randint(0, 2)}" if rng.random() < 0.4 else ""
        return prefix + text

    def core(self, widths: Sequence[int], table: str | None) -> str:
        """Returns a SELECT with a column of numbers (0) or of texts (1) for each width."""
        rng = self.rng
        sources = [table or rng.choice(("t", "u", "v")) for _ in range(rng.choice((1, 1, 1, 2, 2, 3)))]
        aliases: list[tuple[str, str]] = []
        text = ""
        for source in sources:
            self.names += 1
            alias = f"r{self.names}"
            aliases.append((alias, source))
            if not text:
                text = self.table(source, alias)
            else:
                join = rng.choice((" JOIN ", " LEFT JOIN ", " LEFT OUTER JOIN ", " INNER JOIN "))
                text += join + self.table(source, alias) + " ON " + self.condition(aliases, 1)
        where = f" WHERE {self.condition(aliases, 2)}" if rng.random() < 0.5 else ""
        if rng.random() < 0.35:
            group = self.column(aliases, rng.randint(0, 1))
            columns = [self.aggregate(aliases) if not kind else f"max({self.column(aliases, 1)})" for kind in widths]
            having = f" HAVING {self.aggregate(aliases)} > {rng.randint(-1, 4)}" if rng.random() < 0.4 else ""
            by = f" GROUP BY {group}{having}" if rng.random() < 0.7 else ""
            return f"SELECT {', '.join(columns)} FROM {text}{where}{by}"
        columns = [self.value(aliases, kind, 2) for kind in widths]
        distinct = "DISTINCT " if rng.random() < 0.2 else ""
        return f"SELECT {distinct}{', '.join(columns)} FROM {text}{where}"

    def table(self, source: str, alias: str) -> str:
        if source != "w" and self.rng.random() < 0.12:
            return f"(SELECT * FROM {source} WHERE {SCHEMA[source][0]} > 0) AS {alias}"
        return f"{source} AS {alias}"

    def column(self, aliases: Sequence[tuple[str, str]], kind: int) -> str:
        alias, source = self.rng.choice(aliases)
        columns = SCHEMA.get(source, SCHEMA["t"])
        return f"{alias}.{self.rng.choice([name for name in columns if (name >= 'x') == bool(kind)])}"

    def value(self, aliases: Sequence[tuple[str, str]], kind: int, depth: int) -> str:
        rng = self.rng
        if depth == 0 or rng.random() < 0.4:
            return self.column(aliases, kind)
        inner = self.value(aliases, kind, depth - 1)
        other = self.value(aliases, kind, depth - 1)
        if kind:
            return rng.choice(
                (
                    f"upper({inner})",
                    f"lower({inner})",
                    f"trim({inner})",
                    f"substr({inner}, {rng.randint(-2, 3)}, {rng.randint(0, 3)})",
                    f"replace({inner}, 'e', 'oo')",
                    f"{inner} || '-' || {other}",
                    f"coalesce({inner}, 'none')",
                    f"nullif({inner}, 'ant')",
                    f"CASE WHEN {self.condition(aliases, 1)} THEN {inner} ELSE {other} END",
                    f"CAST({self.column(aliases, 0)} AS TEXT)",
                    f"max({inner}, {other})",
                )
            )
        number = rng.choice((2, 3, 5, 10))
        return rng.choice(
            (
                f"{inner} + {other}",
                f"{inner} - {number}",
                f"{inner} * {number}",
                f"{inner} / {other}",
                f"{inner} % {number}",
                f"-{inner}",
                f"abs({inner})",
                f"length({self.column(aliases, 1)})",
                f"instr({self.column(aliases, 1)}, 'e')",
                f"coalesce({inner}, {number})",
                f"min({inner}, {other}, {number})",
                f"CASE {inner} WHEN 1 THEN {other} WHEN 2 THEN {number} END",
                f"(SELECT max(k.a) FROM t AS k WHERE k.a < {inner})",
                f"CAST({inner} * 1.5 AS INTEGER)",
                f"({self.condition(aliases, 1)})",
            )
        )

    def aggregate(self, aliases: Sequence[tuple[str, str]]) -> str:
        rng = self.rng
        column = self.column(aliases, 0)
        return rng.choice(
            (
                "count(*)",
                f"count({column})",
                f"count(DISTINCT {column})",
                f"sum({column})",
                f"sum({column} * 2 + 1)",
                f"min({column})",
                f"max({column}) - min({column})",
                f"sum(DISTINCT {column})",
                f"count({self.column(aliases, 1)})",
                f"avg({column})",
                f"round(avg({column}), 1)",
                f"total({column})",
                f"sum({column}) * 1.0 / count(*)",
            )
        )

    def condition(self, aliases: Sequence[tuple[str, str]], depth: int) -> str:
        rng = self.rng
        if depth and rng.random() < 0.3:
            parts = [self.condition(aliases, depth - 1) for _ in range(2)]
            return rng.choice(("{} AND {}", "{} OR {}", "NOT ({} OR {})", "({}) = ({})")).format(*parts)
        number, text = self.column(aliases, 0), self.column(aliases, 1)
        operator = rng.choice(("=", "<>", "!=", "==", "<", "<=", ">", ">="))
        return rng.choice(
            (
                f"{number} {operator} {rng.randint(-2, 6)}",
                f"{number} {operator} {self.column(aliases, 0)}",
                f"{text} {operator} {self.column(aliases, 1)}",
                f"{text} LIKE '%{rng.choice('aeb_')}%'",
                f"{text} NOT LIKE 'b%'",
                f"{number} BETWEEN {rng.randint(-2, 2)} AND {rng.randint(2, 6)}",
                f"{number} NOT BETWEEN 1 AND {self.column(aliases, 0)}",
                f"{number} IN (1, 2, {self.column(aliases, 0)})",
                f"{text} NOT IN ('ant', 'bee')",
                f"{number} IS NULL",
                f"{text} IS NOT NULL",
                f"{number} IN (SELECT a FROM u WHERE c > 1)",
                f"{number} NOT IN (SELECT c FROM v WHERE c IS NOT NULL)",
                f"EXISTS (SELECT 1 FROM v WHERE v.c = {number})",
                f"NOT EXISTS (SELECT * FROM u WHERE u.a = {number} AND u.y = 'bee')",
                f"{number} > (SELECT avg(a) FROM t)",
            )
        )


def plain(query: str, database: Database) -> list[Row] | tuple[Row, ...]:
    """Returns what SQLite alone gives for the text of a query, as the language writes it down."""
    connection = sqlite3.connect(":memory:")
    for name, table in database.tables.items():
        connection.execute(f"CREATE TABLE {name} ({', '.join(table.columns)})")
        connection.executemany(f"INSERT INTO {name} VALUES ({', '.join('?' * len(table.columns))})", table.rows)
    found = connection.execute(query).fetchall()
    connection.close()
    rows = [tuple(round(cell, DIGITS) + 0.0 if isinstance(cell, float) else cell for cell in row) for row in found]
    return tuple(rows) if " ORDER BY " in query else in_order(rows)
