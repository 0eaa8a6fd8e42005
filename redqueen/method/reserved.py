"""Programs that are similar to reserved ones: no task bank holds one, and no warm start learns from one."""

from __future__ import annotations

from redqueen.tasks.kinds import Half, Language, find_or_plain, languages, names

__all__ = ["Half", "is_reserved"]


def is_reserved(program: str, kind: str | None = None) -> bool:
    """Returns whether a program is similar to a reserved one, up to names and constants.

    `kind` says whose language it is in; without it, it is tried in all of them.
    """
    every: list[Language] = languages(names()) if kind is None else [find_or_plain(kind).language]
    return any(language.is_reserved(program) for language in every)
