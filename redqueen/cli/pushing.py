"""Publishes a folder on the Hugging Face hub: a model, a data set, or a static Space."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any, Literal

from rich.console import Console

from redqueen import __version__
from redqueen.base.optional import require
from redqueen.errors import UserError

What = Literal["model", "dataset", "space"]
_NAME = re.compile(r"[\w.-]+/[\w.-]+")


def hub(name: str | None) -> Any:
    """Returns the hub's library if something is to be published as `name`, before anything is written.

    Raises UserError if `name` is no USER/NAME, if you are not logged in or if the library is not installed.
    """
    if name is None:
        return None
    if not _NAME.fullmatch(name):
        raise UserError(f"--push {name}: write USER/NAME, as the repository is called on the hub")
    library = require("huggingface_hub", "train", "--push")
    if library.get_token() is None:
        raise UserError("--push needs a login: hf auth login, or a token in HF_TOKEN")
    return library


def push(library: Any, folder: Path, name: str, what: What, console: Console) -> None:
    """Uploads all files of `folder` into the repository `name`, which is made if it is not there, as private.

    Raises UserError if that fails.
    """
    api = library.HfApi(library_name="redqueen", library_version=__version__)
    library.utils.disable_progress_bars()
    sdk = {"space_sdk": "static"} if what == "space" else {}
    try:
        url = api.create_repo(name, repo_type=what, private=True, exist_ok=True, **sdk)
        api.upload_folder(repo_id=name, repo_type=what, folder_path=folder, commit_message=f"Red Queen {__version__}")
    # What the library raises depends on its version: errors of the network, of HTTP, of the disk, of a refused card.
    except Exception as error:
        said = "".join(str(error).strip().splitlines()[:1])
        raise UserError(f"cannot publish {folder} as {name}: {said or 'it failed'} ({type(error).__name__})") from error
    console.print(f"published: {url} (a repository that was made now is private)")
