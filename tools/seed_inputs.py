"""Draws inputs for the generated seed programs: for each kind of argument an edge case and random short values."""

from __future__ import annotations

import itertools
import random
from collections.abc import Callable

_WORDS = (
    "cat dog sun tree apple river stone bird moon noon level banana hello green sea fox ant eel owl bee kiwi plum "
    "pear lemon grape melon bread milk tea rice salt sugar house door wall book pen paper ink red blue gray gold "
    "letter summer winter kayak radar civic mississippi aa zoo ox queen area idea eye ice oak ship coffee pepper"
)
_MIXED = (
    "A1 b2c ABC aBcD x9 R2D2 Hi You? 42 no! Go Red7 a-b Z one2 3x3 Yes U2 OK abc123 TeSt HeLLo PyThon 2024 wOw 7up "
    "Q&A i9 Mr. B-52 K9 eBay iOS H2O CO2"
)
WORDS = tuple(_WORDS.split())
MIXED = tuple(_MIXED.split())

Draw = Callable[[random.Random], object]


def _numbers(low: int, high: int, shortest: int, longest: int) -> Draw:
    def draw(rng: random.Random) -> list[int]:
        return [rng.randint(low, high) for _ in range(rng.randint(shortest, longest))]

    return draw


def _number(low: int, high: int) -> Draw:
    return lambda rng: rng.randint(low, high)


def _words(shortest: int, longest: int) -> Draw:
    return lambda rng: [rng.choice(WORDS) for _ in range(rng.randint(shortest, longest))]


def _repeated(rng: random.Random) -> list[str]:
    few = rng.sample(WORDS[:12], 3)
    return [rng.choice(few) for _ in range(rng.randint(2, 6))]


def _letters(alphabet: str, shortest: int, longest: int) -> Draw:
    return lambda rng: "".join(rng.choice(alphabet) for _ in range(rng.randint(shortest, longest)))


def _counts(rng: random.Random) -> dict[str, int]:
    keys = rng.sample("abcxyz", rng.randint(1, 4))
    return {key: rng.randint(0, 9) for key in keys}


def _named(rng: random.Random) -> dict[str, int]:
    keys = rng.sample(WORDS[:24], rng.randint(1, 3))
    return {key: rng.randint(-3, 12) for key in keys}


def _colours(rng: random.Random) -> dict[str, str]:
    keys = rng.sample("abcde", rng.randint(1, 4))
    return {key: rng.choice(["red", "blue", "gold", "tea"]) for key in keys}


def _links(rng: random.Random) -> dict[str, str]:
    path = rng.sample("abcde", rng.randint(3, 5))
    return dict(itertools.pairwise(path))


def _groups(rng: random.Random) -> dict[str, list[int]]:
    keys = rng.sample("abcxyz", rng.randint(1, 3))
    return {key: [rng.randint(0, 9) for _ in range(rng.randint(0, 3))] for key in keys}


def _rows(rng: random.Random) -> list[list[int]]:
    width = rng.randint(1, 3)
    return [[rng.randint(-4, 9) for _ in range(width)] for _ in range(rng.randint(1, 3))]


def _square(rng: random.Random) -> list[list[int]]:
    size = rng.randint(1, 3)
    return [[rng.randint(0, 9) for _ in range(size)] for _ in range(size)]


def _ragged(rng: random.Random) -> list[list[int]]:
    return [[rng.randint(0, 9) for _ in range(rng.randint(0, 3))] for _ in range(rng.randint(1, 3))]


def _pairs(rng: random.Random) -> list[tuple[int, int]]:
    return [(rng.randint(0, 9), rng.randint(0, 9)) for _ in range(rng.randint(1, 4))]


def _labelled(rng: random.Random) -> list[tuple[str, int]]:
    return [(rng.choice("abc"), rng.randint(1, 9)) for _ in range(rng.randint(1, 4))]


def _mixed(rng: random.Random) -> list[object]:
    return [rng.choice([rng.randint(0, 9), rng.choice(WORDS[:12])]) for _ in range(rng.randint(1, 5))]


def _flags(rng: random.Random) -> list[bool]:
    return [rng.random() < 0.5 for _ in range(rng.randint(1, 5))]


def _text(rng: random.Random) -> str:
    return " ".join(rng.choice(WORDS) for _ in range(rng.randint(1, 4)))


def _capitals(rng: random.Random) -> str:
    return " ".join(rng.choice(WORDS).title() for _ in range(rng.randint(1, 3)))


def _runs(rng: random.Random) -> str:
    return "".join(rng.choice("abc") * rng.randint(1, 3) for _ in range(rng.randint(1, 4)))


def _sums(rng: random.Random) -> str:
    return " ".join(rng.choice(["+ ", "- ", ""]) + str(rng.randint(0, 30)) for _ in range(rng.randint(1, 4)))


def _letter_digits(rng: random.Random) -> str:
    return "".join(rng.choice("abxy") + str(rng.randint(1, 5)) for _ in range(rng.randint(1, 4)))


def _sorted_numbers(rng: random.Random) -> list[int]:
    return sorted(rng.sample(range(15), rng.randint(1, 5)))


# The edge case of a kind comes first; None where there is none.
INPUTS: dict[str, tuple[object, Draw]] = {
    "nums": ([], _numbers(-6, 15, 2, 6)),
    "nums1": ([4], _numbers(-6, 15, 2, 6)),
    "nums2": ([3, 3], _numbers(-6, 15, 2, 6)),
    "naturals": ([], _numbers(0, 12, 1, 6)),
    "small_nums": ([], _numbers(0, 4, 2, 6)),
    "big_nums": ([], _numbers(0, 120, 1, 5)),
    "sorted_nums": ([], _sorted_numbers),
    "bits": ([], _numbers(0, 1, 2, 7)),
    "flags": ([], _flags),
    "mixed": ([], _mixed),
    "n": (0, _number(1, 20)),
    "n1": (1, _number(2, 20)),
    "tiny": (0, _number(1, 6)),
    "few": (0, _number(1, 9)),
    "tiny1": (1, _number(2, 6)),
    "signed": (0, _number(-20, 20)),
    "large": (0, _number(10, 999)),
    "large1": (1, _number(2, 400)),
    "huge": (7, _number(100, 99999)),
    "word": ("", lambda rng: rng.choice(WORDS)),
    "word1": ("a", lambda rng: rng.choice(WORDS)),
    "code": ("", lambda rng: rng.choice(MIXED)),
    "digits": ("", _letters("0123456789", 1, 6)),
    "digits1": ("0", _letters("0123456789", 1, 6)),
    "binary": ("0", _letters("01", 1, 6)),
    "ab": ("", _letters("ab", 1, 7)),
    "moves": ("", _letters("LRUD", 1, 6)),
    "steps": ("", _letters("+-", 1, 7)),
    "brackets": ("", _letters("()", 1, 8)),
    "runs": ("", _runs),
    "text": ("", _text),
    "text1": ("a", _text),
    "title": ("", _capitals),
    "linkkey": ("a", _letters("abcde", 1, 1)),
    "abcxyz": ("", _letters("abcxyz", 1, 5)),
    "sums": ("", _sums),
    "letterdigits": ("", _letter_digits),
    "char": ("a", _letters("aeinorst", 1, 1)),
    "words": ([], _words(1, 4)),
    "words1": (["a"], _words(1, 4)),
    "repeated": ([], _repeated),
    "counts": ({}, _counts),
    "counts1": ({"a": 1}, _counts),
    "named": ({}, _named),
    "colours": ({}, _colours),
    "links": ({}, _links),
    "groups": ({}, _groups),
    "rows": ([], _rows),
    "rows1": ([[1]], _rows),
    "square": ([[5]], _square),
    "ragged": ([], _ragged),
    "pairs": ([], _pairs),
    "labelled": ([], _labelled),
}
