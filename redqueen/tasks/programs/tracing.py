"""The work of a program on an input, written as a person would on paper: what each line that runs works out.

    def f(words, n):                 f(['b', 'a'], 3)
        words.sort()                 words = ['a', 'b']
        return words[0] * (n - 1)    return ['a', 'b'][0] * (3 - 1) -> 'a' * 2 -> 'aa'

A line first has the values of its names; then everything that can be computed from values is computed at once, until
one value is left. What a loop runs is written once for each pass. Lambdas, formatted texts and the inside of a
comprehension are one step. Scratchpads of this kind: Nye et al. 2021, arXiv:2112.00114.

The values come from running the program: `TracedProgram.instrumented` is the program with each expression noted, which
the jail runs like any other, and `TracedProgram.work` writes what the notes tell.
"""

from __future__ import annotations

import ast
import copy
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from typing import TypeVar

from redqueen.tasks.programs import ProgramError, parse
from redqueen.tasks.programs.normal_form import ENTRY

ARROW = " -> "
MOST_NOTES = 200
"""A program that would note more has no work."""
MOST_CHARACTERS = 120
"""A program with a value whose text is longer has no work."""
_TRACED = "_traced"
_RECORDER = f"""

_notes = []


def _note(number, value):
    if len(_notes) == {MOST_NOTES}:
        raise OverflowError
    text = ""
    if type(value) in (int, float, bool, str, list, tuple, dict, set, type(None)):
        text = repr(value)
    if len(text) > {MOST_CHARACTERS}:
        raise OverflowError
    _notes.append((number, text))
    return value


def {ENTRY}(*arguments):
    _notes.clear()
    {_TRACED}(*arguments)
    return list(_notes)
"""
Note = tuple[int, str]
"""The number of an expression, and what it was worth as a literal; "" if no literal says it."""
_Node = TypeVar("_Node", bound=ast.expr)
_Change = Callable[[ast.expr], ast.expr]


class TracedProgram:
    """A program that can tell what the expressions of its function were worth."""

    def __init__(self, program: str) -> None:
        """Raises ProgramError if the text is no program that defines `f` once."""
        self._module = parse(program)
        functions = [node for node in self._module.body if isinstance(node, ast.FunctionDef) and node.name == ENTRY]
        if len(functions) != 1:
            raise ProgramError(f"it does not define {ENTRY} once")
        self._expressions: list[ast.expr] = []
        """The noted expressions, in the order of their numbers."""
        self._starts: dict[int, str] = {}
        """What stands before an expression that makes a line of work, by its number."""
        function = copy.deepcopy(functions[0])
        function.name = _TRACED
        function.body = list(self._block(function.body))
        self._function = function

    @property
    def instrumented(self) -> str:
        """A program whose `f` returns the notes of a call, in the order in which they were made."""
        # Only the first call is written out. A function that calls itself calls the program as it was.
        module = ast.Module([*self._module.body, self._function], [])
        renamed = _Renamed().visit(copy.deepcopy(module))
        return ast.unparse(ast.fix_missing_locations(renamed)) + _RECORDER

    def work(self, notes: Iterable[Note]) -> list[str] | None:
        """Returns the lines of work that the notes of a call tell, the last one with what it returned.

        None if no note tells what it returned. Raises ProgramError if the notes are not of this program.
        """
        lines: list[str] = []
        values: dict[int, str] = {}
        for number, text in notes:
            if not 0 <= number < len(self._expressions):
                raise ProgramError("notes of another program")
            values[number] = text
            start = self._starts.get(number)
            if start is None:
                continue
            steps = _reductions(self._expressions[number], values)
            values = {}
            if start == "return":
                # It always has an arrow, since the answer is what stands behind the last one.
                first = f" {steps[0]}" if len(steps) > 1 else f"{ARROW}{steps[0]}"
                return [*lines, start + ARROW.join([first, *steps[1:]])]
            lines.append(start + ARROW.join(steps))
        return None

    def _block(self, body: Sequence[ast.stmt]) -> Iterator[ast.stmt]:
        for statement in body:
            yield from self._statement(statement)

    def _statement(self, statement: ast.stmt) -> Iterator[ast.stmt]:
        """Yields a statement whose expressions are noted, and statements that note what it changed."""
        match statement:
            case ast.Return(value):
                statement.value = self._line("return", value or ast.Constant(None))
            case ast.Assign(targets=[ast.Name() | ast.Tuple() as target], value=value):
                statement.value = self._line(f"{_spelled(target)} = ", value)
            case ast.AugAssign(target=ast.Name()):
                yield from self._augmented(statement)
                return
            case ast.If(test, body, orelse) | ast.While(test, body, orelse):
                word = "if" if isinstance(statement, ast.If) else "while"
                if not isinstance(test, ast.Constant):
                    statement.test = self._line(f"{word} ", test)
                statement.body = list(self._block(body))
                statement.orelse = list(self._block(orelse))
            case ast.For(target, _, body, orelse):
                statement.body = [self._told(target), *self._block(body)]
                statement.orelse = list(self._block(orelse))
            case _:
                changed = _changed(statement)
                if changed is not None:
                    yield from (statement, self._told(changed))
                    return
        yield statement

    def _augmented(self, statement: ast.AugAssign) -> Iterator[ast.stmt]:
        """Yields `x += 3` and its notes. It is written `x = 5 + 3 -> 8`, and a list is still changed in place."""
        name = ast.unparse(statement.target)
        before = ast.Name(name, ast.Load())
        whole = ast.BinOp(before, statement.op, statement.value)
        yield ast.Expr(self._noted(before))
        statement.value = self._noted(statement.value)
        yield statement
        number = self._number(whole)
        self._starts[number] = f"{name} = "
        yield ast.Expr(_note_call(number, ast.Name(name, ast.Load())))

    def _told(self, target: ast.expr) -> ast.stmt:
        """Returns the statement that makes a line of what a name holds now, e.g. `words = ['a', 'b']`."""
        text = _spelled(target)
        return ast.Expr(self._line(f"{text} = ", ast.parse(text, mode="eval").body))

    def _line(self, start: str, value: ast.expr) -> ast.expr:
        """Returns an expression that makes a line of work, noted, with all that is computed on the way."""
        noted = self._noted(value)
        self._starts[_number_of(value)] = start
        return noted

    def _noted(self, node: ast.expr) -> ast.expr:
        """Returns the call that notes an expression and everything inside it."""
        inside = _with_operands(node, lambda operand: operand if _is_literal(operand) else self._noted(operand))
        return _note_call(self._number(node), inside)

    def _number(self, node: ast.expr) -> int:
        """Numbers an expression that is noted."""
        vars(node)["number"] = len(self._expressions)
        self._expressions.append(node)
        return _number_of(node)


class _Renamed(ast.NodeTransformer):
    """Calls the function `f` `_f`, since the program that tells the notes is `f`."""

    def visit_FunctionDef(self, node: ast.FunctionDef) -> ast.FunctionDef:
        node.name = f"_{ENTRY}" if node.name == ENTRY else node.name
        self.generic_visit(node)
        return node

    def visit_Name(self, node: ast.Name) -> ast.Name:
        return ast.Name(f"_{ENTRY}", node.ctx) if node.id == ENTRY else node


def _spelled(target: ast.expr) -> str:
    """Returns the text of what is assigned to: `i, c` and not `(i, c)`."""
    text = ast.unparse(target)
    return text[1:-1] if isinstance(target, ast.Tuple) and target.elts else text


def _note_call(number: int, value: ast.expr) -> ast.expr:
    return ast.Call(ast.Name("_note", ast.Load()), [ast.Constant(number), value], [])


def _number_of(node: ast.expr) -> int:
    """Returns the number of an expression; -1 if it is not noted."""
    number: int = vars(node).get("number", -1)
    return number


def _is_literal(node: ast.expr) -> bool:
    """Returns whether an expression is a value as it stands."""
    return isinstance(node, ast.Constant) or (
        isinstance(node, ast.UnaryOp) and isinstance(node.op, ast.USub) and isinstance(node.operand, ast.Constant)
    )


def _changed(statement: ast.stmt) -> ast.expr | None:
    """Returns the name whose value a statement changes in place: `words` of `words.sort()`, `d` of `d[k] = v`."""
    match statement:
        case ast.Expr(ast.Call(func=ast.Attribute(value=target))):
            pass
        case ast.Assign(targets=[ast.Subscript(value=target)]) | ast.AugAssign(target=ast.Subscript(value=target)):
            pass
        case _:
            return None
    while isinstance(target, ast.Subscript):
        target = target.value
    return target if isinstance(target, ast.Name) else None


def _with_operands(node: _Node, change: _Change) -> _Node:
    """Returns a copy of an expression in which `change` has replaced what is computed before it, in its own place."""
    made = copy.copy(node)
    match made:
        case ast.Lambda() | ast.JoinedStr() | ast.Constant() | ast.Name():
            pass
        case ast.ListComp() | ast.SetComp() | ast.DictComp() | ast.GeneratorExp():
            # All else in it is computed once for each element.
            first = copy.copy(made.generators[0])
            first.iter = change(first.iter)
            made.generators = [first, *made.generators[1:]]
        case ast.NamedExpr():
            made.value = change(made.value)
        case ast.Call():
            if isinstance(made.func, ast.Attribute):
                made.func = _with_operands(made.func, change)
            made.args = [_operand(argument, change) for argument in made.args]
            made.keywords = [ast.keyword(word.arg, change(word.value)) for word in made.keywords]
        case _:
            for name, field in ast.iter_fields(node):
                if isinstance(field, ast.expr):
                    setattr(made, name, _operand(field, change))
                elif isinstance(field, list):
                    # It also holds operators, and None for the key of `**`.
                    setattr(made, name, [_operand(x, change) if isinstance(x, ast.expr) else x for x in field])
    return made


def _operand(part: ast.expr, change: _Change) -> ast.expr:
    """Returns a part of an expression, changed if it has a value by itself."""
    match part:
        case ast.Starred() | ast.Slice():
            return _with_operands(part, change)
        case ast.Tuple(elts) if any(isinstance(element, ast.Slice) for element in elts):
            return part
        case _:
            return change(part)


def _reductions(root: ast.expr, values: Mapping[int, str]) -> list[str]:
    """Returns the forms of an expression on the way to its value, each different from the one before.

    `values` has what was noted. What is missing there was not computed, such as the second half of `a and b`.
    """
    operands: dict[int, list[int]] = {}
    names: list[int] = []

    def collect(node: ast.expr) -> ast.expr:
        below: list[ast.expr] = []
        _with_operands(node, lambda operand: below.append(operand) or operand)
        number = _number_of(node)
        if number in values:
            operands[number] = [_number_of(operand) for operand in below]
            if isinstance(node, ast.Name):
                names.append(number)
        for operand in below:
            collect(operand)
        return node

    def shown(node: ast.expr) -> ast.expr:
        value = done.get(_number_of(node), "")
        return ast.parse(value, mode="eval").body if value else _with_operands(node, shown)

    collect(root)
    done = {number: values[number] for number in names}
    forms = [ast.unparse(shown(root))]
    while _number_of(root) not in done:
        # Those whose operands are all done, or were never computed. One without a literal keeps its own text.
        ready = [
            number
            for number, below in operands.items()
            if number not in done and all(operand in done or operand not in values for operand in below)
        ]
        done.update({number: values[number] for number in ready})
        form = ast.unparse(shown(root))
        if form != forms[-1]:
            forms.append(form)
    return forms
