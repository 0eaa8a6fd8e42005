"""What members and champions may be called. Their names become those of folders, and words of command lines."""

from __future__ import annotations

import re
from typing import Annotated

from pydantic import AfterValidator

_NAME = re.compile(r"[A-Za-z][A-Za-z0-9_-]{0,40}(@[0-9]{1,12})?")


def check_name(name: str) -> str:
    """Returns a name as a run writes it: `S3`, or `S3@40` of a champion. Raises ValueError if it is none."""
    if not _NAME.fullmatch(name):
        raise ValueError(
            f"it names a member {name[:60]!r}: a name is a letter and up to 40 letters, digits, - and _, and of a "
            "champion @ and its step"
        )
    return name


MemberName = Annotated[str, AfterValidator(check_name)]
"""A name that comes from a file: pydantic checks it where a state is read, `row_of` where a row is."""
