"""The game's tasks and the jail as rewards in other trainers: `trl`, `verl`, and the rows that they need.

docs/JAIL.md shows each in a few lines. Nothing here loads torch, TRL or verl.
"""

from redqueen.extras.rewards.judges import pay_attempts, pay_programs, task_rows
from redqueen.store.dataset.files import task_of
from redqueen.tasks.tested.tests import check_tests

__all__ = ["check_tests", "pay_attempts", "pay_programs", "task_of", "task_rows"]
