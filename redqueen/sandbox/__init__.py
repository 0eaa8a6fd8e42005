"""The jail: untrusted programs in, statuses and literal values out."""

from redqueen.sandbox.codec import (
    CodecError,
    LiteralError,
    OversizeError,
    UnsupportedError,
    canonical,
    decode,
    encode,
    parse_arguments,
    parse_literal,
    to_literal,
)
from redqueen.sandbox.job import Job, Limits, Outcome, Status
from redqueen.sandbox.pool import Sandbox
from redqueen.sandbox.probes import IsolationError, Probe, probe

__all__ = [
    "CodecError",
    "IsolationError",
    "Job",
    "Limits",
    "LiteralError",
    "Outcome",
    "OversizeError",
    "Probe",
    "Sandbox",
    "Status",
    "UnsupportedError",
    "canonical",
    "decode",
    "encode",
    "parse_arguments",
    "parse_literal",
    "probe",
    "to_literal",
]
