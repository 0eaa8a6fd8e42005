"""The colours of the style sheet: every text can be read on what is behind it."""

from __future__ import annotations

import re

from redqueen.analysis.drawing import HUES
from redqueen.extras.page.app import STATIC

READABLE = 4.5
"""The least contrast of a text (WCAG 2.2, 1.4.3)."""


def luminance(colour: str) -> float:
    parts = [int(colour[place : place + 2], 16) / 255 for place in (1, 3, 5)]
    red, green, blue = (part / 12.92 if part <= 0.04045 else ((part + 0.055) / 1.055) ** 2.4 for part in parts)
    return 0.2126 * red + 0.7152 * green + 0.0722 * blue


def contrast(one: str, other: str) -> float:
    low, high = sorted((luminance(one), luminance(other)))
    return (high + 0.05) / (low + 0.05)


def themes() -> list[dict[str, str]]:
    """Returns the colours of each block that sets them: light, dark by the system, dark by choice."""
    style = (STATIC / "style.css").read_text()
    blocks = [block for block in re.findall(r"\{([^{}]*)\}", style) if "--paper:" in block]
    return [dict(re.findall(r"--([\w-]+): (#[0-9a-f]{6})", block)) for block in blocks]


def test_dark_is_the_same_by_the_system_and_by_choice() -> None:
    light, by_system, by_choice = themes()
    assert by_system == by_choice
    assert set(light) == set(by_choice)


def test_texts_can_be_read() -> None:
    for theme in themes():
        for ink in ("ink", "ink-soft", "link", "good", "bad"):
            for paper in ("paper", "raised"):
                assert contrast(theme[ink], theme[paper]) >= READABLE, (ink, paper, theme)


def test_every_level_of_the_matrix_can_be_read() -> None:
    style = (STATIC / "style.css").read_text()
    levels = re.findall(r"\.heat-(\d) \{ background: var\(--heat-\1\); color: var\(--(heat-\w+)\)", style)
    assert len(levels) == 5
    for theme in themes():
        for level, ink in levels:
            assert contrast(theme[f"heat-{level}"], theme[ink]) >= READABLE, (level, theme)


def test_every_curve_can_be_seen_on_either_paper() -> None:
    named = re.search(r"HUES = \[([^\]]*)\]", (STATIC / "series.js").read_text())
    assert named
    hues = re.findall(r'"(#\w+)"', named[1])
    # WCAG 2.2, 1.4.11: graphics need less than texts. The first four are those of the figures.
    assert hues[:4] == list(HUES[:4])
    for theme in themes():
        assert min(contrast(hue, theme["paper"]) for hue in hues) >= 3
