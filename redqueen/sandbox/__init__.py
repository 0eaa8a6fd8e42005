"""The jail: untrusted programs in, statuses and literal values out. docs/JAIL.md shows it as a library."""

from redqueen.sandbox.cases import Call, Script, Test
from redqueen.sandbox.child.values import (
    CodecError,
    LiteralError,
    OversizeError,
    UnsupportedError,
    canonical,
)
from redqueen.sandbox.job import MAX_INPUTS, Job, Limits, Outcome, Status
from redqueen.sandbox.judging import JUDGED, judge
from redqueen.sandbox.literals import MAX_TEXT_BYTES, parse_arguments, parse_literal, to_literal
from redqueen.sandbox.pool import Sandbox
from redqueen.sandbox.probes import PROCESS, IsolationError, Probe, probe
from redqueen.sandbox.profile import BENCHMARKS, GAME, Profile
from redqueen.sandbox.programs import PROGRAMS
from redqueen.sandbox.worker import encode_arguments

__all__ = [
    "BENCHMARKS",
    "GAME",
    "JUDGED",
    "MAX_INPUTS",
    "MAX_TEXT_BYTES",
    "PROCESS",
    "PROGRAMS",
    "Call",
    "CodecError",
    "IsolationError",
    "Job",
    "Limits",
    "LiteralError",
    "Outcome",
    "OversizeError",
    "Probe",
    "Profile",
    "Sandbox",
    "Script",
    "Status",
    "Test",
    "UnsupportedError",
    "canonical",
    "encode_arguments",
    "judge",
    "parse_arguments",
    "parse_literal",
    "probe",
    "to_literal",
]
