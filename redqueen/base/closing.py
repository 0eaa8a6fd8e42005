"""What is closed at the end of a `with` block."""

from __future__ import annotations

from abc import abstractmethod
from typing import Self


class Closing:
    """A context manager that is closed at its end."""

    @abstractmethod
    def close(self) -> None:
        """Gives back what it holds."""

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()
