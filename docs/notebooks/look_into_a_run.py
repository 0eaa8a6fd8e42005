# %% [markdown]
# # Look into a run
#
# A run is a folder, and everything in it can be read while it is trained: who met whom, what was written, what it
# was paid and why. The notebook `first_run` makes the folder that is read here: run it first, or name another run.

# %%
import redqueen

RUN = "runs/first"

# %%
run = redqueen.Run(RUN)
print(run, run.config.recipe, f"{len(run.steps())} steps")
print(run.members_frame()[["name", "role", "born", "operator", "parents", "last"]])

# %% [markdown]
# Which teacher stumps which student? A mean solve rate near one half is where both are paid.

# %%
tasks = run.tasks_frame()
print(tasks.pivot_table(index="author", columns="student", values="solve_rate"))

# %% [markdown]
# What goes wrong in attempts: no answer at all, or a wrong one?

# %%
attempts = run.attempts_frame()
print(attempts.groupby("student").status.value_counts(normalize=True).unstack(fill_value=0).round(2))

# %% [markdown]
# The attempts at the task that divided its student most.

# %%
learnable = (4 * tasks.solve_rate * (1 - tasks.solve_rate)).fillna(0)
task = tasks.loc[learnable.idxmax()]
print(task.program, task.inputs, task.outputs, sep="\n")
print(attempts[attempts.task == task.id][["status", "reward", "text"]].to_string())

# %% [markdown]
# Two runs side by side are `redqueen.compare([...])`, and members' scores on held-out problems `run.evaluate(...)`.
