"""The command `redqueen`, and `python -m redqueen`."""

from __future__ import annotations

import importlib
import sys


def main() -> None:
    """Runs the command line."""
    try:
        # Not above: on a busy machine these imports take seconds, in which a person may press Ctrl-C.
        importlib.import_module("redqueen.cli.app").main()
    except KeyboardInterrupt:
        sys.stderr.write("\nredqueen: stopped by Ctrl-C\n")
        sys.exit(130)


if __name__ == "__main__":
    main()
