"""Rows as people publish them: what form they have is told by their columns, and each is read as one task.

Nothing is run here. A row that cannot be a task is a BadRowError, whose one line says what to do.
"""

from __future__ import annotations

import ast
import builtins
import json
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from itertools import starmap
from typing import Any, cast

from redqueen.jail import MAX_INPUTS, MAX_TEXT_BYTES, PROGRAMS, Call, LiteralError, Script, Test, to_literal
from redqueen.jail.child.values import CodecError
from redqueen.jail.job import MAX_PROGRAM_BYTES
from redqueen.records import Pair
from redqueen.store.files import printable
from redqueen.tasks.kinds import find, is_kind
from redqueen.tasks.python import PYTHON
from redqueen.tasks.tested.tests import JSON, cases, from_json, spelled, stdin_of, tests_of

Fields = Mapping[str, Any]
MOST_TEST_BYTES = 16_384
"""The game's own limit on a value (`sandbox.value_bytes`): a longer test is left out of its row."""
_MOST_CANDIDATES = 3


class BadRowError(ValueError):
    """A row that is not taken; the message says why, and what to do."""


@dataclass(frozen=True, slots=True, kw_only=True)
class OwnRow:
    """A row that has the form of a task."""

    kind: str
    """`python` for a program with all its inputs."""
    programs: tuple[str, ...]
    """Programs that should give the outputs, the first that does is taken; a question of mathematics is its own."""
    inputs: tuple[str, ...]
    outputs: tuple[str, ...]
    """What the row says that they give; empty if it does not say it."""
    message: str = ""
    left_out: tuple[str, ...] = ()
    """Why tests of the row cannot be judged here, one each."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Form:
    """A form of rows that people publish."""

    name: str
    """For people: it completes "374 rows: ..."."""
    columns: tuple[str, ...]
    """It is this form if the row has all of these; `a|b` is either."""
    read: Callable[[Fields], OwnRow]
    """Raises BadRowError."""
    like: str = ""
    """Data sets that have it."""
    kind: str = ""
    """What the column `kind` must say; "" if it does not matter."""

    def fits(self, fields: Fields) -> bool:
        """Returns whether a row has the columns."""
        return fields.get("kind") == self.kind if self.kind else not self.missing(fields)

    def missing(self, fields: Fields) -> list[str]:
        """Returns the columns that a row does not have, or that are null."""
        return [column for column in self.columns if all(fields.get(name) is None for name in column.split("|"))]


def form_of(fields: Fields) -> Form:
    """Returns the form of a row. Raises BadRowError, which names its columns, if it has none."""
    for form in FORMS:
        if form.fits(fields):
            return form
    for form in FORMS:
        if form.fits(dict.fromkeys(fields, "")):
            empty = form.missing(fields)[0].replace("|", '" or "')
            raise BadRowError(f'"{empty}" is null: give it a value, or leave the row out')
    there = ", ".join(fields) or "none"
    raise BadRowError(
        f'its columns ({printable(there)[:200]}) are of no form that is read here: rename them to "program" and '
        '"inputs", or to "prompt" and "tests", or see docs/YOUR_TASKS.md'
    )


# Programs with inputs.


def _own_program(fields: Fields) -> OwnRow:
    kind = fields.get("kind")
    if isinstance(kind, str) and is_kind(kind) and find(kind).language.words.name != PYTHON.words.name:
        raise BadRowError(f"its kind {kind} is not one of Python: play the file as it is, by game.tasks=FILE")
    program = _text(fields, "program")
    if _size(program) > MAX_PROGRAM_BYTES:
        raise BadRowError(f'"program" is longer than {MAX_PROGRAM_BYTES:,} bytes')
    inputs = _texts(fields, "inputs")
    if not 0 < len(inputs) <= MAX_INPUTS:
        raise BadRowError(f'"inputs" must hold 1 to {MAX_INPUTS} argument lists')
    outputs = () if fields.get("outputs") is None else _texts(fields, "outputs")
    if outputs and len(outputs) != len(inputs):
        raise BadRowError('"outputs" must be as many as "inputs"')
    message = fields.get("message") or ""
    if not isinstance(message, str):
        raise BadRowError('"message" must be a text')
    if _size(message) > MAX_TEXT_BYTES:
        raise BadRowError(f'"message" is longer than {MAX_TEXT_BYTES:,} bytes')
    # A seed's message is one line.
    message = printable(" ".join(message.split()))
    # Some editors write a mark in front of a file. Python skips it there, and refuses it in a text.
    programs = (program.removeprefix("\ufeff"),)
    return OwnRow(kind=PYTHON.name, programs=programs, inputs=inputs, outputs=outputs, message=message)


def _cruxeval(fields: Fields) -> OwnRow:
    renamed = {"program": fields["code"], "inputs": [fields["input"]], "outputs": [fields["output"]]}
    return _own_program(renamed)


# A prompt with tests.


def _prompt_and_tests(fields: Fields) -> OwnRow:
    tests, programs = fields["tests"], _programs(fields, "program", "solution", "code")
    left_out: list[str] = []
    if isinstance(tests, str) and not tests.lstrip().startswith("["):
        return _tested(_in_lines(tests, left_out), programs, _text(fields, "prompt"), left_out)
    listed = _json(fields, "tests")
    if not isinstance(listed, list):
        raise BadRowError('"tests" must be a list')
    read: list[Test] = []
    for number, test in enumerate(cast("list[Any]", listed)):
        try:
            read += _assertions(test, left_out) if _is_assertion(test) else tests_of([test], PROGRAMS.limits)
        except ValueError as error:
            left_out.append(f"test {number}: {str(error).removeprefix('test 0: ')}")
    return _tested(read, programs, _text(fields, "prompt"), left_out)


def _is_assertion(test: object) -> bool:
    return isinstance(test, str) and test.lstrip().startswith("assert")


def _in_lines(tests: str, left_out: list[str]) -> list[str]:
    """Returns the assertions of a text. Raises BadRowError if it has none."""
    asserts = _assertions(tests, left_out) if "assert" in tests else []
    if not asserts:
        raise BadRowError('"tests" is one text, neither a JSON list nor lines such as `assert f(1) == 2`: give a list')
    return asserts


def _mbpp(fields: Fields) -> OwnRow:
    if str(fields.get("test_setup_code") or "").strip():
        raise BadRowError('its tests need "test_setup_code", which is not run here: write the values into the tests')
    tests = [*_texts(fields, "test_list"), *_texts(fields, "challenge_test_list", optional=True)]
    left_out: list[str] = []
    asserts = [line for test in tests for line in _assertions(test, left_out)]
    asked = _text(fields, "text" if fields.get("text") else "prompt")
    return _tested(asserts, _programs(fields, "code"), asked, left_out)


def _exported_tests(fields: Fields) -> OwnRow:
    """Reads a row that `tasks import` or `tasks export` wrote."""
    pairs = zip(_texts(fields, "inputs"), _texts(fields, "outputs"), strict=False)
    return _tested(list(starmap(Pair, pairs)), _programs(fields, "program"), _text(fields, "message"))


def _mbpp_plus(fields: Fields) -> OwnRow:
    asked = _text(fields, "prompt").strip().strip('"').strip()
    asked = "\n".join(line for line in asked.split("\n") if not line.startswith("assert "))
    left_out: list[str] = []
    asserts = _assertions(_text(fields, "assertion"), left_out)
    return _tested(asserts, _programs(fields, "canonical_solution"), asked, left_out)


def _humaneval(fields: Fields) -> OwnRow:
    prompt = _text(fields, "prompt")
    left_out: list[str] = []
    asserts = _assertions(_text(fields, "test"), left_out, _text(fields, "entry_point"))
    programs = [prompt + text for text in _programs(fields, "canonical_solution")]
    return _tested(asserts, programs, prompt, left_out)


def _apps(fields: Fields) -> OwnRow:
    found = _json(fields, "input_output")
    if not isinstance(found, Mapping):
        raise BadRowError('"input_output" must be a mapping with "inputs" and "outputs"')
    asked = cast("Mapping[str, Any]", found)
    inputs, outputs = _list(asked.get("inputs")), _list(asked.get("outputs"))
    if not inputs or len(inputs) != len(outputs):
        raise BadRowError('"inputs" and "outputs" of "input_output" must be lists of equal length')
    name, starter = str(asked.get("fn_name") or ""), str(fields.get("starter_code") or "")
    # A returned value is often wrapped in a list.
    if name and all(len(_list(output)) == 1 for output in outputs):
        outputs = [output[0] for output in outputs]
    tests = [_case(given, output, name, starter) for given, output in zip(inputs, outputs, strict=True)]
    return _tested(tests, _programs(fields, "solutions"), _with_start(_text(fields, "question"), starter))


def _list(value: object) -> list[Any]:
    """Returns a list, or an empty one for anything else."""
    return cast("list[Any]", value) if isinstance(value, list) else []


def _livecodebench(fields: Fields) -> OwnRow:
    tests: list[Test] = []
    left_out: list[str] = []
    metadata = _json(fields, "metadata") if fields.get("metadata") else None
    name = str(cast("Fields", metadata).get("func_name") or "") if isinstance(metadata, Mapping) else ""
    starter = str(fields.get("starter_code") or "")
    for column in ("public_test_cases", "private_test_cases"):
        try:
            listed = _json(fields, column) if fields.get(column) else []
        except BadRowError:
            left_out.append(f'"{column}" is packed (a pickle), which is not opened')
            continue
        for test in _list(listed):
            try:
                given, output = test["input"], test["output"]
                if name:
                    given = [from_json(line, "an input") for line in given.split("\n") if line.strip()]
                    output = from_json(output, "an output")
            except (TypeError, KeyError, AttributeError) as error:
                raise BadRowError(f'"{column}" must be a list of tests with "input" and "output" as texts') from error
            except ValueError as error:
                raise BadRowError(f'"{column}": {error}') from None
            tests.append(_case(given, output, name, starter))
    return _tested(tests, [], _with_start(_text(fields, "question_content"), starter), left_out)


def _with_start(message: str, starter: str) -> str:
    return f"{message}\n\n{starter.strip()}" if starter.strip() else message


def _case(given: Any, output: Any, name: str, starter: str) -> Test:
    """Returns a test of a contest: of a function called with JSON's values, or of a script."""
    if name:
        arguments = _list(given) or [given]
        return Call(f"Solution.{name}" if "class Solution" in starter else name, tuple(arguments), output, json=True)
    texts = ["\n".join(map(str, _list(text))) if isinstance(text, list) else str(text) for text in (given, output)]
    return Script(*texts)


def _assertions(text: str, left_out: list[str], entry: str = "") -> list[str]:
    """Returns the assertions of a text, in which `candidate` stands for `entry`.

    What reads a variable of the text, as in a loop, is left out. Raises BadRowError if the text does not parse.
    """
    try:
        tree = ast.parse(text)
    except (SyntaxError, ValueError, RecursionError, MemoryError) as error:
        raise BadRowError(f"its tests do not parse: {type(error).__name__}") from None
    found: list[str] = []
    variables: set[str] = set()
    for node in ast.walk(tree):
        if isinstance(node, ast.Name) and node.id == "candidate" and entry:
            node.id = entry
        variables |= _bound(node)
    for node in ast.walk(tree):
        # `assert True, "message"` asks nothing.
        if not isinstance(node, ast.Assert) or isinstance(node.test, ast.Constant):
            continue
        names = {name.id for name in ast.walk(node.test) if isinstance(name, ast.Name)}
        # What a comprehension or a lambda of the assertion binds is its own.
        own = set().union(*map(_bound, ast.walk(node.test)))
        if read := (names - own) & variables:
            left_out.append(f"a test reads the variable {min(read)}: write its value into the test")
        else:
            found.append(f"assert {ast.unparse(_equation(node.test))}")
    return found


def _bound(node: ast.AST) -> set[str]:
    """Returns the name that this node gives a value to; none if it is another one."""
    if isinstance(node, ast.Name) and isinstance(node.ctx, ast.Store):
        return {node.id}
    return {node.arg} if isinstance(node, ast.arg) else set()


def _equation(test: ast.expr) -> ast.expr:
    """Returns a condition as an equation, if it asks whether a call gives True, False or None."""
    match test:
        case ast.Compare(left=left, ops=[ast.Is()], comparators=[ast.Constant() as constant]):
            return ast.Compare(left, [ast.Eq()], [constant])
        case ast.UnaryOp(op=ast.Not(), operand=left):
            return ast.Compare(left, [ast.Eq()], [ast.Constant(False)])
        case ast.Call(func=ast.Name(id=name)) if name not in vars(builtins):
            return ast.Compare(test, [ast.Eq()], [ast.Constant(True)])
        case _:
            return test


def _tested(
    tests: Sequence[Test | Pair], programs: Sequence[str], message: str, left_out: Sequence[str] = ()
) -> OwnRow:
    """Returns a task of what can be judged among the tests. Raises BadRowError if too little can."""
    pairs: dict[str, Pair] = {}
    reasons = list(left_out)
    for test in tests:
        try:
            pair = test if isinstance(test, Pair) else _pair(test)
            cases([pair], MOST_TEST_BYTES)
            if max(map(_size, (pair.input, pair.output))) > MOST_TEST_BYTES:
                raise LiteralError(f"it is longer than {MOST_TEST_BYTES:,} bytes")
            pairs.setdefault(pair.input, pair)
        except (CodecError, ValueError) as error:
            reasons.append(str(error).removeprefix("test 0: "))
    # A program is asked in one way: it prints, or its functions are called.
    scripts = [given for given in pairs if stdin_of(given) is not None]
    if 0 < len(scripts) < len(pairs):
        fewer = scripts if 2 * len(scripts) < len(pairs) else [given for given in pairs if given not in scripts]
        reasons += ["it asks in another way than most tests of the row: standard input, or calls"] * len(fewer)
        pairs = {given: pair for given, pair in pairs.items() if given not in fewer}
    reasons += [f"more than {MAX_INPUTS} tests"] * (len(pairs) - MAX_INPUTS)
    if len(pairs) < 2:
        why = f" ({reasons[0]})" if reasons else ""
        raise BadRowError(f"{len(pairs)} of its tests can be judged, and a task needs 2{why}: add tests to the row")
    if not message.strip():
        raise BadRowError("its prompt is empty: say what is to be written")
    kept = list(pairs.values())[:MAX_INPUTS]
    return OwnRow(
        kind="code_t",
        programs=tuple(programs[:_MOST_CANDIDATES]),
        inputs=tuple(pair.input for pair in kept),
        outputs=tuple(pair.output for pair in kept),
        message=_readable(message),
        left_out=tuple(reasons),
    )


def _readable(message: str) -> str:
    """Returns a prompt with plain spaces and ends of lines, and without signs that no screen shows."""
    lines = message.replace("\r\n", "\n").replace("\r", "\n").strip("\n").expandtabs(4)
    return printable("".join(" " if sign.isspace() and sign != "\n" else sign for sign in lines))


def _pair(test: Test) -> Pair:
    """Returns a test as a task holds it. Raises CodecError or ValueError if it cannot."""
    if isinstance(test, Script):
        return Pair(spelled(f"stdin({to_literal(test.stdin)})"), to_literal(test.stdout))
    if isinstance(test, Call):
        first, _, method = test.function.partition(".")
        name = f"{first}().{method}" if method else first
        given = f"{name}({', '.join(map(to_literal, test.arguments))})"
        return Pair(spelled(given) + JSON, to_literal(test.expected))
    pair = find("code_t").language.read_equation(test)
    if pair is None:
        raise LiteralError("a test is not `assert EXPRESSION == LITERAL`")
    return Pair(spelled(pair.input), pair.output)


# Questions.


def _question(fields: Fields) -> OwnRow:
    kind: Any = find("maths")
    try:
        question, answers = kind.read_row(fields)
    except ValueError as error:
        raise BadRowError(str(error)) from None
    return OwnRow(kind="maths", programs=(question,), inputs=("",), outputs=(to_literal(list(answers)),))


def _exported_question(fields: Fields) -> OwnRow:
    """Reads a row that `tasks import` or `tasks export` wrote."""
    inputs, outputs = _texts(fields, "inputs"), _texts(fields, "outputs")
    if len(inputs) != 1 or len(outputs) != 1:
        raise BadRowError('"inputs" and "outputs" of a question must hold one text each')
    return OwnRow(kind="maths", programs=(_text(fields, "program"),), inputs=inputs, outputs=outputs)


# What columns hold.


def _text(fields: Fields, name: str) -> str:
    value = fields.get(name)
    if not isinstance(value, str):
        raise BadRowError(f'"{name}" must be a text')
    return value


def _texts(fields: Fields, name: str, *, optional: bool = False) -> tuple[str, ...]:
    value = fields.get(name)
    if optional and value is None:
        return ()
    texts: list[Any] = cast("list[Any]", value) if isinstance(value, list) else [None]
    if not all(isinstance(text, str) for text in texts):
        raise BadRowError(f'"{name}" must be a list of texts')
    if any(_size(text) > MAX_TEXT_BYTES for text in texts):
        raise BadRowError(f'a text of "{name}" is longer than {MAX_TEXT_BYTES:,} bytes')
    return tuple(texts)


def _size(text: str) -> int:
    """Returns the size of a text in bytes, which is what the jail limits."""
    return len(text.encode("utf-8", "surrogatepass"))


def _json(fields: Fields, name: str) -> Any:
    """Returns what a column holds as JSON, or as it is."""
    value = fields[name]
    if not isinstance(value, str):
        return value
    try:
        return from_json(value, f'"{name}"')
    except ValueError as error:
        raise BadRowError(str(error)) from None


def _programs(fields: Fields, *names: str) -> list[str]:
    """Returns the programs in the first of the columns that is there: a text, or a list or JSON text of several."""
    for name in names:
        value = fields.get(name)
        if isinstance(value, str) and value.lstrip().startswith("["):
            try:
                value = json.loads(value)
            except (ValueError, RecursionError):
                value = [value]
        listed = cast("list[Any]", value) if isinstance(value, list) else [value]
        found = [text.removeprefix("\ufeff").strip("\n") for text in listed if isinstance(text, str) and text.strip()]
        if found:
            return found
    return []


_TESTS = "a prompt with tests"
_QUESTIONS = "questions of mathematics"
_EXPORT = "tasks export"
FORMS = (
    Form(name=_TESTS, columns=("program", "inputs"), read=_exported_tests, like=_EXPORT, kind="code_t"),
    Form(name=_QUESTIONS, columns=("program", "inputs"), read=_exported_question, like=_EXPORT, kind="maths"),
    Form(name="programs with inputs", columns=("program", "inputs"), read=_own_program, like=_EXPORT),
    Form(name="programs with inputs", columns=("code", "input", "output"), read=_cruxeval, like="CRUXEval"),
    Form(name=_TESTS, columns=("prompt", "tests"), read=_prompt_and_tests, like="rows for passes_tests"),
    Form(name=_TESTS, columns=("test_list", "code", "text|prompt"), read=_mbpp, like="MBPP"),
    Form(name=_TESTS, columns=("assertion", "prompt", "canonical_solution"), read=_mbpp_plus, like="MBPP+"),
    Form(name=_TESTS, columns=("test", "entry_point", "prompt"), read=_humaneval, like="HumanEval"),
    Form(name=_TESTS, columns=("input_output", "question"), read=_apps, like="APPS, TACO"),
    Form(name=_TESTS, columns=("question_content", "public_test_cases"), read=_livecodebench, like="LiveCodeBench"),
    Form(
        name=_QUESTIONS,
        columns=("question|problem", "answer|solution|final_answer"),
        read=_question,
        like="GSM8K, MATH",
    ),
)
"""The forms, of which the first that fits is taken."""
