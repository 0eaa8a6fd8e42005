"""SandboxFusion's wire: what a request asks for, and what an outcome is called there. No network is in this file.

Source: bytedance/SandboxFusion, `sandbox/server/sandbox_api.py` and `sandbox/runners/types.py`.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Any, cast

from redqueen.jail.job import Job, Outcome
from redqueen.jail.judging import PROGRAMS, printed, script_job

RUN_TIMEOUT_S = 10.0
"""What a request gets that does not say: SandboxFusion's own default."""
PATIENCE_S = 5.0
"""The wall-clock limit is twice the CPU limit and this. verl waits for `compile_timeout + run_timeout + 10`."""

# A number above these is a mistake.
_LONGEST_S = 1e6
_LARGEST_MB = 1 << 24

# Fields of the wire that this service cannot do. No answer is lost if they are empty.
_REFUSED = {"files": "the jail has no files", "fetch_files": "the jail has no files", "args": "they are for pytest"}
_KNOWN = frozenset(["code", "language", "stdin", "run_timeout", "compile_timeout", "memory_limit_MB", *_REFUSED])


class WireError(Exception):
    """A request that is not answered; the message says why and what to do."""

    def __init__(self, message: str, status: int = 422) -> None:
        super().__init__(message)
        self.status = status


@dataclass(frozen=True, slots=True, kw_only=True)
class RequestLimits:
    """The most that one request may ask for."""

    seconds: float = 60.0
    """CPU seconds."""
    memory_mb: int = 2048


def read_request(body: bytes, most: RequestLimits) -> Job:
    """Returns the job that a request asks for. Raises WireError."""
    try:
        fields = json.loads(body)
    # Numbers of more than 4,300 digits are a ValueError too.
    except (ValueError, RecursionError) as error:
        raise WireError(f"the body is not JSON: {str(error)[:100]}", 400) from None
    if not isinstance(fields, dict):
        raise WireError("the body is not a JSON object", 400)
    asked = cast("dict[str, Any]", fields)
    language = asked.get("language")
    if language != "python":
        raise WireError(f"language is {_shown(language)}, and this service runs python only")
    for name, value in asked.items():
        if name not in _KNOWN and not _is_empty(value):
            raise WireError(f"{_shown(name)} is unknown to this service: leave it out")
        if name in _REFUSED and not _is_empty(value):
            raise WireError(f"{name} is refused: {_REFUSED[name]}")
    seconds = _seconds(asked, "run_timeout", most.seconds)
    # Nothing is compiled apart from running it, but a wrong value is a mistake of the caller all the same.
    _seconds(asked, "compile_timeout", _LONGEST_S)
    limits = replace(
        PROGRAMS.limits, cpu_s=seconds, wall_s=2 * seconds + PATIENCE_S, memory_mb=_memory_mb(asked, most.memory_mb)
    )
    return script_job(_text(asked, "code"), _text(asked, "stdin", optional=True), limits)


def answer(outcome: Outcome) -> dict[str, Any]:
    """Returns the response for an outcome."""
    if outcome.status == "infra_error":
        return _response("SandboxError", outcome.detail, None)
    wrote = printed(outcome)
    run: dict[str, Any] = {
        "status": "Finished",
        "execution_time": outcome.cpu_ms / 1000,
        "return_code": 1,
        "stdout": "",
        "stderr": "",
    }
    if wrote is not None:
        run |= {"return_code": wrote.code, "stdout": wrote.stdout, "stderr": wrote.stderr}
    elif outcome.status == "timeout":
        # What it printed until then is lost with its process.
        run |= {"status": "TimeLimitExceeded", "return_code": None, "stderr": outcome.detail}
    else:
        run["stderr"] = f"{outcome.status}: {outcome.detail or 'not one well-formed result'}"
    return _response("Success" if run["return_code"] == 0 else "Failed", "", run)


def encoded(value: object) -> bytes:
    """Returns JSON as bytes. Texts of a program may hold halves of surrogate pairs, which UTF-8 does not know."""
    return json.dumps(value, ensure_ascii=True).encode("ascii")


def _response(status: str, message: str, run: Mapping[str, Any] | None) -> dict[str, Any]:
    return {
        "status": status,
        "message": message,
        "compile_result": None,
        "run_result": run,
        "executor_pod_name": None,
        "files": {},
    }


def _text(asked: Mapping[str, Any], name: str, *, optional: bool = False) -> str:
    value = asked.get(name)
    if value is None and optional:
        return ""
    if not isinstance(value, str):
        raise WireError(f"{name} must be a text, not {_shown(value)}")
    return value


def _seconds(asked: Mapping[str, Any], name: str, most: float) -> float:
    value = asked.get(name)
    if value is None:
        return min(RUN_TIMEOUT_S, most)
    if not _is_number(value) or not 0 < value <= _LONGEST_S:
        raise WireError(f"{name} must be a number of seconds above 0, not {_shown(value)}")
    if value > most:
        raise WireError(f"{name} is {value:g}, and at most {most:g} here: start the service with --seconds {value:g}")
    return float(value)


def _memory_mb(asked: Mapping[str, Any], most: int) -> int:
    value = asked.get("memory_limit_MB")
    # -1 is SandboxFusion's word for no limit.
    if value is None or value == -1:
        return most
    if not _is_number(value) or not 1 <= value <= _LARGEST_MB:
        raise WireError(f"memory_limit_MB must be a number from 1 on, or -1, not {_shown(value)}")
    if value > most:
        raise WireError(f"memory_limit_MB is {value:g}, and at most {most} here: start the service with --memory N")
    return int(value)


def _is_number(value: object) -> bool:
    return isinstance(value, int | float) and not isinstance(value, bool)


def _is_empty(value: object) -> bool:
    return value is None or value in ("", [], {})


def _shown(value: object) -> str:
    if isinstance(value, list | dict):
        return "a list" if isinstance(value, list) else "an object"
    text = json.dumps(value[:60] if isinstance(value, str) else value)
    return text if len(text) <= 60 else f"{text[:57]}..."
