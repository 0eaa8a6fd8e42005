"""Finds scripts that start a run when they are imported.

A worker process imports the script that started it (that is how Python's "spawn" works). A script without
`if __name__ == "__main__":` starts another run in each worker, which loads a model and starts workers of its own.
"""

from __future__ import annotations

import multiprocessing
import os

NO_GUARD = 77
"""The exit code of a worker whose script has no guard."""


def check_main_guard() -> None:
    """Ends this process if it is a worker that is still importing the script. The parent then says what is wrong."""
    # multiprocessing sets the mark while a new process imports its parent's script, and refuses to start processes as
    # long as it is there. To raise an error here would print a traceback from each worker, and the script may catch it.
    if getattr(multiprocessing.current_process(), "_inheriting", False):
        os._exit(NO_GUARD)
