"""What selection looks at: one member's rating and what its recent games were like."""

from dataclasses import dataclass

from redqueen.league.rating import Rating


@dataclass(frozen=True, slots=True)
class Standing:
    """Where one member stands: its rating, and the games (matches) it has played since its birth.

    Attributes:
        member: its name.
        rating: after its last game.
        games: how many it has played and was rated for.
        rewards: its mean reward in each of its latest games, oldest first.
        contested: how open each of its latest games was, in [0, 1], oldest first (see `learnability`).
        held_out: its latest score on the fixed probe tasks, in [0, 1]; None before the first.

    >>> Standing("s0", Rating(), games=0).rewards
    ()
    """

    member: str
    rating: Rating
    games: int
    rewards: tuple[float, ...] = ()
    contested: tuple[float, ...] = ()
    held_out: float | None = None
