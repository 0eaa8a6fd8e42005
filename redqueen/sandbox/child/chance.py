"""Finds programs whose results may depend on hashes, addresses or other chance, by their code alone.

Such programs are compared in more interpreters than others. To look at the code costs less than to run it, and happens
before the program can do anything about it. It may say so of harmless programs, which costs a few milliseconds. It is
no wall: what it overlooks meets two interpreters like every program. Child-side, standard library only.
"""

from __future__ import annotations

from opcode import opmap
from types import CodeType

_NAMES_AS_TEXT = (
    "set frozenset hash id object vars locals dir getattr attrgetter methodcaller memoryview repr ascii samples "
    "kde_random random"
)
_NAMES = frozenset(_NAMES_AS_TEXT.split())
"""Builtins that show hashes or addresses, and ways to names that are made of text."""

_VIEWS = frozenset(("keys", "items"))
"""What these return takes part in the operations of sets, and the result is a set."""

_TO_TEXT = frozenset(("str", "format"))
"""They show addresses, but only of objects that have no text of their own."""

# What a class's body sets by itself, and what programs do with it.
_OF_CLASSES = "__name__ __init__ __module__ __qualname__ __firstlineno__ __static_attributes__ __classcell__"
_HARMLESS = frozenset(_OF_CLASSES.split())

_SETS = bytes(opmap[name] for name in ("BUILD_SET", "SET_ADD", "SET_UPDATE"))
_FORMATS = bytes(opmap[name] for name in ("FORMAT_VALUE", "FORMAT_SIMPLE", "FORMAT_WITH_SPEC") if name in opmap)
_BINARY = opmap["BINARY_OP"]
# The operations of sets as arguments of BINARY_OP: & | - ^, plain and in place (opcode.h).
_SET_OPERATIONS = frozenset((1, 7, 10, 12, 14, 20, 23, 25))
_CONSTANT = opmap["LOAD_CONST"]
_CONTAINS = opmap["CONTAINS_OP"]
_EXTENDED = opmap["EXTENDED_ARG"]
_CLASS = opmap["LOAD_BUILD_CLASS"]


def unsteady(code: CodeType, strangers: frozenset[str]) -> bool:
    """Whether a program's result may depend on chance. `strangers` are names of modules off the list."""
    # One loop with few objects: each object that a child looks at costs it a page.
    as_text = makes_objects = False
    left = [code]
    for each in left:
        names = each.co_names
        operations = each.co_code[::2]
        if not (_NAMES.isdisjoint(names) and strangers.isdisjoint(names)):
            return True
        for name in names:
            if name[0] == "_" and name not in _HARMLESS:
                return True
        for operation in _SETS:
            if operation in operations:
                return True
        if _BINARY in operations and not _VIEWS.isdisjoint(names) and _combines(each.co_code):
            return True
        for index, constant in enumerate(each.co_consts):
            kind = type(constant)
            if kind is CodeType:
                left.append(constant)
                # A function or class inside a function, but no comprehension, which is called where it is made.
                makes_objects |= (each is not code and constant.co_name[0] != "<") or constant.co_name == "<lambda>"
            elif kind is frozenset and _shown(each.co_code, index):
                return True
        makes_objects |= _CLASS in operations
        as_text |= not _TO_TEXT.isdisjoint(names) or any(operation in operations for operation in _FORMATS)
    return as_text and makes_objects


def _combines(code: bytes) -> bool:
    """Whether code has one of the operations of sets, though perhaps for numbers."""
    return any(code[at] == _BINARY and code[at + 1] in _SET_OPERATIONS for at in range(0, len(code), 2))


def _shown(code: bytes, index: int) -> bool:
    """Whether code does more with a constant set than to look into it, as `x in {1, 2}` does."""
    # In long code the indices have two parts; then nothing is known.
    if _EXTENDED in code[::2]:
        return True
    uses = [at for at in range(0, len(code), 2) if code[at] == _CONSTANT and code[at + 1] == index]
    return any(code[at + 2] != _CONTAINS for at in uses)
