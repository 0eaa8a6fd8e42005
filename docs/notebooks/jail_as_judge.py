# %% [markdown]
# # The jail as a judge
#
# You train a model to write programs, with whatever trainer, and need to know whether a program passes its tests.
# This needs no torch, no Docker and no root: `pip install .`.

# %%
from redqueen.jail import Call, Script, judge

# %% [markdown]
# A test is an assertion, a call or a script. What is expected never enters the program's process.

# %%
add = "def add(a, b):\n    return a + b"
print(judge(add, ["assert add(1, 2) == 3", Call("add", ([1], [2]), [1, 2])]).status)
print(judge("print(sum(map(int, input().split())))", [Script("1 2\n", "4\n")]).detail)

# %% [markdown]
# Programs that do not want to be judged: one reads a file, one never ends, one claims to be equal to everything.

# %%
HOSTILE = {
    "reads a file": "import os\ndef f():\n    return os.listdir('/')",
    "never ends": "def f():\n    while True: pass",
    "is equal to all": "class Same(int):\n    def __eq__(self, other): return True\ndef f():\n    return Same(1)",
}

# %%
for name, program in HOSTILE.items():
    outcome = judge(program, ["assert f() == 3"])
    print(f"{name}: {outcome.status}, {outcome.detail}")

# %% [markdown]
# As a reward in TRL it is one function, for rows with a column `tests`. For a fault of the machine it returns None, and
# TRL leaves that completion out.

# %%
from redqueen.extras.rewards.trl import passes_tests

completions = [f"```python\n{add}\n```", "```python\ndef add(a, b):\n    return a - b\n```", "I would use a loop."]
print(passes_tests(completions, tests=[["assert add(1, 2) == 3"]] * 3))

# %% [markdown]
# docs/JAIL.md has the rest: verl, verifiers, OpenEnv, and `redqueen jail serve`, which speaks SandboxFusion's wire.
