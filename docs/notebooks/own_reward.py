# %% [markdown]
# # A reward of your own
#
# A teacher is paid for a valid task by how often it is solved. Here it is paid most for tasks that are solved half
# of the time. A reward is a function in a module, which `plugins` names; this notebook writes that module, so that
# it is all in one place.

# %%
from pathlib import Path

import redqueen

STEPS = 2

# %% [markdown]
# `played.rho` is the solve rate, and `played.novel` says whether the task's idea is new. The run tries the function
# before it starts, and keeps its name in `config.json`.

# %%
MODULE = '''
from redqueen import plugins
from redqueen.config import GameConfig
from redqueen.method.rewards import PlayedTask


@plugins.teacher_reward
def middle(played: PlayedTask, pay: GameConfig) -> float:
    """Pays most for a task that is solved half of the time, and falls in straight lines to both sides."""
    return 1 - abs(2 * played.rho - 1)
'''

# %%
Path("half_solved.py").write_text(MODULE)
settings = {"plugins": ["half_solved"], "game.teacher_reward": "middle", "run.steps": STEPS}
run = redqueen.Run.train("quickstart", settings, path="runs/own-reward")

# %% [markdown]
# What each task was paid, beside what the run's own reward would have paid.

# %%
tasks = run.tasks_frame().dropna(subset=["solve_rate"])
tasks["populora"] = (1 - tasks.solve_rate).where(tasks.solve_rate > 0, 0)
print(tasks[["kind", "solve_rate", "teacher_reward", "populora"]].head(10))
