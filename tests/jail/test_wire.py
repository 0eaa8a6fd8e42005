"""SandboxFusion's wire without a network: what is asked for, what is refused, and what an outcome is called."""

from __future__ import annotations

import json
from typing import Any

import pytest

from redqueen.jail import Limits, Outcome
from redqueen.jail.service import RequestLimits, WireError, answer, encoded, read_request

MOST = RequestLimits(seconds=20.0, memory_mb=1024)


def asked(**fields: Any) -> bytes:
    return json.dumps({"code": "print(1)", "language": "python", **fields}).encode()


def limits(**fields: Any) -> Limits:
    found = read_request(asked(**fields), MOST).limits
    assert found is not None
    return found


def test_a_request_says_what_its_program_may_use() -> None:
    assert (limits().cpu_s, limits().memory_mb) == (10.0, 1024)
    assert (limits(run_timeout=3).cpu_s, limits(memory_limit_MB=64).memory_mb) == (3.0, 64)
    assert limits(run_timeout=None, memory_limit_MB=-1) == limits()
    assert limits(run_timeout=3).wall_s == 11.0


def test_fields_that_are_empty_are_as_good_as_absent() -> None:
    whole = {"files": {}, "fetch_files": [], "args": [], "stdin": None, "compile_timeout": 10, "later": None}
    assert read_request(asked(**whole), MOST) == read_request(asked(), MOST)


@pytest.mark.parametrize(
    ("fields", "said"),
    [
        ({"language": "cpp"}, 'language is "cpp", and this service runs python only'),
        ({"language": None}, "language is null"),
        ({"files": {"a.txt": "YQ=="}}, "files is refused: the jail has no files"),
        ({"fetch_files": ["a"]}, "fetch_files is refused"),
        ({"args": ["-k"]}, "args is refused"),
        ({"later": 1}, '"later" is unknown'),
        ({"code": 3}, "code must be a text, not 3"),
        ({"code": None}, "code must be a text"),
        ({"stdin": ["a"]}, "stdin must be a text, not a list"),
        ({"run_timeout": 0}, "run_timeout must be a number of seconds above 0, not 0"),
        ({"run_timeout": "3"}, "run_timeout must be"),
        ({"run_timeout": True}, "run_timeout must be"),
        ({"run_timeout": float("nan")}, "run_timeout must be"),
        ({"run_timeout": 10**400}, "run_timeout must be"),
        ({"run_timeout": 21}, "at most 20 here: start the service with --seconds 21"),
        ({"compile_timeout": -1}, "compile_timeout must be"),
        ({"memory_limit_MB": 0}, "memory_limit_MB must be"),
        ({"memory_limit_MB": 2048}, "at most 1024 here"),
    ],
)
def test_everything_else_is_refused_by_name(fields: dict[str, Any], said: str) -> None:
    with pytest.raises(WireError, match=said.replace("(", r"\(")) as refused:
        read_request(asked(**fields), MOST)
    assert refused.value.status == 422


@pytest.mark.parametrize("body", [b"", b"{", b"[1]", b"\xff\xfe", b"[" * 100_000, b'{"run_timeout": ' + b"9" * 5000])
def test_a_body_that_is_no_request_is_refused(body: bytes) -> None:
    with pytest.raises(WireError) as refused:
        read_request(body, MOST)
    assert refused.value.status == 400


def test_a_fault_of_the_machine_is_the_sandboxs_error_and_no_result() -> None:
    said = answer(Outcome(status="infra_error", detail="the zygote ended"))
    assert (said["status"], said["message"], said["run_result"]) == ("SandboxError", "the zygote ended", None)


@pytest.mark.parametrize(
    ("outcome", "status", "run"),
    [
        (Outcome(status="ok", outputs=("('7\\n', '', 0)",), cpu_ms=2.0), "Success", ("Finished", 0, "7\n", "")),
        (Outcome(status="ok", outputs=("('', 'no', 3)",)), "Failed", ("Finished", 3, "", "no")),
        (Outcome(status="timeout", detail="CPU"), "Failed", ("TimeLimitExceeded", None, "", "CPU")),
        (Outcome(status="memory", detail="MemoryError"), "Failed", ("Finished", 1, "", "memory: MemoryError")),
        (Outcome(status="ok", outputs=("7",)), "Failed", ("Finished", 1, "", "ok: not one well-formed result")),
    ],
)
def test_every_outcome_has_a_name_on_the_wire(outcome: Outcome, status: str, run: tuple[Any, ...]) -> None:
    said = answer(outcome)
    assert said["status"] == status
    assert tuple(said["run_result"][name] for name in ("status", "return_code", "stdout", "stderr")) == run


def test_a_text_that_is_no_unicode_can_be_sent() -> None:
    assert json.loads(encoded({"stdout": "\ud800"})) == {"stdout": "\ud800"}
