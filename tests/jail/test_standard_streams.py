"""The standard streams of a script are those of `python3 program < input`, which is the oracle."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from redqueen.jail import PROGRAMS, Sandbox, Script, judge

INPUT = "7\n8 é\n\nlast"
WRITTEN = {
    "input wrapped anew": (
        "import sys, io\nsys.stdin = io.TextIOWrapper(sys.stdin.buffer, encoding='utf-8')\nprint(input())"
    ),
    "output wrapped anew": (
        "import sys, io\nsys.stdout = io.TextIOWrapper(sys.stdout.buffer, encoding='utf-8')\nprint(input())"
    ),
    "both wrapped anew": (
        "import sys, io\nsys.stdin, sys.stdout = (io.TextIOWrapper(s.buffer) for s in (sys.stdin, sys.stdout))\n"
        "for line in sys.stdin: print(line, end='')"
    ),
    "output wrapped in a function": (
        "import sys, io\ndef main():\n    out = io.TextIOWrapper(sys.stdout.buffer)\n    out.write('x')\nmain()"
    ),
    "output wrapped and kept": "import sys, io\nout = io.TextIOWrapper(sys.stdout.buffer)\nout.write('x')",
    "wrapped twice": (
        "import sys, io\nout = io.TextIOWrapper(io.BufferedWriter(sys.stdout.buffer.raw))\nout.write('x' * 10)"
    ),
    "a buffered writer": "import sys, io\nout = io.BufferedWriter(sys.stdout.buffer.raw)\nout.write(b'x')",
    "a cycle": (
        "import sys, io\nclass A: ...\na = A()\na.a = a\na.out = io.TextIOWrapper(sys.stdout.buffer)\na.out.write('x')"
    ),
    "input detached": "import sys, io\nsys.stdin = io.TextIOWrapper(sys.stdin.detach())\nprint(input())",
    "output detached": (
        "import sys, io\nsys.stdout = io.TextIOWrapper(sys.stdout.detach(), line_buffering=True)\nprint(1)"
    ),
    "output detached to bytes": (
        "import sys, io\nout = sys.stdout.detach()\nout.write(b'x')\nsys.stdout = io.StringIO()"
    ),
    "the first streams": "import sys\nprint(sys.__stdin__.readline(), file=sys.__stdout__)\nsys.__stderr__.write('e')",
    "they are the same": "import sys\nprint(sys.stdin is sys.__stdin__, sys.stdout is sys.__stdout__)",
    "back to the first output": (
        "import sys, io\nsys.stdout = io.StringIO()\nprint('lost')\nheld = sys.stdout.getvalue()\n"
        "sys.stdout = sys.__stdout__\nprint(held.upper())"
    ),
    "bytes of file 0": "print(open(0, 'rb').read())",
    "text of file 0": "print(open(0, 'r', encoding='latin-1').read())",
    "file 0 unbuffered": "print(open(0, 'rb', 0).readline())",
    "file 0 by its number": "import sys\nprint([*open(sys.stdin.fileno(), closefd=False)])",
    "file 0 in a with": "with open(0) as f:\n    print(f.read().split())",
    "file 0 through io": "import io\nprint(io.open(0).readline())",
    "file 0 by its path": "print(open('/dev/stdin').readline())",
    "what input has read ahead": "a = input()\nprint(repr(open(0).read()), a)",
    "file 1": "open(1, 'w').write(input())",
    "file 1 in bytes": "f = open(1, 'wb')\nf.write(b'x')",
    "file 1 kept and print": "f = open(1, 'w')\nprint('a', file=f)\nprint('b', flush=True)\nf.flush()",
    "file 1 by its path": "print(1, file=open('/dev/stdout', 'w'))",
    "file 2": "print(1, file=open(2, 'w'))\nprint(2)",
    "numbers of files": "import sys\nprint(sys.stdin.fileno(), sys.stdout.fileno(), sys.stderr.fileno())",
    "names and modes": (
        "import sys\nfor s in (sys.stdin, sys.stdout):\n    print(s.name, s.mode, s.encoding, s.isatty())"
    ),
    "raw": "import sys\nprint(sys.stdin.buffer.raw.readline())\nsys.stdout.flush()\nsys.stdout.buffer.raw.write(b'x')",
    "reconfigured": (
        "import sys\nsys.stdin.reconfigure(encoding='utf-8')\n"
        "sys.stdout.reconfigure(line_buffering=True)\nprint(input())"
    ),
    "text and bytes of the output": "import sys\nprint('a')\nsys.stdout.flush()\nsys.stdout.buffer.write(b'b')",
    "text and bytes of the output in Python's order": "import sys\nprint('a')\nsys.stdout.buffer.write(b'b')",
    "text and bytes of the input": "import sys\nprint(sys.stdin.buffer.readline(), sys.stdin.readline())",
    "input and lines": "import sys\nn = int(input())\nprint(n, sys.stdin.readlines())",
    "a prompt": "print(input('n: '))",
    "back to the start": "import sys\na = sys.stdin.read()\nsys.stdin.seek(0)\nprint(a == sys.stdin.read())",
    "closed": "import sys\nprint(1)\nsys.stdout.close()",
    "redirected": (
        "import io, contextlib\nb = io.StringIO()\nwith contextlib.redirect_stdout(b):\n"
        "    print(1)\nprint(repr(b.getvalue()))"
    ),
    "fast": (
        "import sys\ninput = iter(sys.stdin.buffer.read().splitlines()).__next__\n"
        "sys.stdout.write(input().decode() + '\\n')"
    ),
    "after an exception": (
        "import sys, io\nsys.stdout = io.TextIOWrapper(sys.stdout.buffer)\nprint(1)\nraise SystemExit(0)"
    ),
    "no such mode": "try:\n    open(1, 'q')\nexcept ValueError:\n    print('no')",
    "not readable": (
        "try:\n    open(1, 'wb', closefd=False).read()\nexcept Exception as error:\n    print(type(error).__name__)"
    ),
}


@pytest.fixture(scope="module")
def jail() -> Iterator[Sandbox]:
    with Sandbox(PROGRAMS, workers=1) as sandbox:
        yield sandbox


@pytest.mark.parametrize("program", WRITTEN.values(), ids=WRITTEN.keys())
def test_a_script_prints_what_it_prints_in_python(jail: Sandbox, tmp_path: Path, program: str) -> None:
    file = tmp_path / "input"
    file.write_text(INPUT, encoding="utf-8")
    command = [sys.executable, "-X", "utf8", "-I", "-c", program]
    with file.open("rb") as stdin:
        done = subprocess.run(command, stdin=stdin, capture_output=True, check=True)
    outcome = judge(program, [Script(INPUT, done.stdout.decode())], sandbox=jail)
    assert outcome.status == "ok", (outcome, done.stdout)


def test_other_files_are_refused(jail: Sandbox) -> None:
    for file in ("'/etc/passwd'", "3", "True", "None", "b'/dev/stdin'"):
        outcome = judge(f"open({file})", [Script("", "")], sandbox=jail)
        assert "PermissionError" in outcome.detail


def test_a_program_that_prints_too_much_is_oversize_even_if_it_goes_on(jail: Sandbox) -> None:
    for program in (
        "print('x' * (1 << 24))",
        "try:\n    print('x' * (1 << 24))\nexcept Exception: ...\nprint(1)",
        "import sys, io\nsys.stdout = io.BytesIO()\nopen(1, 'w').write('x' * (1 << 24))",
        "import sys\nfor _ in range(100): sys.stdout.buffer.raw.write(b'x' * (1 << 20))",
    ):
        outcome = judge(program, [Script("", "1")], sandbox=jail)
        assert (outcome.status, outcome.detail) == (
            "oversize",
            "test 0: OutputError: more than 8388608 bytes of output",
        )
