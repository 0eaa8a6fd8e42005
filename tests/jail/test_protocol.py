"""Parent and child speak one protocol: the same constants, from one file."""

from __future__ import annotations

import importlib
from collections.abc import Iterator
from pathlib import Path
from types import ModuleType

import pytest

from redqueen.jail import child, process, running, transcript
from redqueen.jail.child import protocol

CONSTANTS = {name for name in vars(protocol) if name.isupper()}


@pytest.fixture
def zygote(monkeypatch: pytest.MonkeyPatch) -> Iterator[dict[str, ModuleType]]:
    """The child's modules as the zygote sees them: top-level, found in their own folder."""
    folder = Path(child.__file__).parent
    monkeypatch.syspath_prepend(str(folder))
    names = [path.stem for path in folder.glob("*.py") if path.stem != "__init__"]
    with monkeypatch.context() as patch:
        patch.setattr("sys.path", [str(folder), *__import__("sys").path])
        yield {name: importlib.import_module(name) for name in names}


def test_the_protocol_is_the_same_on_both_sides(zygote: dict[str, ModuleType]) -> None:
    theirs = zygote["protocol"]
    assert Path(theirs.__file__ or "") == Path(protocol.__file__)
    for name in CONSTANTS:
        ours = getattr(protocol, name)
        assert getattr(ours, "format", ours) == getattr(getattr(theirs, name), "format", getattr(theirs, name))


def test_every_use_of_a_constant_is_the_protocols_own(zygote: dict[str, ModuleType]) -> None:
    """A module that defines `FRAME` or `PID` itself would have to be kept equal by hand."""
    sides = [(protocol, module) for module in (process, running, transcript)]
    sides += [(zygote["protocol"], module) for name, module in zygote.items() if name != "protocol"]
    used: set[str] = set()
    for source, module in sides:
        names = CONSTANTS & set(vars(module))
        used |= names
        assert [name for name in names if getattr(module, name) is not getattr(source, name)] == []
    assert used == CONSTANTS


def test_no_struct_is_spelled_outside_the_protocol() -> None:
    root = Path(process.__file__).parent
    # A value's canonical form, which is no message, is written on both sides; `running.py` has two of the kernel's.
    spelled = {"child/protocol.py", "child/values.py", "child/vdso.py", "literals.py", "running.py"}
    texts = {path.relative_to(root).as_posix(): path.read_text() for path in root.rglob("*.py")}
    assert {name for name, text in texts.items() if "struct.Struct(" in text} == spelled


def test_letters_differ() -> None:
    assert len({protocol.LOCKED, protocol.UNSTEADY, protocol.VALUE, protocol.END}) == 4
