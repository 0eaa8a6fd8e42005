"""`redqueen verify` as a person uses it, and its reader of lines."""

from __future__ import annotations

import contextlib
import functools
import json
import os
import shlex
import signal
import subprocess
import sys
import threading
import time
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from redqueen.cli.verify import MAX_LINE_BYTES, BadLineError, VerifyEntry, _lines, _Window, read_entry, run_verify
from redqueen.config import SandboxConfig
from redqueen.errors import UserError
from redqueen.tasks.kinds import names

pytestmark = pytest.mark.integration

Line = dict[str, Any]
ADD = "def f(x):\n    return x + 1"
SPIN = "def f(x):\n    while True:\n        pass"
COMMAND = [sys.executable, "-m", "redqueen", "verify"]


def proposal(id: Any = "p", program: str = ADD, input: Any = "1", kind: str = "code_o", **more: Any) -> Line:
    return {"id": id, "kind": kind, "program": program, "input": input, **more}


def attempt(kind: str, **fields: Any) -> Line:
    return {"id": "a", "kind": kind, **fields}


def induction(answer: str, hidden: Any = (("3", "4"), ("4", "5")), **more: Any) -> Line:
    task = {"message": "add one", "examples": [["1", "2"], ["2", "3"]], "hidden": hidden}
    return {"id": "f", "kind": "code_f", **task, "answer": answer, **more}


def verify(text: str | bytes, *options: str, source: str = "-") -> subprocess.CompletedProcess[bytes]:
    data = text if isinstance(text, bytes) else text.encode()
    return subprocess.run([*COMMAND, source, *options], input=data, capture_output=True, timeout=300, check=False)


def as_text(lines: list[Line | str]) -> str:
    return "".join((line if isinstance(line, str) else json.dumps(line)) + "\n" for line in lines)


class Here:
    """`redqueen verify FILE` in this process, which saves the start of an interpreter."""

    def __init__(self, file: Path, capsys: pytest.CaptureFixture[str]) -> None:
        self.file = file
        self.capsys = capsys

    def __call__(self, text: str | bytes, jobs: int = 1) -> tuple[list[Line], str]:
        """The verdict lines, and what was shown on standard error."""
        self.file.write_bytes(text if isinstance(text, bytes) else text.encode())
        assert run_verify(str(self.file), jobs) == 0
        shown = self.capsys.readouterr()
        assert shown.out.isascii()
        return [json.loads(line) for line in shown.out.splitlines()], shown.err


@pytest.fixture
def here(tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch) -> Here:
    # The wall clock is far away: on a busy machine it would turn a timeout into an `infra_error`.
    limits = functools.partial(SandboxConfig, cpu_s=0.4, wall_s=120.0)
    monkeypatch.setattr("redqueen.cli.verify.SandboxConfig", limits)
    return Here(tmp_path / "lines.jsonl", capsys)


CASES: dict[str, tuple[Line | str, str]] = {
    "valid": (proposal(), "valid"),
    "valid code_f": (proposal(kind="code_f"), "valid"),
    "no program": (proposal(program="def f(:"), "malformed"),
    "no f": (proposal(program="def g(x):\n    return x"), "malformed"),
    "no literal": (proposal(input="1) or (2"), "malformed"),
    "forbidden": (proposal(program="import os\n" + ADD), "forbidden"),
    "error": (proposal(program="def f(x):\n    return 1 // 0"), "error"),
    "timeout": (proposal(program=SPIN), "timeout"),
    "memory": (proposal(program="def f(x):\n    return [0] * 10 ** 9"), "memory"),
    "oversize output": (proposal(program="def f(x):\n    return 'a' * 20_000"), "oversize"),
    "oversize input": (proposal(input="'" + "a" * 20_000 + "'"), "oversize"),
    "oversize when written out": (proposal(input="[" + "9e15," * 3_200 + "]", program="f = len"), "oversize"),
    "unsupported": (proposal(program="def f(x):\n    return f"), "unsupported"),
    "nondeterministic": (proposal(program="def f(x):\n    return id(f)"), "nondeterministic"),
    "code_o right": (proposal(output="2", answer="2"), "correct"),
    "code_o wrong type": (proposal(output="2", answer="2.0"), "wrong"),
    "code_o expression": (proposal(output="2", answer="1 + 1"), "malformed"),
    "code_o too long": (proposal(output="2", answer="'" + "a" * 20_000 + "'"), "oversize"),
    "code_i right": (proposal(kind="code_i", program="f = abs", input="2", output="2", answer="-2"), "correct"),
    "code_i no input": (attempt("code_i", program="f = abs", output="2", answer="-2"), "correct"),
    "code_i other output": (proposal(kind="code_i", output="3", answer="2"), "nondeterministic"),
    "code_i bad input": (proposal(kind="code_i", input="x", output="2", answer="1"), "malformed"),
    "code_i long input": (proposal(kind="code_i", input="1" * 20_000, output="2", answer="1"), "oversize"),
    "code_i number as input": (proposal(kind="code_i", input=1, output="2", answer="1"), "malformed"),
    "code_i wrong": (proposal(kind="code_i", output="2", answer="2"), "wrong"),
    "code_i over lines": (attempt("code_i", program="f = max", output="2", answer="1,\n2,\n"), "correct"),
    "code_i trick": (proposal(kind="code_i", output="True", answer="0) or (True"), "malformed"),
    "code_i endless": (attempt("code_i", program=SPIN, output="2", answer="2"), "timeout"),
    "code_f right": (induction("def f(x):\n    return x + 1"), "correct"),
    "code_f wrong": (induction("def f(x):\n    return x"), "wrong"),
    "code_f first miss": (induction("def f(x):\n    return 1 // (x - 4)"), "wrong"),
    "code_f error": (induction("def f(x):\n    return 1 // 0"), "error"),
    "code_f forbidden": (induction("import os\ndef f(x):\n    return x + 1"), "error"),
    "code_f without f": (induction("return x + 1"), "malformed"),
    "not JSON": ("{", "malformed"),
    "empty": ("", "malformed"),
    "a number without end": ('{"id": ' + "1" * 5_000 + "}", "malformed"),
    "a list": ("[1]", "malformed"),
    "deep JSON": ("[" * 100_000, "malformed"),
    "kind": (proposal(kind="code_x"), "malformed"),
    "unhashable kind": (proposal(kind=[]), "malformed"),  # type: ignore[arg-type]
    "no input": ({"id": "a", "kind": "code_o", "program": ADD}, "malformed"),
    "input is no text": (proposal(input=1), "malformed"),
    "no id": ({"kind": "code_o", "program": ADD, "input": "1"}, "malformed"),
    "id is a list": (proposal(id=[1]), "malformed"),
    "answer is no text": (proposal(output="2", answer=2), "malformed"),
    "output without answer": (proposal(output="2"), "malformed"),
    "no literal as gold": (proposal(output="x", answer="2"), "malformed"),
    "hidden without answer": (proposal(kind="code_f", hidden=[["1", "2"]]), "malformed"),
    "nothing hidden": (induction("f = abs", hidden=[]), "malformed"),
    "too much hidden": (induction("f = abs", hidden=[["1", "1"]] * 300), "malformed"),
    "hidden is no list": (induction("f = abs", hidden="1"), "malformed"),
    "hidden input is no literal": (induction("f = abs", hidden=[["x", "1"]]), "malformed"),
    "hidden output is no literal": (induction("f = abs", hidden=[["1", "x"]]), "malformed"),
    "hidden input too long": (induction("f = abs", hidden=[["1" * 20_000, "1"]]), "oversize"),
    "a pair of three": (induction("f = abs", hidden=[["1", "2", "3"]]), "malformed"),
    "last": (proposal(id="last"), "valid"),
}


def test_every_line_gets_its_status_in_the_same_order(here: Here) -> None:
    found, _ = here(as_text([line for line, _ in CASES.values()]))
    assert {name: line["status"] for name, line in zip(CASES, found, strict=True)} == {
        name: status for name, (_, status) in CASES.items()
    }
    assert found[-1] == {"id": "last", "status": "valid", "output": "2", "detail": "", "cpu_ms": found[-1]["cpu_ms"]}
    assert all(list(line) == ["id", "status", "output", "detail", "cpu_ms"] for line in found)
    assert all(line["detail"] for line in found if line["status"] in ("malformed", "error", "forbidden"))


def test_a_bad_input_or_output_is_the_lines_fault_and_not_the_answers(here: Here) -> None:
    lines: list[Line | str] = [
        induction("f = abs", hidden=[["1", "1"], ["x", "1"]]),
        induction("f = abs", hidden=[["1", "x"]]),
        proposal(kind="code_i", input="x", output="2", answer="1"),
    ]
    found, _ = here(as_text(lines))
    assert [line["detail"] for line in found] == [
        "line 1: the recorded input: a name is not a literal: 'x'",
        "line 2: the expected output: a name is not a literal: 'x'",
        "line 3: the recorded input: a name is not a literal: 'x'",
    ]


def test_a_bad_line_says_its_number_and_keeps_its_id(here: Here) -> None:
    found, _ = here(as_text([proposal(), proposal(id=7, kind="no"), "rubbish", proposal(id="z")]))
    assert [line["id"] for line in found] == ["p", 7, None, "z"]
    assert found[1]["detail"] == f'line 2: "kind" must be one of {", ".join(names())}'
    assert found[2]["detail"].startswith("line 3: not JSON: ")


def test_order_is_kept_over_slow_and_quick_programs(here: Here) -> None:
    many = [proposal(id=i, program=SPIN if i == 1 else ADD, input=str(i)) for i in range(60)]
    # The last line has no end.
    found, shown = here("\n".join(map(json.dumps, many)), jobs=2)
    assert [line["id"] for line in found] == list(range(60))
    assert [line["output"] for line in found[2:]] == [str(i + 1) for i in range(2, 60)]
    assert "60 lines in " in shown
    assert "valid 59, timeout 1" in shown


def test_bytes_that_are_no_text_and_odd_texts_are_lines_like_any_other(here: Here) -> None:
    odd = json.dumps(proposal(id="\ud800\u2028é", program="def f(x):\n    return '\\ud800\\n'", input="1"))
    found, _ = here(b"\xff\xfe\n" + b"\xef\xbb\xbf" + odd.encode() + b"\r\n\0\n")
    assert [line["status"] for line in found] == ["malformed", "valid", "malformed"]
    assert (found[1]["id"], found[1]["output"]) == ("\ud800\u2028é", "'\\ud800\\n'")


def test_a_line_that_is_too_long_is_one_malformed_line(here: Here) -> None:
    long = b'{"id": "' + b"x" * (MAX_LINE_BYTES + 10_000_000) + b'"}'
    found, _ = here(long + b"\n" + json.dumps(proposal()).encode() + b"\n")
    assert [line["status"] for line in found] == ["malformed", "valid"]
    assert len(json.dumps(found)) < 1_000


def test_an_empty_file_is_no_error(here: Here) -> None:
    found, shown = here("")
    assert found == []
    assert "nothing to do" in shown


@pytest.mark.parametrize("path", ["missing.jsonl", "/"])
def test_a_file_that_cannot_be_read_is_the_users_error(path: str) -> None:
    with pytest.raises(UserError, match=f"^cannot read {path}: "):
        run_verify(path, 1)


def test_a_file_that_cannot_be_read_is_one_line() -> None:
    done = verify("", source="missing.jsonl")
    assert done.returncode == 2
    assert done.stderr.startswith(b"redqueen: cannot read")
    assert done.stderr.count(b"\n") == 1


@pytest.mark.slow
def test_a_verdict_does_not_wait_for_the_next_line() -> None:
    with subprocess.Popen([*COMMAND, "-"], stdin=subprocess.PIPE, stdout=subprocess.PIPE) as process:
        assert process.stdin is not None
        assert process.stdout is not None
        for number in range(2):
            process.stdin.write(json.dumps(proposal(id=number)).encode() + b"\n")
            process.stdin.flush()
            assert json.loads(process.stdout.readline())["id"] == number
        process.stdin.close()
        assert process.wait(timeout=300) == 0


@pytest.mark.slow
def test_a_reader_that_leaves_is_no_traceback() -> None:
    text = (json.dumps(proposal()) + "\n") * 3_000
    with subprocess.Popen(
        [*COMMAND, "-"], stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.PIPE
    ) as process:
        assert process.stdin is not None
        assert process.stdout is not None
        assert process.stderr is not None
        feed = threading.Thread(target=_feed, args=(process.stdin, text.encode()))
        feed.start()
        process.stdout.readline()
        process.stdout.close()
        assert process.wait(timeout=300) == 1
        feed.join()
        assert process.stderr.read() == b""


@pytest.mark.slow
@pytest.mark.skipif(not Path("/dev/full").exists(), reason="writes to /dev/full")
@pytest.mark.parametrize(
    ("streams", "code", "verdicts", "said"),
    [
        (">&-", 2, 0, "redqueen: standard output is closed: there is nowhere to write the verdicts\n"),
        (">/dev/full", 2, 0, "redqueen: cannot write the verdicts: No space left on device\n"),
        ("2>&-", 0, 3, ""),
        ("2>/dev/full", 0, 3, ""),
        ("<&-", 2, 0, "redqueen: cannot read -: Bad file descriptor\n"),
        (">&- 2>&- <&-", 2, 0, ""),
    ],
)
def test_streams_that_are_closed_or_full_are_no_traceback(streams: str, code: int, verdicts: int, said: str) -> None:
    text = (json.dumps(proposal()) + "\n") * 3
    command = f"{shlex.join([*COMMAND, '-', '--jobs', '1'])} {streams}"
    done = subprocess.run(command, shell=True, input=text, capture_output=True, text=True, timeout=300, check=False)
    assert (done.returncode, done.stdout.count('"valid"'), done.stderr) == (code, verdicts, said)


@pytest.mark.slow
def test_a_long_number_is_a_value_whatever_pythons_own_limit_is() -> None:
    line = proposal(program="def f(x):\n    return 10 ** 1_000 + x")
    environment = {**os.environ, "PYTHONINTMAXSTRDIGITS": "640"}
    done = subprocess.run(
        [*COMMAND, "-", "--jobs", "1"],
        input=json.dumps(line).encode(),
        capture_output=True,
        env=environment,
        check=True,
    )
    assert json.loads(done.stdout)["output"] == str(10**1_000 + 1)


def _feed(stdin: Any, data: bytes) -> None:
    try:
        stdin.write(data)
        stdin.close()
    except BrokenPipeError:
        # The other side left, as it should.
        return


@pytest.mark.slow
@pytest.mark.skipif(not Path("/proc").is_dir(), reason="reads /proc")
def test_ctrl_c_ends_it_at_once_and_leaves_no_process() -> None:
    text = (json.dumps(proposal(program=SPIN)) + "\n") * 500
    with subprocess.Popen(
        [*COMMAND, "-", "--jobs", "2"], stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.PIPE
    ) as process:
        assert process.stdin is not None
        assert process.stdout is not None
        assert process.stderr is not None
        process.stdin.write(text.encode())
        process.stdin.flush()
        process.stdout.readline()
        # Any thread may have started a worker, and the kernel lists children by thread.
        pids: list[str] = []
        for task in Path(f"/proc/{process.pid}/task").iterdir():
            pids += task.joinpath("children").read_text().split()
        assert pids
        process.send_signal(signal.SIGINT)
        assert process.wait(timeout=300) != 0
        assert b"Traceback" not in process.stderr.read()
        # It did not wait for the lines that no worker had begun.
        assert process.stdout.read().count(b"\n") < 100
        assert not any(Path(f"/proc/{pid}").exists() for pid in pids)


def test_the_command_loads_no_tensor_library() -> None:
    script = "import sys, redqueen.cli.app, redqueen.cli.verify\nprint('torch' in sys.modules)"
    done = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, check=True)
    assert done.stdout == "False\n"


@given(st.binary(max_size=60) | st.text(alphabet='{}[]":,id0\\ ', max_size=40).map(str.encode))
def test_any_bytes_are_an_entry_or_a_bad_line(raw: bytes) -> None:
    with contextlib.suppress(BadLineError):
        assert isinstance(read_entry(raw), VerifyEntry)


JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=5),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=3), inner, max_size=2),
    max_leaves=6,
)
FIELDS = ("id", "kind", "program", "input", "output", "answer", "message", "examples", "hidden")


def test_a_mark_in_front_of_a_program_is_no_part_of_it() -> None:
    entries = [read_entry(json.dumps(proposal(program=mark + ADD)).encode()) for mark in ("", "\ufeff")]
    assert entries[0] == entries[1]


@given(st.dictionaries(st.sampled_from(FIELDS), JSON), st.sampled_from(["code_o", "code_i", "code_f"]))
def test_any_json_is_an_entry_or_a_bad_line(line: Line, kind: str) -> None:
    with contextlib.suppress(BadLineError):
        assert isinstance(read_entry(json.dumps({"kind": kind, **line}).encode()), VerifyEntry)


def test_lines_are_cut_where_they_end(tmp_path: Path) -> None:
    file = tmp_path / "x"
    file.write_bytes(b"a\n\nb\r\n" + b"c" * (MAX_LINE_BYTES + 5) + b"\nd")
    with file.open("rb") as stream:
        found = list(_lines(stream))
    assert [line[:2] for line in found] == [b"a", b"", b"b", b"cc", b"d"]
    assert MAX_LINE_BYTES < len(found[3]) <= MAX_LINE_BYTES + 2


def test_reading_stops_while_too_much_is_in_flight() -> None:
    window = _Window(10)
    # A line larger than the whole budget still passes, alone.
    window.enter(50)
    entered = threading.Event()

    def enter() -> None:
        window.enter(5)
        entered.set()

    thread = threading.Thread(target=enter)
    thread.start()
    assert not entered.wait(0.1)
    window.leave(50)
    assert entered.wait(300)
    thread.join()


def test_the_window_really_bounds_what_is_read() -> None:
    """A writer that never stops is held up: the pipe fills while verdicts are not taken away."""
    program = "def f(x):\n    return 'a' * 16_000\n#" + "#" * 60_000
    data = (json.dumps(proposal(program=program)) + "\n").encode()
    with subprocess.Popen([*COMMAND, "-", "--jobs", "1"], stdin=subprocess.PIPE, stdout=subprocess.PIPE) as process:
        assert process.stdin is not None
        os.set_blocking(process.stdin.fileno(), False)
        written, still = 0, time.monotonic()
        while time.monotonic() - still < 0.5 and written < 400 << 20:
            try:
                count = os.write(process.stdin.fileno(), data)
            except BlockingIOError:
                time.sleep(0.01)
                continue
            written, still = written + count, time.monotonic()
        process.kill()
    assert written < 400 << 20


def test_a_file_of_exported_tasks_is_one_line_that_names_the_command_for_it(tmp_path: Path) -> None:
    file = tmp_path / "tasks.jsonl"
    row = {"id": "a", "kind": "code_o", "program": "def f(x): return x", "inputs": ["1"], "outputs": ["1"]}
    # The first right answer, where an attempt was right.
    row["answer"] = "1"
    file.write_text(f"{json.dumps(row)}\n" * 3)
    with pytest.raises(UserError, match="line 1 is a task of `redqueen tasks export`: use redqueen tasks import FILE"):
        run_verify(str(file), 1)
