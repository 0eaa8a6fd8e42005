"""Finds programs whose results may depend on hashes, addresses or other chance, by their code alone.

Such programs are compared in more interpreters than others. To look at the code costs less than to run it, and happens
before the program can do anything about it. It may say so of harmless programs, which costs a few milliseconds; of
programs with sets `set_order.py` says more. It is no wall: what it overlooks meets two interpreters like every program.
Child-side, standard library only.
"""

from __future__ import annotations

from opcode import opmap
from types import CodeType
from typing import NamedTuple

_NAMES_AS_TEXT = (
    "hash id object vars locals dir getattr attrgetter methodcaller memoryview repr ascii samples kde_random random "
    "gi_frame cr_frame ag_frame tb_frame f_back f_builtins f_globals f_locals get_origin"
)
_NAMES = frozenset(_NAMES_AS_TEXT.split())
"""Builtins that show hashes or addresses, and ways to names that are made of text."""

_SET_NAMES = frozenset(("set", "frozenset"))

_VIEWS = frozenset(("keys", "items", "KeysView", "ItemsView"))
"""What these return takes part in the operations of sets, and the result is a set."""

_OPERATORS = frozenset(("and_", "or_", "xor", "sub", "iand", "ior", "ixor", "isub"))
"""The same operations as functions of the module `operator`."""

_TO_TEXT = frozenset(("str", "format"))
"""They show addresses, but only of objects that have no text of their own."""

ITERATORS = frozenset(("iter", "zip", "enumerate", "reversed", "map", "filter"))
"""What these return has no text of its own: as text it shows its address."""

# What a class's body sets by itself, and what programs do with it.
_OF_CLASSES = "__name__ __init__ __module__ __qualname__ __firstlineno__ __static_attributes__ __classcell__"
_HARMLESS = frozenset(_OF_CLASSES.split())

_IMPORT = opmap["IMPORT_NAME"]
_SETS = bytes(opmap[name] for name in ("BUILD_SET", "SET_ADD", "SET_UPDATE"))
_FORMATS = bytes(opmap[name] for name in ("FORMAT_VALUE", "FORMAT_SIMPLE", "FORMAT_WITH_SPEC") if name in opmap)
_BINARY = opmap["BINARY_OP"]
# The operations of sets as arguments of BINARY_OP: & | - ^, plain and in place (opcode.h).
_SET_OPERATIONS = frozenset((1, 7, 10, 12, 14, 20, 23, 25))
_CONSTANT = opmap["LOAD_CONST"]
_CONTAINS = opmap["CONTAINS_OP"]
_EXTENDED = opmap["EXTENDED_ARG"]
_CLASS = opmap["LOAD_BUILD_CLASS"]


class Look(NamedTuple):
    """What one walk over a program's code finds, for every check that looks at it."""

    chance: bool
    """Whether it may show hashes or addresses."""
    sets: bool
    """Whether it makes sets, or has a constant one that it does more with than to look into it."""
    functions_as_text: bool
    """Whether it turns values into text, and names functions of its own inside a function or makes some there."""
    iterators_as_text: bool
    """Whether it turns values into text, and makes iterators."""


def look_at(code: CodeType, strangers: frozenset[str]) -> Look:
    """Walks over a program and everything that it defines. `strangers` are names of modules off the list."""
    # One loop with few objects: each object that a child makes or looks at costs it a page.
    chance = sets = views = operators = imports = strange = classes = as_text = functions = False
    iterators = percent = False
    own: list[str] = []
    blocks = [code]
    for block in blocks:
        names = block.co_names
        operations = block.co_code[::2]
        imports = imports or _IMPORT in operations
        chance = chance or not _NAMES.isdisjoint(names)
        strange = strange or not strangers.isdisjoint(names)
        for name in names:
            if name[0] == "_" and name not in _HARMLESS:
                chance = True
            functions = functions or (block is not code and name in own)
        for operation in _SETS:
            sets = sets or operation in operations
        sets = sets or not _SET_NAMES.isdisjoint(names)
        views = views or not _VIEWS.isdisjoint(names)
        operators = operators or not _OPERATORS.isdisjoint(names)
        iterators = iterators or not ITERATORS.isdisjoint(names)
        classes = classes or _CLASS in operations
        as_text = as_text or not _TO_TEXT.isdisjoint(names) or any(format in operations for format in _FORMATS)
        for index, constant in enumerate(block.co_consts):
            kind = type(constant)
            if kind is CodeType:
                blocks.append(constant)
                name = constant.co_name
                # No comprehension, which is called where it is made.
                if name == "<lambda>" or (block is not code and name[0] != "<"):
                    functions = True
                elif block is code:
                    own.append(name)
            elif kind is frozenset and _shown(block.co_code, index):
                sets = True
            elif kind is str and "%" in constant:
                percent = True
    sets = sets or (views and (operators or any(_combines(block.co_code) for block in blocks)))
    # Without an import the names of modules are just names.
    chance = chance or (imports and strange) or (classes and as_text)
    return Look(chance, sets, as_text and functions, iterators and (as_text or percent))


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
