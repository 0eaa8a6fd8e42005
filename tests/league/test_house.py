"""The league is rules only: importing it must not load a tensor library."""

import subprocess
import sys


def test_no_tensor_library_is_loaded():
    code = (
        "import sys, redqueen.league.rating, redqueen.league.matchmaking, redqueen.league.selection\n"
        "print([m for m in ('torch', 'numpy', 'transformers') if m in sys.modules])"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "[]"
