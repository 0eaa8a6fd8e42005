"""`redqueen init`: writes a file of settings, with what each means."""

from __future__ import annotations

from pathlib import Path

from redqueen.config.files import is_settings, write_settings
from redqueen.config.recipes import recipe
from redqueen.errors import UserError
from redqueen.store.files import quoted


def run_init(name: str, out: Path) -> int:
    """Writes the settings of a recipe; returns the exit code.

    Raises UserError for a recipe that is not there, and for a file of another format, or that cannot be written.
    """
    config = recipe(name)
    if not is_settings(out):
        raise UserError(f"--out {out}: the file's name must end in .toml or .yaml")
    try:
        write_settings(config, out)
    except FileExistsError as error:
        raise UserError(f"{out} is there already: choose another name with --out") from error
    except OSError as error:
        raise UserError(f"cannot write {out}: {error.strerror or error}") from error
    print(f"wrote {out}: change it, then redqueen train --config {quoted(out)}")
    return 0
