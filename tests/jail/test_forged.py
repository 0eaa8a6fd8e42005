"""Hostile programs against the result: forged transcripts, floods, values that are not what they seem."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from redqueen.jail import Outcome, canonical
from tests.jail.reach import reach

Run = Callable[..., Outcome]
pytestmark = pytest.mark.usefixtures("nothing_escaped")

FRAMES = {
    "twice": "os.write(3, value(7) + end())\nreturn 7",
    "twice by hand": "os.write(3, (value(7) + end()) * 2)\nos._exit(0)",
    "two values": "os.write(3, value(7))\nreturn 7",
    "two ends": "os.write(3, value(7) + end() * 2)\nos._exit(0)",
    "then a crash": "os.write(3, value(7) + end())\nctypes.string_at(0)",
    "then a bad exit": "os.write(3, value(7) + end())\nos._exit(3)",
    "then a byte": "os.write(3, value(7) + end() + b'V')\nos._exit(0)",
    "half of one": "os.write(3, value(7) + end()[:-1])\nos._exit(0)",
    "half of a value": "os.write(3, value(7)[:-1])\nos._exit(0)",
    "no end": "os.write(3, value(7))\nos._exit(0)",
    "no bytes": "os._exit(0)",
    "rubbish": "os.write(3, b'rubbish')\nos._exit(0)",
    "rubbish between": "os.write(3, value(7) + b'rubbish' + end())\nos._exit(0)",
    "rubbish before": "os.write(3, b'?')\nreturn 7",
    "locked in again": "os.write(3, b'L' + value(7) + end())\nos._exit(0)",
    "too many values": "os.write(3, value(7) * 2 + end())\nos._exit(0)",
    "too few values": "os.write(3, end())\nos._exit(0)",
    "the end first": "os.write(3, end() + value(7))\nos._exit(0)",
    "a length of four gigabytes": "os.write(3, b'V' + b'\\xff' * 4 + end())\nos._exit(0)",
    "another frame": "os.write(3, value(7) + frame(b'X', b'') + end())\nos._exit(0)",
    "a status of the parent": "os.write(3, value(7) + end('infra_error'))\nos._exit(0)",
    "another of the parent": "os.write(3, value(7) + end('wrong'))\nos._exit(0)",
    "an unhashable status": "os.write(3, value(7) + end([]))\nos._exit(0)",
    "a pickle": "os.write(3, frame(b'V', b'N.') + frame(b'E', b'\\x80\\x04N.'))\nos._exit(0)",
    "rubbish as value": "os.write(3, frame(b'V', b'?') + end())\nos._exit(0)",
    "a patched encoder": "sys.modules['values']._Encoder._integer = lambda self, value: b'?'\nreturn 1",
}


@pytest.mark.parametrize("code", FRAMES.values(), ids=FRAMES.keys())
def test_only_one_whole_transcript_and_a_clean_exit_count(run: Run, code: str) -> None:
    for fields in ({}, {"expected": (canonical(7),)}):
        outcome = run(reach(code), **fields)
        assert (outcome.status, outcome.outputs) == ("error", ()), outcome


def test_a_forged_transcript_says_no_more_than_a_return_value(run: Run) -> None:
    # Nothing is won by it: the program could have returned 7. It is judged like any other value.
    forged = reach("os.write(3, value(7) + end())\nos._exit(0)")
    assert run(forged).outputs == ("7",)
    assert run(forged, expected=(canonical(8),)).status == "wrong"
    assert run(forged, validate=True).status == "nondeterministic"  # one pass where two were asked for


def test_a_flood_of_raw_output_is_cut(run: Run) -> None:
    flood = reach("while True:\n    os.write(3, b'x' * 65536)")
    for fields in ({}, {"expected": (canonical(7),)}):
        outcome = run(flood, **fields)
        assert (outcome.status, outcome.detail) == ("oversize", "more output than the cap")


def test_a_flood_of_right_values_is_cut(run: Run) -> None:
    flood = reach("values = value(7) * 5000\nwhile True:\n    os.write(3, values)")
    outcome = run(flood, expected=(canonical(7),))
    assert (outcome.status, outcome.detail) == ("oversize", "more output than the cap")


def test_half_a_frame_and_then_nothing_is_a_timeout(run_briefly: Run) -> None:
    outcome = run_briefly(reach("os.write(3, value(7)[:-1])\nwhile True:\n    pass"), expected=(canonical(7),))
    assert (outcome.status, outcome.outputs) == ("timeout", ())


def test_hash_flooding_in_the_result_is_refused_in_the_parent(run: Run) -> None:
    code = (
        "values = sorted(jail.encode(i * (2 ** 61 - 1)) for i in range(2000))\n"
        "data = b's' + struct.pack('!I', len(values)) + b''.join(values)\n"
        "os.write(3, frame(b'V', data) + end())\nos._exit(0)"
    )
    for fields in ({}, {"expected": (canonical(7),)}):
        outcome = run(reach(code), **fields)
        assert (outcome.status, outcome.detail) == ("error", "a forged value: too many members with the same hash")


DISGUISES = {
    "always equal": "class V:\n    __eq__ = lambda s, o: True\n    __hash__ = object.__hash__\nreturn V()",
    "subclass of int": "class V(int):\n    pass\nreturn V(3)",
    "subclass inside": "class V(str):\n    pass\nreturn [V('x')]",
    "false class": "class V:\n    __class__ = property(lambda self: int)\nreturn V()",
    "type that equals int": "class M(type):\n    __eq__ = lambda c, o: True\n    __hash__ = lambda c: hash(int)\n"
    "class V(metaclass=M):\n    pass\nreturn V()",
    "own repr": "class V:\n    def __repr__(self):\n        return '42'\nreturn V()",
    "own reduce": "class V:\n    def __reduce__(self):\n        return (int, ('42',))\nreturn V()",
    "generator": "return (i for i in [1])",
    "function": "return lambda: 42",
    "coroutine": "async def g():\n    return 1\nreturn g()",
    "named tuple": "import collections\nreturn collections.namedtuple('P', 'x')(1)",
    "subclass of counter": "import collections\nreturn type('C', (collections.Counter,), {})('a')",
    "decimal": "import decimal\nreturn decimal.Decimal(1)",
    "bytearray": "return bytearray(b'x')",
    "range": "return range(3)",
    "ellipsis": "return ...",
}


@pytest.mark.parametrize("code", DISGUISES.values(), ids=DISGUISES.keys())
def test_only_plain_builtin_values_come_out(run: Run, code: str) -> None:
    assert run(reach(code), expected=(canonical(42),)).status == "unsupported"


PATCHED = (
    "import collections\n"
    "collections.Counter.items = collections.Counter.__iter__ = lambda self: iter([('b', 9)])\n"
    "collections.Counter.__len__ = lambda self: 3\n"
    "return collections.Counter('aab')"
)


@pytest.mark.parametrize(
    ("code", "literal"),
    [
        ("import collections\nreturn collections.Counter('aab')", "{'a': 2, 'b': 1}"),
        ("import collections\nd = collections.defaultdict(list)\nd['a'].append(1)\nreturn [d]", "[{'a': [1]}]"),
        ("import collections\nd = collections.OrderedDict(a=1, b=2)\nd.move_to_end('a')\nreturn d", "{'b': 2, 'a': 1}"),
        # The values are read past what a program did to a class.
        (PATCHED, "{'a': 2, 'b': 1}"),
    ],
)
def test_dicts_under_another_name_come_out_as_the_dict_that_they_equal(run: Run, code: str, literal: str) -> None:
    outcome = run(reach(code), validate=True)
    assert (outcome.status, outcome.outputs) == ("ok", (literal,)), outcome


@pytest.mark.parametrize(
    ("code", "literal"),
    [
        ("return '\\ud800'", "'\\ud800'"),
        ("return 'a\\0b'", "'a\\x00b'"),
        ("return float('nan')", "float('nan')"),
        ("return {float('inf'), 1.0}", "{1.0, float('inf')}"),
        ("return b'\\xff', -0.0, 1j", "(b'\\xff', -0.0, 1j)"),
        ("return True, 1, 1.0, None", "(True, 1, 1.0, None)"),
    ],
)
def test_odd_but_plain_values_come_out_exactly(run: Run, code: str, literal: str) -> None:
    outcome = run(reach(code))
    assert (outcome.status, outcome.outputs) == ("ok", (literal,))


def test_the_detail_is_one_printable_line(run: Run) -> None:
    outcome = run(reach("raise type('\\x1b[31m\\n\\u202e' + 'x' * 5000, (Exception,), {})"))
    assert outcome.status == "error"
    assert outcome.detail.isprintable()
    assert len(outcome.detail) <= 200
