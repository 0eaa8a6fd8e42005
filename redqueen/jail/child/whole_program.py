"""Runs a whole program inside the jail: the profile `PROGRAMS` has this module loaded before the first fork.

Nothing here is a wall or a judge. A program shares the process with it and may change what it says; but the expected
output is not here, so to say it a program would have to compute it. Child-side, standard library only.
"""

from __future__ import annotations

import gc
import sys
from types import ClassMethodDescriptorType, DynamicClassAttribute, MethodDescriptorType, WrapperDescriptorType
from typing import Any

from program import names_of
from standard_streams import OutputError, Printed, StandardStreams
from values import unpack

MOST_ERRORS = 1 << 14
"""The bytes of standard error that are kept."""
MOST_FRAMES = 20
"""The lines of a traceback that are kept, the last ones."""
LONG = 1 << 63
"""An exit code from here on, in either direction, is what C makes of -1."""
LOADED: list[dict[str, Any]] = []
"""The names of the program whose values are asked for; one process belongs to one program."""
_OF_THE_CLASS = (
    *(staticmethod, classmethod),
    # Members of an Enum on Python 3.11.
    DynamicClassAttribute,
    # Those of built-in classes: `str.upper("a")` has its object as an argument.
    *(MethodDescriptorType, ClassMethodDescriptorType, WrapperDescriptorType),
)
"""Attributes that are looked up on the class, though they can bind to an object."""
_CALL = compile("function(*arguments)", "<test>", "eval", dont_inherit=True)
_OWN_DEPTH = 6 if sys.version_info >= (3, 12) else 7
"""The jail's frames below a program's first one. Python 3.11 also counts the call of `exec` or `eval`."""
_DEEPEST = (1 << 31) - 1
"""The largest limit that Python takes."""
_get_limit = sys.getrecursionlimit
_set_limit = sys.setrecursionlimit


def run_value(visible: dict[str, Any], source: str, asked: str, arguments: bytes | None) -> Any:
    """Loads a program once. Returns what a function of it returns, or what an expression over its names is worth.

    `visible` are the builtins that it sees; `arguments` are those of the function, None if `asked` is an expression.
    """
    if not LOADED:
        sys.set_int_max_str_digits(0)
        hide_depth(_OWN_DEPTH)
        names = names_of("program", visible)
        exec(compile(source, "<program>", "exec", dont_inherit=True), names)
        LOADED.append(names)
    if arguments is None:
        return eval(compile(asked, "<test>", "eval", dont_inherit=True), LOADED[0])
    # As deep as an expression, so that both have the same levels left.
    return eval(_CALL, {"function": function_of(asked, visible), "arguments": unpack(arguments)})


def hide_depth(own: int) -> None:
    """Gives a program the levels of calls of a Python of its own, above those of the jail, and the limit that it sets.

    Does nothing the second time.
    """
    if sys.getrecursionlimit is not _get_limit:
        return
    _set_limit(_get_limit() + own)
    sys.getrecursionlimit = lambda: _get_limit() - own
    # What Python refuses it refuses by itself.
    sys.setrecursionlimit = lambda limit, /: _set_limit(min(limit + own, _DEEPEST) if 0 < limit <= _DEEPEST else limit)


def function_of(path: str, visible: dict[str, Any]) -> Any:
    """Returns what a name with dots stands for in the program. A method is one of a new object: `Solution.add`."""
    first, *rest = path.split(".")
    found = LOADED[0][first] if first in LOADED[0] else visible.get(first)
    if found is None:
        raise NameError(first)
    for name in rest:
        if isinstance(found, type) and is_of_objects(found, name):
            found = found()
        found = getattr(found, name)
    return found


def is_of_objects(kind: type, name: str) -> bool:
    """Returns whether an attribute belongs to the objects of a class: a method, however decorated, or one of theirs."""
    for base in kind.__mro__:
        if name in vars(base):
            found = vars(base)[name]
            return hasattr(type(found), "__get__") and not isinstance(found, _OF_THE_CLASS)
    # Made by `__init__`, unless the class of the class has it.
    return not hasattr(kind, name)


def run_script(visible: dict[str, Any], source: str, text: str, most: int) -> tuple[str, str, int]:
    """Runs a program on a standard input. Returns its standard output, its standard error and its exit code.

    It may print `most` bytes.
    """
    # Python itself had no such limit before 3.11, and the limit of CPU time bounds what long ints cost.
    sys.set_int_max_str_digits(0)
    hide_depth(_OWN_DEPTH)
    out = Printed(most)
    errors = Printed(MOST_ERRORS, drops=True)
    streams = StandardStreams(text, out, errors)
    streams.install()
    names = names_of("__main__", visible)
    names |= {"open": streams.open, "exit": sys.exit, "quit": sys.exit}
    code = 0
    try:
        exec(compile(source, "<program>", "exec", dont_inherit=True), names)
    except SystemExit as leaving:
        code = exit_code(leaving.code, errors)
    except MemoryError:
        # A status of its own: `memory`.
        raise
    except BaseException as error:  # noqa: BLE001 - a program may raise anything at all
        errors.say(traceback_of(error))
        code = 1
    if "__del__" in source:
        # An interpreter lets its objects go at its end, and what they print then is printed. Functions and the names
        # that they see hold each other.
        del names
        sys.modules.pop("__main__", None)
        gc.collect()
    try:
        streams.end()
    except OutputError:
        code = 1
    if out.exceeded:
        # Also if the program went on after that.
        errors.say(f"OutputError: more than {most} bytes of output\n")
        code = 1
    return out.text(), errors.text(), code


def run_printed(visible: dict[str, Any], source: str, text: str, most: int) -> str:
    """Runs a program on a standard input and returns what it printed. It fails as the program did."""
    hide_depth(_OWN_DEPTH + 1)
    out, errors, code = run_script(visible, source, text, most)
    if code:
        raise type((errors.strip().splitlines() or ["ScriptError"])[-1].partition(":")[0], (Exception,), {})
    return out


def exit_code(said: object, errors: Printed) -> int:
    """Returns the exit code for what `sys.exit` was given, which is a message if it is neither a number nor None."""
    if said is None:
        return 0
    if isinstance(said, int):
        return said & 255 if -LONG <= said < LONG else 255
    errors.say(f"{said}\n")
    return 1


def traceback_of(error: BaseException) -> str:
    """Returns a traceback like Python's, of the program's own lines only."""
    lines: list[str] = []
    trace = error.__traceback__
    while trace is not None:
        code = trace.tb_frame.f_code
        if code.co_filename == "<program>":
            lines.append(f'  File "<program>", line {trace.tb_lineno}, in {code.co_name}')
        trace = trace.tb_next
    last = f"{type(error).__name__}: {error}".removesuffix(": ")
    return "\n".join(["Traceback (most recent call last):", *lines[-MOST_FRAMES:], last, ""])
