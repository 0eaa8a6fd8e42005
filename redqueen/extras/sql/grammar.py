"""The grammar: a query as a tree. What is not in it is refused, before SQLite sees anything.

    query   [WITH name AS (query), ...] core {UNION [ALL] | INTERSECT | EXCEPT core} [ORDER BY ...] [LIMIT n [OFFSET n]]
    core    SELECT [DISTINCT] columns [FROM source {join}] [WHERE ...] [GROUP BY ... [HAVING ...]]
    join    , source | [INNER | LEFT [OUTER] | CROSS] JOIN source [ON ...]
    source  table [AS name] | (query) [AS] name

Operators bind as in SQLite. `x BETWEEN a AND b`, `NOT IN` and the like become simpler ones of the same meaning.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from functools import lru_cache

from redqueen.extras.sql.tokens import ForbiddenError, QueryError, Token, tokens

MOST_LEVELS = 24
"""How deep expressions and queries may be nested."""
MOST_SOURCES = 6
"""How many tables all parts of a query may name together."""

# A model that writes one of these is told so: `forbidden`, with the word.
_OUTSIDE_TEXT = (
    "pragma attach detach vacuum insert update delete replace create drop alter begin commit rollback savepoint "
    "release reindex analyze explain returning trigger virtual temp temporary recursive materialized window over "
    "filter collate glob regexp match escape natural using right full indexed values"
)
OUTSIDE = frozenset(_OUTSIDE_TEXT.split())


@dataclass(frozen=True, slots=True)
class Literal:
    """A number, a text or NULL."""

    value: int | float | str | None


@dataclass(frozen=True, slots=True)
class Name:
    """A column, perhaps with its table; `*` is a column of its own."""

    table: str
    """"" if it is not said."""
    column: str


@dataclass(frozen=True, slots=True)
class Call:
    """A function of some arguments; `count(*)` has the argument `Name("", "*")`."""

    function: str
    arguments: tuple[Expression, ...]
    distinct: bool = False


@dataclass(frozen=True, slots=True)
class Operation:
    """An operator and its operands: `not`, `neg`, `isnull`, `and`, `or`, `like`, `=`, `+`, ..."""

    operator: str
    operands: tuple[Expression, ...]


@dataclass(frozen=True, slots=True)
class Case:
    """Conditions with their values, and the value else."""

    cases: tuple[tuple[Expression, Expression], ...]
    other: Expression


@dataclass(frozen=True, slots=True)
class Cast:
    """A value as another type."""

    value: Expression
    type: str


@dataclass(frozen=True, slots=True)
class Among:
    """Whether a value is in a list or in what a query gives."""

    value: Expression
    items: tuple[Expression, ...] | Query


@dataclass(frozen=True, slots=True)
class Inner:
    """A query as a value, or whether it has rows."""

    query: Query
    exists: bool = False


Expression = Literal | Name | Call | Operation | Case | Cast | Among | Inner


@dataclass(frozen=True, slots=True, kw_only=True)
class Source:
    """A table or a query in FROM, and how it is joined to those before it."""

    of: str | Query
    alias: str
    join: str = "cross"
    """`cross`, `inner` or `left`."""
    on: Expression | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Core:
    """One SELECT."""

    distinct: bool
    columns: tuple[tuple[Expression, str], ...]
    """Each with its alias, "" without one."""
    sources: tuple[Source, ...]
    where: Expression | None
    groups: tuple[Expression, ...]
    having: Expression | None


@dataclass(frozen=True, slots=True, kw_only=True)
class Query:
    """SELECTs, the operators between them, and their order."""

    named: tuple[tuple[str, Query], ...] = ()
    """The queries of WITH."""
    cores: tuple[Core, ...]
    operators: tuple[str, ...]
    order: tuple[tuple[Expression, bool], ...] = ()
    """Each with whether it descends."""
    limit: int | None = None
    offset: int = 0

    @property
    def first(self) -> Core:
        """The first SELECT, which names the columns."""
        return self.cores[0]

    @property
    def plain(self) -> bool:
        """Whether it neither orders nor limits."""
        return not self.order and self.limit is None


@lru_cache(maxsize=4096)
def parse(text: str) -> Query:
    """Returns a query's tree. Raises QueryError."""
    parser = _Parser(tokens(text))
    query = parser.query()
    if parser.next.sort != "end":
        raise parser.unexpected()
    return query


@dataclass(slots=True)
class _Parser:
    words: tuple[Token, ...]
    at: int = 0
    levels: int = 0
    sources: int = field(default=0)

    # Reading words.

    @property
    def next(self) -> Token:
        return self.words[self.at] if self.at < len(self.words) else Token("end", "")

    def take(self, *texts: str) -> str:
        """Takes the next word if it is one of these, and returns it; else ""."""
        token = self.next
        if token.sort not in ("word", "sign") or token.text not in texts:
            return ""
        self.at += 1
        return token.text

    def need(self, *texts: str) -> None:
        for text in texts:
            if not self.take(text):
                raise self.unexpected(text)

    def name(self) -> str:
        token = self.next
        if token.sort != "name" or token.text in OUTSIDE:
            raise self.unexpected("a name")
        self.at += 1
        return token.text

    def number(self) -> int:
        token = self.next
        if token.sort != "number" or not token.text.isdigit() or len(token.text) > 4:
            raise self.unexpected("a small whole number")
        self.at += 1
        return int(token.text)

    def unexpected(self, wanted: str = "") -> QueryError:
        token = self.next
        if token.text in OUTSIDE:
            return ForbiddenError(f"{token.text.upper()} is not part of the language")
        said = repr(token.text) if token.text else "the end"
        return QueryError(f"{wanted} instead of {said}" if wanted else f"unexpected {said}")

    def deeper(self) -> None:
        self.levels += 1
        if self.levels > MOST_LEVELS:
            raise QueryError(f"nested deeper than {MOST_LEVELS} levels")

    # Queries.

    def query(self) -> Query:
        self.deeper()
        named: list[tuple[str, Query]] = []
        if self.take("with"):
            while not named or self.take(","):
                name = self.name()
                if name in dict(named):
                    raise QueryError(f"WITH has two queries of the name {name}")
                self.need("as", "(")
                named.append((name, self.query()))
                self.need(")")
        cores = [self.core()]
        operators: list[str] = []
        while operator := self.take("union", "intersect", "except"):
            operators.append(f"{operator} all" if operator == "union" and self.take("all") else operator)
            cores.append(self.core())
        order: list[tuple[Expression, bool]] = []
        if self.take("order"):
            self.need("by")
            while not order or self.take(","):
                term = self.expression()
                order.append((term, self.take("asc", "desc") == "desc"))
        limit = offset = None
        if self.take("limit"):
            limit = self.number()
            offset = self.number() if self.take("offset") else None
        self.levels -= 1
        return Query(
            named=tuple(named),
            cores=tuple(cores),
            operators=tuple(operators),
            order=tuple(order),
            limit=limit,
            offset=offset or 0,
        )

    def core(self) -> Core:
        self.need("select")
        distinct = bool(self.take("distinct"))
        if not distinct:
            self.take("all")
        columns = [self.column()]
        while self.take(","):
            columns.append(self.column())
        sources: list[Source] = []
        if self.take("from"):
            sources.append(self.source("cross"))
            while join := self.join():
                sources.append(self.source(join))
        where = self.expression() if self.take("where") else None
        groups: list[Expression] = []
        having = None
        if self.take("group"):
            self.need("by")
            while not groups or self.take(","):
                groups.append(self.expression())
            having = self.expression() if self.take("having") else None
        return Core(
            distinct=distinct,
            columns=tuple(columns),
            sources=tuple(sources),
            where=where,
            groups=tuple(groups),
            having=having,
        )

    def column(self) -> tuple[Expression, str]:
        if self.take("*"):
            return Name("", "*"), ""
        value = self.starred()
        if self.take("as") or (self.next.sort == "name" and self.next.text not in OUTSIDE):
            return value, self.name()
        return value, ""

    def join(self) -> str:
        if self.take(","):
            return "cross"
        kind = self.take("inner", "left", "cross")
        if kind == "left":
            self.take("outer")
        if kind:
            self.need("join")
            return kind
        return "inner" if self.take("join") else ""

    def source(self, join: str) -> Source:
        self.sources += 1
        if self.sources > MOST_SOURCES:
            raise QueryError(f"more than {MOST_SOURCES} tables")
        of: str | Query
        if self.take("("):
            of = self.query()
            self.need(")")
        else:
            of = self.name()
        named = bool(self.take("as")) or (self.next.sort == "name" and self.next.text not in OUTSIDE)
        alias = self.name() if named else of if isinstance(of, str) else ""
        on = self.expression() if self.take("on") else None
        if on is None and join == "left":
            raise self.unexpected("ON")
        return Source(of=of, alias=alias, join="inner" if on is not None and join == "cross" else join, on=on)

    # Expressions, from what binds least to what binds most.

    def expression(self) -> Expression:
        self.deeper()
        value = self.chain(self.conjunction, "or")
        self.levels -= 1
        return value

    def starred(self) -> Expression:
        """An expression or `table.*`."""
        following = [token.text for token in self.words[self.at + 1 : self.at + 3]]
        if self.next.sort == "name" and following == [".", "*"]:
            table = self.name()
            self.at += 2
            return Name(table, "*")
        return self.expression()

    def chain(self, part: Callable[[], Expression], *operators: str) -> Expression:
        value = part()
        while operator := self.take(*operators):
            value = Operation(operator, (value, part()))
        return value

    def conjunction(self) -> Expression:
        return self.chain(self.negation, "and")

    def negation(self) -> Expression:
        if not self.take("not"):
            return self.equality()
        self.deeper()
        value = Operation("not", (self.negation(),))
        self.levels -= 1
        return value

    def equality(self) -> Expression:
        value = self.relation()
        while True:
            if operator := self.take("=", "!="):
                value = Operation(operator, (value, self.relation()))
            elif self.take("is"):
                negated = bool(self.take("not"))
                self.need("null")
                value = _negated(Operation("isnull", (value,)), negated)
            elif self.next.text in ("not", "in", "like", "between"):
                negated = bool(self.take("not"))
                value = _negated(self.membership(value), negated)
            else:
                return value

    def membership(self, value: Expression) -> Expression:
        if self.take("like"):
            return Operation("like", (value, self.relation()))
        if self.take("between"):
            low = self.relation()
            self.need("and")
            return Operation("and", (Operation(">=", (value, low)), Operation("<=", (value, self.relation()))))
        self.need("in", "(")
        items = self.query() if self.next.text in ("select", "with") else self.list()
        self.need(")")
        return Among(value, items)

    def list(self) -> tuple[Expression, ...]:
        items = [self.expression()]
        while self.take(","):
            items.append(self.expression())
        return tuple(items)

    def relation(self) -> Expression:
        return self.chain(self.sum, "<", "<=", ">", ">=")

    def sum(self) -> Expression:
        return self.chain(self.product, "+", "-")

    def product(self) -> Expression:
        return self.chain(self.concatenation, "*", "/", "%")

    def concatenation(self) -> Expression:
        return self.chain(self.signed, "||")

    def signed(self) -> Expression:
        while self.take("+"):
            pass
        if not self.take("-"):
            return self.value()
        self.deeper()
        value = self.signed()
        self.levels -= 1
        if isinstance(value, Literal) and isinstance(value.value, int | float):
            return Literal(-value.value)
        return Operation("neg", (value,))

    def value(self) -> Expression:
        token = self.next
        if token.sort in ("number", "text"):
            self.at += 1
            return Literal(_literal(token))
        if self.take("null"):
            return Literal(None)
        if self.take("("):
            value = Inner(self.query()) if self.next.text in ("select", "with") else self.expression()
            self.need(")")
            return value
        if self.take("exists"):
            self.need("(")
            query = self.query()
            self.need(")")
            return Inner(query, exists=True)
        if self.take("case"):
            return self.case()
        if self.take("cast"):
            self.need("(")
            value = self.expression()
            self.need("as")
            kind = self.name()
            self.need(")")
            return Cast(value, kind)
        # SQLite has functions with the names of statements.
        called = [each.text for each in self.words[self.at + 1 : self.at + 2]] == ["("]
        if token.sort == "name" and called:
            self.at += 2
            return self.call(token.text)
        name = self.name()
        return Name(name, self.name()) if self.take(".") else Name("", name)

    def call(self, function: str) -> Expression:
        if self.take("*"):
            self.need(")")
            return Call(function, (Name("", "*"),))
        distinct = bool(self.take("distinct"))
        arguments = () if self.next.text == ")" else self.list()
        self.need(")")
        return Call(function, arguments, distinct)

    def case(self) -> Expression:
        subject = None if self.next.text == "when" else self.expression()
        cases: list[tuple[Expression, Expression]] = []
        while self.take("when"):
            condition = self.expression()
            self.need("then")
            if subject is not None:
                condition = Operation("=", (subject, condition))
            cases.append((condition, self.expression()))
        if not cases:
            raise self.unexpected("WHEN")
        other = self.expression() if self.take("else") else Literal(None)
        self.need("end")
        return Case(tuple(cases), other)


def _negated(value: Expression, negated: bool) -> Expression:
    return Operation("not", (value,)) if negated else value


def _literal(token: Token) -> int | float | str:
    if token.sort == "text":
        return token.text[1:-1].replace("''", "'")
    if len(token.text) > 15:
        raise QueryError("a number of more than 15 digits")
    return int(token.text) if token.text.isdigit() else float(token.text)
