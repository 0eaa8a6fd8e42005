"""Pastes the tour's commands one after another into a fresh clone, and prints what a new user sees, with times.

    python tools/first_hour.py                      # sets everything up and trains: the real first hour
    python tools/first_hour.py --venv .venv --tiny  # an environment that is there, two small steps

The commands are those of the sections below, as docs/GUIDE.md has them. Those that need a hub, benchmark files or other
runs are named and left out, and the live page is closed after some seconds. At the end the program in the exported card
is run.
"""

from __future__ import annotations

import argparse
import os
import re
import shutil
import subprocess
import sys
import tempfile
import time
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]
SECTIONS = ("Two commands", "Use a student", "Look into a run")
LEFT_OUT = (
    "redqueen export runs/quickstart best-student published",
    "make test",
    "redqueen compare",
    "redqueen eval runs/quickstart base --benchmarks",
)
# `timeout` ends with 124 when it had to stop the command.
FOR_A_WHILE = "timeout --signal=INT 8 {} || [ $? = 124 ]"
TINY = (
    "redqueen train quickstart --run runs/quickstart run.steps=2 game.proposals=2 game.attempts=2 game.seed_tasks=8 "
    "sampling.proposal_tokens=64 sampling.attempt_tokens=32"
)


def commands(readme: str) -> list[str]:
    """Returns the commands of the tour's sections, in order."""
    found: list[str] = []
    for title in SECTIONS:
        section = readme.partition(f"\n## {title}\n")[2].partition("\n## ")[0]
        # A command is an indented line. The sample output of `make train` is indented too, below its prompt `$`.
        blocks = re.findall(r"(?:^    .*\n)+", section, re.MULTILINE)
        for block in blocks:
            lines = [line[4:] for line in block.splitlines()]
            if not lines[0].startswith("$"):
                found += [line for line in lines if line.startswith(("make ", "redqueen ", "hf "))]
    return found


def program_of(card: str) -> str:
    """Returns the program in an exported card."""
    match = re.search(r"```python\n(.*?)```", card, re.DOTALL)
    return match[1] if match else "raise SystemExit('the card has no program')"


class Terminal:
    """Runs commands in a folder and prints them as a terminal would, with times."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.failed: list[str] = []
        self.environment = {**os.environ, "PATH": f"{folder / '.venv' / 'bin'}:{os.environ['PATH']}"}
        # The clone is what is tried, and not another checkout that the caller's environment points to.
        self.environment.pop("PYTHONPATH", None)

    def run(self, command: str, shown: str = "") -> None:
        """Runs one command; what it prints is printed as it comes."""
        print(f"\n$ {shown or command}", flush=True)
        start = time.perf_counter()
        done = subprocess.run(command, shell=True, executable="/bin/bash", cwd=self.folder, env=self.environment)
        print(f"-- exit {done.returncode}, {time.perf_counter() - start:.0f} s", flush=True)
        if done.returncode:
            self.failed.append(shown or command)


def main() -> int:
    """Returns 1 if a command failed."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--venv", type=Path, help="use this environment instead of setting one up")
    parser.add_argument("--tiny", action="store_true", help="two small steps, and 6 held-out tasks")
    parser.add_argument("--run", type=Path, help="copy this finished run into the clone instead of training one")
    parser.add_argument("--folder", type=Path, help="where to clone to (default: a temporary folder)")
    options = parser.parse_args()

    with tempfile.TemporaryDirectory(prefix="first-hour-") as scratch:
        folder = options.folder or Path(scratch) / "redqueen"
        start = time.perf_counter()
        subprocess.run(["git", "clone", "--quiet", str(ROOT), str(folder)], check=True)
        terminal = Terminal(folder)
        if options.venv:
            (folder / ".venv").symlink_to(options.venv.resolve())
            # An editable install points to the checkout that it was made in.
            terminal.environment["PYTHONPATH"] = str(folder)
        for command in commands((folder / "docs" / "GUIDE.md").read_text(encoding="utf-8")):
            if command.startswith(LEFT_OUT):
                print(f"\n$ {command}\n-- left out")
                continue
            if options.run and command.startswith("make train"):
                shutil.copytree(options.run, folder / "runs" / "quickstart")
                print(f"\n$ {command}\n-- left out: {options.run} takes its place")
                continue
            if options.venv and command.startswith("make train"):
                command = "redqueen train quickstart --run runs/quickstart"
            if options.tiny and command.startswith(("make train", "redqueen train")):
                command = TINY
            if options.tiny and command.startswith("redqueen eval"):
                command += " --limit 6"
            stays = command.startswith("redqueen watch")
            terminal.run(FOR_A_WHILE.format(command) if stays else command, shown=command)
        card = folder / "student" / "README.md"
        if card.is_file():
            (folder / "card.py").write_text(program_of(card.read_text(encoding="utf-8")), encoding="utf-8")
        terminal.run("python card.py", shown="python card.py    # the program in student/README.md")
        print(f"\nin all {(time.perf_counter() - start) / 60:.1f} minutes; failed: {terminal.failed or 'nothing'}")
        return 1 if terminal.failed else 0


if __name__ == "__main__":
    sys.exit(main())
