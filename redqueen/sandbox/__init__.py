"""The jail: untrusted programs in, statuses and literal values out."""

from redqueen.sandbox.child.values import (
    CodecError,
    LiteralError,
    OversizeError,
    UnsupportedError,
    canonical,
)
from redqueen.sandbox.job import MAX_INPUTS, Job, Limits, Outcome, Status
from redqueen.sandbox.literals import MAX_TEXT_BYTES, parse_arguments, parse_literal, to_literal
from redqueen.sandbox.pool import Sandbox
from redqueen.sandbox.probes import PROCESS, IsolationError, Probe, probe
from redqueen.sandbox.profile import BENCHMARKS, GAME, Profile
from redqueen.sandbox.worker import encode_arguments

__all__ = [
    "BENCHMARKS",
    "GAME",
    "MAX_INPUTS",
    "MAX_TEXT_BYTES",
    "PROCESS",
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
    "Status",
    "UnsupportedError",
    "canonical",
    "encode_arguments",
    "parse_arguments",
    "parse_literal",
    "probe",
    "to_literal",
]
