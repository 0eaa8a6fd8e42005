# %% [markdown]
# # A first run
#
# Two teachers write tasks and two students solve them, on a model of 135M parameters: a minute or two on two cores.
# Start Jupyter in a checkout, or in a folder of its own once this is installed:
#
#     pip install '.[train,data]'

# %%
import redqueen

STEPS = 6

# %% [markdown]
# Each step prints a line. `redqueen watch runs/first` shows it in a browser while it goes on.

# %%
run = redqueen.Run.train("quickstart", {"run.steps": STEPS}, path="runs/first")
run

# %% [markdown]
# What was measured in each step is a table. `solve_rate` is in sample: on the tasks of that step.

# %%
print(run.steps_frame()[["valid_rate", "solve_rate", "teacher_reward", "student_reward"]])

# %% [markdown]
# Which tasks were worth something: solved sometimes, not always.

# %%
tasks = run.tasks_frame()
contested = tasks[(tasks.solve_rate > 0) & (tasks.solve_rate < 1)]
for task in contested.head(3).itertuples():
    print(f"{task.kind}, written by {task.author}, solved {task.solved} of {task.attempts}:\n{task.program}\n")

# %% [markdown]
# Ask the best student something of your own. Six steps teach little; `redqueen train rlvr` teaches in minutes.

# %%
for answer in run.ask("best-student", "def f(x): return x * 2\nf(4) == ?", attempts=4):
    print(answer.status, repr(answer.text))
