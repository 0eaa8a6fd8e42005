"""The toy run of `tests/analysis` for the studies."""

from tests.analysis.conftest import played, saved, toy_replay

__all__ = ["played", "saved", "toy_replay"]
