"""The child's work: it checks one untrusted program, runs it on its inputs and describes what happened.

This runs after the child has given up its rights, so nothing here is a wall. The checks by name only give an honest
status early: `forbidden` with the name, instead of a puzzling NameError later. Child-side, standard library only.
"""

from __future__ import annotations

import ast
import builtins
import io
import sys
from collections.abc import Callable, Iterable
from types import CodeType, ModuleType
from typing import Any, NamedTuple

from attributes import hidden_module
from chance import ITERATORS, look_at
from function_text import shows_functions, shows_iterators
from heap import scatter
from protocol import UNSTEADY
from set_order import holds, is_set, shows_order
from values import CodecError, OversizeError, UnsupportedError, encode, unpack

FILENAME = "<program>"
LOOKS = 1


class ForbiddenError(ImportError):
    """The program asked for a module or a builtin that is not on the list."""


class Rules(NamedTuple):
    """What programs may do, made once from the zygote's profile: making it in a child would touch a hundred pages."""

    entry: str
    modules: frozenset[str]
    withheld: frozenset[str]
    builtins: dict[str, Any]
    """What a program sees as its builtins. Each child has a copy of its own by the fork."""
    stdin: io.StringIO
    strangers: frozenset[str]
    """Names of the modules that are loaded and not on the list."""
    variant: int
    """The interpreter's number. Interpreter 1 (B) looks at the code for chance before it runs; the later ones run only
    what it found. In 0 (A), whose values count, each millisecond counts too."""

    @classmethod
    def of(
        cls,
        entry: str,
        modules: Iterable[str],
        withheld: Iterable[str],
        stdin: str,
        strangers: frozenset[str],
        variant: int,
    ) -> Rules:
        """The rules behind a profile's fields."""
        importable = frozenset(modules)
        hidden = frozenset(withheld)
        visible = program_builtins(importable, hidden)
        return cls(entry, importable, hidden, visible, io.StringIO(stdin), strangers, variant)


def run(
    rules: Rules, program: str, inputs: list[bytes], passes: int, value_limit: int, tell: Callable[..., object]
) -> tuple[str, str]:
    """Calls the program on its inputs and tells each encoded value at once; returns status and detail."""
    try:
        code = load(rules, program)
        # Now, since a program that has started could keep it back.
        depends = rules.variant == LOOKS and depends_on_chance(rules, code, program, inputs)
        if depends:
            tell(b"", UNSTEADY)
        if depends or rules.variant > LOOKS:
            scatter(rules.variant)
        function = start(rules, code)
    except ForbiddenError as error:
        return "forbidden", str(error)
    except MalformedError as error:
        return "malformed", str(error)
    except BaseException as error:  # noqa: BLE001 - a program may raise anything at all
        return describe(error)
    for number in range(passes):
        # The second pass goes backwards, so that a counter is out of step for at least one input.
        order = range(len(inputs)) if number % 2 == 0 else range(len(inputs) - 1, -1, -1)
        for index in order:
            failure = call(function, inputs[index], value_limit, tell)
            if failure:
                status, detail = failure
                return status, detail + (f" on input {index}" if len(inputs) > 1 else "")
    return "ok", ""


def call(
    function: Callable[..., object], arguments: bytes, value_limit: int, tell: Callable[..., object]
) -> tuple[str, str] | None:
    """Calls the program on one input and tells the value; returns status and detail if it fails."""
    # A short function. Where an exception is raised while another is handled, the interpreter makes an integer of the
    # place in the bytecode; above 256 that needs memory, and where none is left it tries for ever.
    try:
        tell(encode(function(*unpack(arguments)), value_limit))
    except BaseException as error:  # noqa: BLE001
        return describe(error)
    return None


class MalformedError(Exception):
    """The text is no program, or does not define the entry function."""


def load(rules: Rules, program: str) -> CodeType:
    """Compiles a program and checks what it asks for by name."""
    try:
        code = builtins.compile(program, FILENAME, "exec", dont_inherit=True)
        # No import is spelled in another way.
        if "import" in program or withholds(code, rules.withheld):
            check(ast.parse(program, FILENAME), rules)
    except ForbiddenError:
        raise
    except SyntaxError as error:
        where = f" at line {error.lineno}" if error.lineno else ""
        raise MalformedError(f"{type(error).__name__}{where}") from None
    except (ValueError, MemoryError, RecursionError) as error:
        raise MalformedError(f"{type(error).__name__} while compiling") from None
    return code


def depends_on_chance(rules: Rules, code: CodeType, program: str, inputs: list[bytes]) -> bool:
    """Whether a program may show hashes, addresses, or the order of a set that it makes or is given."""
    look = look_at(code, rules.strangers)
    if look.chance:
        return True
    # What may be a set among the inputs, by its tag and a size of less than 65,536.
    for data in inputs:
        if (b"s\0\0" in data or b"z\0\0" in data) and holds(unpack(data), is_set):
            return True
    if look.functions_as_text and shows_functions(program):
        return True
    if look.iterators_as_text and shows_iterators(program, ITERATORS):
        return True
    return look.sets and shows_order(program, rules.entry, [unpack(data) for data in inputs])


def start(rules: Rules, code: CodeType) -> Any:
    """Executes a program's top level. Returns its entry function."""
    sys.stdout = sys.stderr = SINK
    sys.stdin = rules.stdin
    names = names_of("program", rules.builtins)
    builtins.exec(code, names)
    function = names.get(rules.entry)
    if not callable(function):
        raise MalformedError(f"no top-level function {rules.entry}")
    return function


def names_of(module: str, visible: dict[str, Any]) -> dict[str, Any]:
    """Returns the names of a new module, for a program to fill. `visible` are the builtins that it sees.

    It takes the place of the jail's own module of that name: `dataclasses` and `typing` look names up by a module's.
    """
    made = sys.modules[module] = ModuleType(module)
    names = vars(made)
    names.clear()
    names.update(__name__=module, __builtins__=visible)
    return names


def withholds(code: CodeType, withheld: frozenset[str]) -> bool:
    """Whether `check` has to look at names: for most programs a syntax tree costs more than to run them."""
    blocks = [code]
    for block in blocks:
        if not withheld.isdisjoint(block.co_names):
            return True
        for constant in block.co_consts:
            if type(constant) is CodeType:
                blocks.append(constant)
    return False


def check(tree: ast.Module, rules: Rules) -> None:
    """Refuses modules off the list, and withheld builtins that the program does not define itself."""
    bound: set[str] = set()
    used: list[ast.Name] = []
    for node in ast.walk(tree):
        if isinstance(node, ast.Import):
            for alias in node.names:
                refuse_module(alias.name, 0, rules.modules)
        elif isinstance(node, ast.ImportFrom):
            refuse_module(node.module or ".", node.level, rules.modules)
        if isinstance(node, ast.Name):
            if isinstance(node.ctx, ast.Load):
                used.append(node)
            else:
                bound.add(node.id)
        elif isinstance(node, ast.arg):
            bound.add(node.arg)
        elif isinstance(node, ast.alias):
            bound.add((node.asname or node.name).partition(".")[0])
        # Functions, classes, exception handlers and patterns.
        elif isinstance(name := getattr(node, "name", None), str):
            bound.add(name)
    for name in used:
        if name.id in rules.withheld and name.id not in bound:
            raise ForbiddenError(f"{name.id} at line {name.lineno}")
    hidden = hidden_module(tree, rules.modules)
    if hidden:
        raise ForbiddenError(hidden)


def refuse_unseeded(*_: object, **__: object) -> None:
    """Stands for the functions of `random` that share one generator without a seed."""
    raise ForbiddenError("random numbers without a seed")


def refuse_module(name: str, level: int, allowed: frozenset[str]) -> None:
    """Raises ForbiddenError unless `name` or its top package is allowed; a relative import never is."""
    if level or name.partition(".")[0] not in allowed:
        raise ForbiddenError(f"import of {'.' * level}{name}")


def program_builtins(modules: frozenset[str], withheld: frozenset[str]) -> dict[str, Any]:
    """The builtins that a program sees: without the withheld ones, and with a guarded `__import__`."""
    visible = {name: value for name, value in vars(builtins).items() if name not in withheld}
    original = builtins.__import__

    def guarded_import(name: str, globals: Any = None, locals: Any = None, fromlist: Any = (), level: int = 0) -> Any:
        # The interpreter itself asks with a list, for example when it divides large numbers.
        if type(fromlist) is list and name in sys.modules:
            return original(name, globals, locals, fromlist, level)
        refuse_module(name, level, modules)
        if name not in sys.modules:
            raise ForbiddenError(f"import of {name}")
        return original(name, globals, locals, fromlist, level)

    visible["__import__"] = guarded_import
    return visible


class Sink(io.TextIOBase):
    """Standard output of a program: it drops all text, needs constant space and never fails."""

    def write(self, text: str, /) -> int:
        return len(text)

    def writable(self) -> bool:
        return True


SINK = Sink()


def describe(error: BaseException) -> tuple[str, str]:
    """The status of an exception and one line about it; never its own text, which may be anything."""
    kind = type(error)
    if kind is OversizeError:
        return "oversize", str(error)
    if kind is UnsupportedError:
        return "unsupported", str(error)
    if kind is CodecError:
        return "error", str(error)
    if issubclass(kind, ForbiddenError):
        return "forbidden", str(error)
    line = None
    trace = error.__traceback__
    while trace is not None:
        if trace.tb_frame.f_code.co_filename == FILENAME:
            line = trace.tb_lineno
        trace = trace.tb_next
    name = type.__dict__["__name__"].__get__(kind)
    where = f" at line {line}" if line is not None else ""
    return ("memory" if issubclass(kind, MemoryError) else "error"), f"{str(name)[:80]}{where}"
