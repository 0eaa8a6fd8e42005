"""One shared sandbox for the folder: a small pool is enough, and starting one costs more than most tests."""

from __future__ import annotations

from collections.abc import Callable, Iterator

import pytest

from redqueen.sandbox import Job, Limits, Outcome, Sandbox

Run = Callable[..., Outcome]


@pytest.fixture(scope="session")
def sandbox() -> Iterator[Sandbox]:
    with Sandbox(Limits(cpu_s=0.3, memory_mb=64), workers=1) as shared:
        yield shared


@pytest.fixture
def run(sandbox: Sandbox) -> Run:
    """`run(program, *inputs, **job_fields)`: the outcome of one job; without inputs, one call without arguments."""

    def run_one(program: str, *inputs: str, **fields: object) -> Outcome:
        return sandbox.run([Job(program, inputs or ("",), **fields)])[0]  # type: ignore[arg-type]

    return run_one
