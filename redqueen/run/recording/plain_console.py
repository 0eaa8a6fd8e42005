"""The console of every command: it prints text as it is.

A path, a member's name, a kind and an answer are texts that others wrote. Rich would take `[red]` in them for markup
and `:smile:` for an emoji, and would hand a terminal's control characters on. Colours are given as styles.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import IO

from rich.console import Console, ConsoleOptions, RenderableType
from rich.segment import Segment

from redqueen.store.files import printable


class PlainConsole(Console):
    """A console that knows no markup, and shows control characters as escapes, in tables and trees too."""

    def __init__(
        self, *, stderr: bool = False, soft_wrap: bool = False, width: int | None = None, file: IO[str] | None = None
    ) -> None:
        super().__init__(
            stderr=stderr,
            soft_wrap=soft_wrap,
            width=width,
            file=file,
            markup=False,
            emoji=False,
            highlight=False,
            # In a notebook, too, these are lines and no boxes of HTML.
            force_jupyter=False,
        )

    def render(self, renderable: RenderableType, options: ConsoleOptions | None = None) -> Iterable[Segment]:
        """Yields the pieces of whatever is printed, their text made printable."""
        for segment in super().render(renderable, options):
            # Rich itself moves the cursor by pieces that have a control code and no text of anybody.
            yield segment if segment.control else Segment(printable(segment.text), segment.style)
