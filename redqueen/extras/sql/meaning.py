"""What a query means on given tables: the text for SQLite, and the reasons why there is none.

Only what gives one answer on every build of SQLite, in whatever order rows are stored, is admitted:

- each value has one type, which the tables and the query decide: whole number, real number or text. No type is
  converted into another but by CAST, so that affinities play no part. Whole numbers stay below 2**53, and sums and
  means are over whole numbers only, so that all of them are exact;
- real numbers become no text. `round` is ours (`runner.py`): it refuses what lies between two results;
- a column beside an aggregate is one of GROUP BY; a query that is used as a value gives one row;
- only the outermost query orders or limits, and it limits only what it orders. Ties are looked for in the result.

What SQLite gets is written here anew: no word of a model's text comes to it as it was.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field, replace

from redqueen.extras.sql.database import Database
from redqueen.extras.sql.grammar import (
    Among,
    Call,
    Case,
    Cast,
    Core,
    Expression,
    Inner,
    Literal,
    Name,
    Operation,
    Query,
    Source,
)
from redqueen.extras.sql.tokens import ForbiddenError, QueryError
from redqueen.extras.sql.tree import AGGREGATES, has_aggregate
from redqueen.extras.sql.values import (
    EXACT,
    FUNCTIONS,
    Value,
    arithmetic,
    call_of,
    comparable,
    joined,
    literal,
    need,
)

_TYPES = {"integer": "INTEGER", "int": "INTEGER", "real": "REAL", "float": "REAL", "text": "TEXT"}
MOST_BRACKETS = 22
"""So deep each build can read; most have a stack of a hundred words."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Meaning:
    """What SQLite is asked, and how its rows are read."""

    sql: str
    width: int
    """The columns of the result; further ones are what it is ordered by."""
    keys: tuple[int, ...]
    """The columns that the rows are ordered by; without one they have no order."""
    first: int
    """How many of the ordered rows are left out."""
    count: int | None
    """How many of them are the result; None: all."""


@dataclass(slots=True)
class Scope:
    """The columns that names can stand for in one SELECT."""

    parent: Scope | None
    columns: list[tuple[str, str, Value]] = field(default_factory=list[tuple[str, str, Value]])
    """Source, name, value."""
    rows: int = 1
    """How many rows its sources make at most."""
    aliases: dict[str, Expression] = field(default_factory=dict[str, Expression])
    grouped: tuple[Expression, ...] | None = None
    """What it is grouped by; None: it has no groups."""
    group_sql: frozenset[str] = frozenset()
    free: bool = True
    """Whether any column may stand here, as inside an aggregate."""
    within: bool = False
    """Whether this is inside an aggregate, which then is no place for another."""


def meaning(query: Query, database: Database) -> Meaning:
    """Returns what a query means on a database. Raises QueryError."""
    writer = _Writer(database)
    if query.limit is not None and not query.order:
        raise QueryError("LIMIT without ORDER BY takes any rows")
    meant = writer.outermost(query)
    if _brackets(meant.sql) > MOST_BRACKETS:
        raise QueryError("its expressions are nested too deep")
    return meant


def _brackets(sql: str) -> int:
    """Returns how deep the brackets in a text for SQLite are nested; those of constants count too."""
    depth = deepest = 0
    for sign in sql:
        depth += (sign == "(") - (sign == ")")
        deepest = max(deepest, depth)
    return deepest


class _Writer:
    def __init__(self, database: Database) -> None:
        self.database = database
        self.named: list[dict[str, Query]] = []
        self.sources = 0

    # Queries.

    def outermost(self, query: Query) -> Meaning:
        self.named.append(dict(query.named))
        places = [_place(query, term) for term, _ in query.order]
        extra = [term for (term, _), place in zip(query.order, places, strict=True) if place is None]
        single = len(query.cores) == 1 and not query.first.distinct
        if extra and not single:
            raise QueryError("it can only be ordered by one of its columns")
        sql, values, _ = self.cores(query, None, extra)
        width = len(values)
        following = iter(range(width, width + len(extra)))
        keys = tuple(next(following) if place is None else place for place in places)
        if any(key >= width + len(extra) for key in keys):
            raise QueryError("ORDER BY a column that is not there")
        if keys:
            words = ["DESC" if descends else "ASC" for _, descends in query.order]
            sql += " ORDER BY " + ", ".join(f"{key + 1} {word}" for key, word in zip(keys, words, strict=True))
        self.named.pop()
        return Meaning(sql=sql, width=width, keys=keys, first=query.offset, count=query.limit)

    def cores(
        self, query: Query, parent: Scope | None, extra: Sequence[Expression] = ()
    ) -> tuple[str, list[tuple[str, Value]], int]:
        """Returns the SELECTs of a query without its order, its columns with their names, and its rows at most.

        `extra` are further columns of the first SELECT, which are not counted as such.
        """
        sql, columns, rows = self.core(query.first, parent, extra)
        for operator, core in zip(query.operators, query.cores[1:], strict=True):
            text, own, more = self.core(core, parent, ())
            if len(own) != len(columns):
                raise QueryError("the SELECTs have different numbers of columns")
            columns = [
                (name, joined("", [value, other])) for (name, value), (_, other) in zip(columns, own, strict=True)
            ]
            sql += f" {operator.upper()} {text}"
            rows += more
        return sql, columns, rows

    def core(
        self, core: Core, parent: Scope | None, extra: Sequence[Expression]
    ) -> tuple[str, list[tuple[str, Value]], int]:
        """Returns a SELECT, its columns with their names, and its rows at most."""
        scope = Scope(parent)
        sources = "".join(self.source(source, scope, not number) for number, source in enumerate(core.sources))
        parts = [f" FROM {sources}"] if sources else []
        scope.aliases = {alias: value for value, alias in core.columns if alias}
        if core.where is not None:
            parts.append(f" WHERE {self.condition(core.where, scope)}")
        if core.having is not None and not core.groups:
            raise QueryError("HAVING without GROUP BY")
        if core.groups or any(map(has_aggregate, [*(value for value, _ in core.columns), *extra])):
            self._group(core, scope, parts)
        columns = self._columns(core, replace(scope, aliases={}))
        if core.having is not None:
            parts.append(f" HAVING {self.condition(core.having, scope)}")
        texts = [f'{value.sql} AS "c{index + 1}"' for index, (_, value) in enumerate(columns)]
        texts += [self.expression(term, scope).sql for term in extra]
        word = "SELECT DISTINCT" if core.distinct else "SELECT"
        return f"{word} {', '.join(texts)}{''.join(parts)}", columns, scope.rows

    def _group(self, core: Core, scope: Scope, parts: list[str]) -> None:
        """Makes a scope one of groups."""
        texts: list[str] = []
        expanded: list[Expression] = []
        for group in core.groups:
            if isinstance(group, Literal) or has_aggregate(group):
                raise QueryError("GROUP BY needs columns")
            if isinstance(group, Name) and not group.table and not self._own(group, scope):
                group = scope.aliases.get(group.column, group)
                if has_aggregate(group):
                    raise QueryError("GROUP BY an aggregate")
            expanded.append(group)
            texts.append(self.expression(group, scope).sql)
        scope.grouped = tuple(expanded)
        scope.group_sql = frozenset(texts)
        scope.free = False
        if texts:
            parts.append(f" GROUP BY {', '.join(texts)}")

    def _columns(self, core: Core, scope: Scope) -> list[tuple[str, Value]]:
        columns: list[tuple[str, Value]] = []
        for expression, alias in core.columns:
            if isinstance(expression, Name) and expression.column == "*":
                stars = [one for one in scope.columns if expression.table in ("", one[0])]
                if not stars:
                    raise QueryError("nothing for * to stand for")
                for source, name, _ in stars:
                    columns.append((name, self.expression(Name(source, name), scope)))
            else:
                name = alias or (expression.column if isinstance(expression, Name) else "")
                columns.append((name, self.expression(expression, scope)))
        return columns

    def source(self, source: Source, scope: Scope, first: bool) -> str:
        """Returns a source as it stands in FROM, and adds its columns to the scope."""
        if source.alias and any(name == source.alias for name, _, _ in scope.columns):
            raise QueryError(f"two tables are called {source.alias}")
        self.sources += 1
        own = f'"s{self.sources}"'
        text, columns, rows = self._table(source.of)
        for name, column, kind, bound in columns:
            scope.columns.append((source.alias, name, Value(f"{own}.{column}", kind, bound)))
        scope.rows *= max(1, rows)
        if first:
            if source.on is not None:
                raise QueryError("ON without JOIN")
            return f"{text} AS {own}"
        join = {"cross": "CROSS JOIN", "inner": "JOIN", "left": "LEFT JOIN"}[source.join]
        on = f" ON {self.condition(source.on, scope)}" if source.on is not None else ""
        return f" {join} {text} AS {own}{on}"

    def _table(self, of: str | Query) -> tuple[str, list[tuple[str, str, str, float]], int]:
        """Returns a table's text, its columns (name, name for SQLite, kind, bound), and its rows at most."""
        if isinstance(of, str):
            for level in range(len(self.named) - 1, -1, -1):
                if of in self.named[level]:
                    return self._named(of, level)
            table = self.database.tables.get(of)
            if table is None:
                raise QueryError(f"there is no table {of}")
            columns = [
                (name, f'"{name}"', kind, bound)
                for name, (kind, bound) in zip(table.columns, table.kinds(), strict=True)
            ]
            return f'"{of}"', columns, len(table.rows)
        sql, values, rows = self.inner(of, None)
        columns = [(name, f'"c{index + 1}"', value.kind, value.bound) for index, (name, value) in enumerate(values)]
        return f"({sql})", columns, rows

    def _named(self, name: str, level: int) -> tuple[str, list[tuple[str, str, str, float]], int]:
        # A query of WITH knows those before it, and not itself.
        saved = self.named
        queries = list(saved[level].items())
        before = dict(queries[: [each for each, _ in queries].index(name)])
        self.named = [*saved[:level], before]
        try:
            return self._table(saved[level][name])
        finally:
            self.named = saved

    def inner(self, query: Query, scope: Scope | None) -> tuple[str, list[tuple[str, Value]], int]:
        """Returns a query inside another one, as `cores` does. Without a scope it is in FROM, and knows no row."""
        if not query.plain:
            raise QueryError("ORDER BY and LIMIT belong to the end of the whole query")
        self.named.append(dict(query.named))
        inside = self.cores(query, scope)
        self.named.pop()
        return inside

    # Expressions.

    def condition(self, expression: Expression, scope: Scope) -> str:
        value = self.expression(expression, scope)
        if value.kind not in ("integer", "null"):
            raise QueryError(f"a {value.kind} is no condition")
        return value.sql

    def expression(self, expression: Expression, scope: Scope) -> Value:
        """Returns an expression for SQLite. Raises QueryError."""
        if not scope.free and scope.grouped is not None and expression in scope.grouped:
            return self.expression(expression, replace(scope, free=True))
        value = self._written(expression, scope)
        if value.kind == "integer" and value.bound > EXACT:
            raise QueryError("its numbers may be too large")
        return value

    def _written(self, expression: Expression, scope: Scope) -> Value:
        match expression:
            case Literal(value):
                return literal(value)
            case Name():
                return self._name(expression, scope)
            case Call():
                return self._call(expression, scope)
            case Operation():
                return self._operation(expression, scope)
            case Case(cases, other):
                values = [self.expression(value, scope) for _, value in cases]
                values.append(self.expression(other, scope))
                conditions = [self.condition(condition, scope) for condition, _ in cases]
                text = "".join(f" WHEN {c} THEN {v.sql}" for c, v in zip(conditions, values, strict=False))
                return joined(f"(CASE{text} ELSE {values[-1].sql} END)", values)
            case Cast(value, kind):
                return self._cast(self.expression(value, scope), kind)
            case Among(value, items):
                return self._among(self.expression(value, scope), items, scope)
            case Inner(query, exists):
                sql, values, _ = self.inner(query, scope)
                if exists:
                    return Value(f"(EXISTS ({sql}))", "integer", 1)
                _check_single(query)
                (_, value), *more = values
                if more:
                    raise QueryError("a query of several columns is no value")
                return replace(value, sql=f"({sql})")

    def _own(self, name: Name, scope: Scope) -> list[Value]:
        return [
            value for source, column, value in scope.columns if column == name.column and name.table in ("", source)
        ]

    def _name(self, name: Name, scope: Scope) -> Value:
        at: Scope | None = scope
        while at is not None:
            found = self._own(name, at)
            alias = None if name.table else at.aliases.get(name.column)
            if len(found) > 1:
                raise QueryError(f"{name.column} is a column of several tables")
            if found and alias is not None and self._other(alias, found[0], at):
                raise QueryError(f"{name.column} is a column and the name of another value")
            if found:
                if at is not scope and scope.within:
                    raise QueryError(f"{name.column} belongs to the query around the aggregate")
                if not at.free and found[0].sql not in at.group_sql:
                    raise QueryError(f"{name.column} is neither in GROUP BY nor in an aggregate")
                return found[0]
            if alias is not None:
                return self.expression(alias, replace(at, aliases={}))
            at = at.parent
        raise QueryError(f"there is no column {name.table}{'.' if name.table else ''}{name.column}")

    def _other(self, alias: Expression, value: Value, scope: Scope) -> bool:
        """Whether an alias stands for something else than this column."""
        return not (isinstance(alias, Name) and self._own(alias, scope) == [value])

    def _operation(self, operation: Operation, scope: Scope) -> Value:
        operator = operation.operator
        values = [self.expression(operand, scope) for operand in operation.operands]
        first, second = values[0], values[-1]
        pair = f"({first.sql} {operator.upper()} {second.sql})"
        match operator:
            case "isnull":
                return Value(f"({first.sql} IS NULL)", "integer", 1)
            case "not" | "and" | "or":
                need(values, "integer")
                return Value(f"(NOT {first.sql})" if operator == "not" else pair, "integer", 1)
            case "neg":
                need(values, "integer", "real")
                return replace(first, sql=f"(- {first.sql})")
            case "like":
                need(values, "text")
                return Value(pair, "integer", 1)
            case "||":
                need(values, "text", "integer")
                return Value(pair, "text", 0)
            case "+" | "-" | "*" | "/" | "%":
                return arithmetic(operator, pair, first, second)
            case _:
                comparable(first, second)
                return Value(pair, "integer", 1)

    def _cast(self, value: Value, kind: str) -> Value:
        type_ = _TYPES.get(kind)
        if type_ is None:
            raise QueryError(f"there is no type {kind}: INTEGER, REAL or TEXT")
        need([value], *(("integer", "text") if type_ == "TEXT" else ("integer", "real")))
        return Value(f"CAST({value.sql} AS {type_})", type_.lower(), value.bound)

    def _among(self, value: Value, items: tuple[Expression, ...] | Query, scope: Scope) -> Value:
        if isinstance(items, Query):
            sql, columns, _ = self.inner(items, scope)
            if len(columns) != 1:
                raise QueryError("IN needs a query of one column")
            comparable(value, columns[0][1])
            return Value(f"({value.sql} IN ({sql}))", "integer", 1)
        values = [self.expression(item, scope) for item in items]
        for each in values:
            comparable(value, each)
        return Value(f"({value.sql} IN ({', '.join(each.sql for each in values)}))", "integer", 1)

    def _call(self, call: Call, scope: Scope) -> Value:
        name = call.function
        several = name in ("min", "max") and len(call.arguments) > 1
        if name in AGGREGATES and not several:
            return self._aggregate(call, scope)
        if name not in FUNCTIONS or call.distinct:
            raise ForbiddenError(f"there is no function {name}" + (" of distinct values" if call.distinct else ""))
        if Name("", "*") in call.arguments:
            raise QueryError(f"{name}(*)")
        values = [self.expression(argument, scope) for argument in call.arguments]
        return call_of(name, values, call.arguments)

    def _aggregate(self, call: Call, scope: Scope) -> Value:
        name = call.function
        if scope.within:
            raise QueryError("an aggregate inside an aggregate")
        if scope.grouped is None or len(call.arguments) != 1:
            raise QueryError(f"{name} cannot stand here" if len(call.arguments) == 1 else f"{name} needs one argument")
        (argument,) = call.arguments
        if argument == Name("", "*"):
            if name != "count" or call.distinct:
                raise QueryError(f"{name}(*)")
            return Value("count(*)", "integer", scope.rows)
        value = self.expression(argument, replace(scope, free=True, within=True))
        sql = f"{name}({'DISTINCT ' if call.distinct else ''}{value.sql})"
        if name in ("min", "max"):
            return replace(value, sql=sql)
        if name == "count":
            return Value(sql, "integer", scope.rows)
        if value.kind not in ("integer", "null"):
            raise QueryError(f"{name} is over whole numbers")
        if value.bound * scope.rows > EXACT:
            raise QueryError("its numbers may be too large")
        if name == "sum":
            return Value(sql, "integer", value.bound * scope.rows)
        return Value(sql, "real", value.bound * (scope.rows if name == "total" else 1))


def _place(query: Query, term: Expression) -> int | None:
    """Returns the column of the result that a term of ORDER BY is, None if it is none. Raises QueryError."""
    if isinstance(term, Literal):
        if isinstance(term.value, int) and term.value >= 1:
            return term.value - 1
        raise QueryError("ORDER BY a constant")
    columns = query.first.columns
    # With a star among them the places are others.
    if any(isinstance(value, Name) and value.column == "*" for value, _ in columns):
        return None
    # SQLite takes a name for an alias wherever there is such an alias, and only then for a column of a table.
    if isinstance(term, Name) and not term.table:
        for index, (_, alias) in enumerate(columns):
            if alias == term.column:
                return index
    return next((index for index, (value, _) in enumerate(columns) if value == term), None)


def _check_single(query: Query) -> None:
    """Raises QueryError unless a query gives one row whatever the tables hold."""
    core = query.first
    single = len(query.cores) == 1 and not core.groups and not core.distinct
    if not single or not any(has_aggregate(value) for value, _ in core.columns):
        raise QueryError("a query that is used as a value needs an aggregate and no GROUP BY")
