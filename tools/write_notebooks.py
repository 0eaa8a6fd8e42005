"""Runs the notebooks of docs/notebooks and writes them with their outputs: `make notebooks`.

The `.py` files are the sources: they are linted and tested, and what is written here is never edited. All notebooks run
in one temporary folder, in the order of their names: `look_into_a_run` reads the run that `first_run` has made.
"""

from __future__ import annotations

import os
from pathlib import Path
from tempfile import TemporaryDirectory

import jupytext
import nbformat
from nbclient import NotebookClient
from nbformat import NotebookNode

ROOT = Path(__file__).resolve().parents[1]
SOURCES = ROOT / "docs" / "notebooks"
ENVIRONMENT = {
    # The kernels, and the commands that cells start, import the package of this checkout.
    "PYTHONPATH": str(ROOT),
    # What is written is a file and no terminal, though a kernel asks for colours: neither bars nor warnings of other
    # libraries, which name folders of this machine.
    "PYTHONWARNINGS": "ignore",
    "HF_HUB_DISABLE_PROGRESS_BARS": "1",
    "TTY_COMPATIBLE": "0",
}
METADATA = {
    "kernelspec": {"display_name": "Python 3", "language": "python", "name": "python3"},
    "language_info": {"name": "python"},
}


def executed(source: Path, folder: Path) -> NotebookNode:
    """Returns the notebook of the percent-format file `source` with what its cells print when they run in `folder`.

    Raises CellExecutionError if a cell does.
    """
    notebook = jupytext.read(source)
    client = NotebookClient(
        notebook,
        kernel_name="python3",
        timeout=None,
        startup_timeout=300,
        resources={"metadata": {"path": str(folder)}},
        # Pieces of one stream become one output, however they arrived, and no cell says when it ran.
        coalesce_streams=True,
        record_timing=False,
    )
    client.execute()
    notebook.metadata = NotebookNode(METADATA)
    for number, cell in enumerate(notebook.cells):
        # Ids are drawn at random otherwise, and each writing would change them.
        cell.id = f"cell-{number}"
        cell.metadata = NotebookNode()
    return notebook


def main() -> None:
    """Runs all of them, and replaces none unless all have run."""
    os.environ |= ENVIRONMENT
    with TemporaryDirectory() as folder:
        written = {source: executed(source, Path(folder)) for source in sorted(SOURCES.glob("*.py"))}
    for source, notebook in written.items():
        nbformat.write(notebook, source.with_suffix(".ipynb"))
        print(f"wrote {source.with_suffix('.ipynb')}")


if __name__ == "__main__":
    main()
