"""Under which question of a reader the overview has each chart."""

from __future__ import annotations

_QUESTIONS: tuple[tuple[str, tuple[str, ...], tuple[str, ...]], ...] = (
    (
        "Do students learn?",
        (
            "held-out-own",
            "held-out-students",
            "held-out",
            "solve-rate",
            "solve-rate-own",
            "solve-rate-by-kind",
            "rewards",
            "verdicts",
        ),
        (),
    ),
    ("Are the tasks valid, and worth solving?", ("valid-rate", "rejections", "contested", "guessable"), ("dynamics",)),
    ("Are the tasks hard and long?", (), ("complexity",)),
    ("Are the tasks new?", ("new-ideas", "new-shapes", "new-paths", "seed-references", "task-bank"), ()),
    ("How much have the tasks covered?", (), ("coverage",)),
    ("Who wins?", ("outcomes",), ("league",)),
    ("What does it cost?", ("tokens", "tokens-by-phase", "seconds"), ()),
    ("How does the training go?", (), ("training",)),
)
"""Each question, the charts that answer it, and the sections whose other charts do. The order is that of the page."""
QUESTIONS = (*(question for question, _, _ in _QUESTIONS), "Other charts")


def question_of(key: str, section: str) -> str:
    """Returns the question of a panel: the one that names it, else that of its section."""
    named = (question for question, keys, _ in _QUESTIONS if key in keys)
    of_section = (question for question, _, sections in _QUESTIONS if section in sections)
    return next(named, None) or next(of_section, QUESTIONS[-1])
