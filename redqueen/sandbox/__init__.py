"""The jail: untrusted programs in, statuses and literal values out."""

from redqueen.sandbox.codec import (
    MAX_TEXT_BYTES,
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
from redqueen.sandbox.job import MAX_INPUTS, Job, Limits, Outcome, Status
from redqueen.sandbox.pool import Sandbox
from redqueen.sandbox.probes import PROCESS, IsolationError, Probe, probe

__all__ = [
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
