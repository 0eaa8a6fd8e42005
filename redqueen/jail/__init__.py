"""The jail: untrusted programs in, statuses and literal values out. docs/JAIL.md shows it as a library."""

from redqueen.jail.cases import Call, Script, Test
from redqueen.jail.child.values import (
    CodecError,
    LiteralError,
    OversizeError,
    UnsupportedError,
    canonical,
)
from redqueen.jail.job import BENCHMARKS, GAME, MAX_INPUTS, Job, Limits, Outcome, Profile, Status
from redqueen.jail.judging import JUDGED, PROGRAMS, judge
from redqueen.jail.literals import MAX_TEXT_BYTES, parse_arguments, parse_literal, to_literal
from redqueen.jail.pool import Sandbox
from redqueen.jail.probes import PROCESS, IsolationError, Probe, probe
from redqueen.jail.worker import encode_arguments

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
