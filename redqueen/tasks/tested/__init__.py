"""Programs that have to pass tests: a prompt with tests, as people publish them (`docs/YOUR_TASKS.md`)."""

from redqueen.tasks.tested.kind import PassTests
from redqueen.tasks.tested.language import TESTED

__all__ = ["KINDS", "TESTED"]

KINDS = (PassTests("code_t", TESTED),)
