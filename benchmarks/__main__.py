"""`python -m benchmarks`."""

import sys

from benchmarks.cli import app
from redqueen.errors import UserError

try:
    app(prog_name="python -m benchmarks")
except UserError as error:
    sys.exit(f"benchmarks: {error}")
