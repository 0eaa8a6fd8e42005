"""Says what can be done about a run that exists already."""

# No import here may load torch: these answers come at once (see `redqueen.cli.app`).

from __future__ import annotations

from redqueen.run.recording.plain_console import PlainConsole
from redqueen.store.directory import RunDirectory
from redqueen.store.files import quoted


def describe(directory: RunDirectory, asked: int | None = None) -> int:
    """Prints what is in a run directory and what can be done with it; returns 0 if the run is complete, else 1.

    `asked` is the number of steps that a resume asked for and that are done already.
    """
    console = PlainConsole(soft_wrap=True)
    path = quoted(directory.path)
    config = directory.config()
    saved = directory.saved()
    # What has no checkpoint is not done: a resume would play it again.
    done = saved[-1] if saved else 0
    steps = config.run.steps
    console.print(
        f"{directory.path} holds a run of '{config.recipe}' with {done} of {steps} steps done; nothing was changed."
    )
    if asked is not None and asked < done:
        console.print(
            f"  --steps {asked} asks for fewer than are done: a run can only go on. redqueen eval {path} --step N"
        )
        console.print("                evaluates an earlier checkpoint")
    if done < steps and saved:
        console.print(f"  resume:       redqueen train --resume {path}")
    if saved:
        console.print(f"  extend:       redqueen train --resume {path} --steps {max(done, steps) + 10}")
    console.print(f"  start again:  add --run runs/ANOTHER to the command, or move {path} away")
    return 0 if done >= steps else 1
