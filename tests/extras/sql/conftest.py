"""One sandbox for the folder."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from redqueen.extras.sql.language import SQL
from redqueen.jail import Limits, Sandbox


@pytest.fixture(scope="session")
def sql_sandbox() -> Iterator[Sandbox]:
    """The language's jail. The wall clock is far away: a busy machine must fail no test."""
    with Sandbox(SQL.profile.with_limits(Limits(cpu_s=5.0, wall_s=120.0)), workers=1) as shared:
        yield shared
