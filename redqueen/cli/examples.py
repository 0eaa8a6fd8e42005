"""The examples that `--help` shows below each command's options."""

from __future__ import annotations


def examples(*commands: str) -> str:
    r"""Returns the text for `epilog`. The line "\b" keeps the help's formatter from joining the lines."""
    return "\n".join(["\b", "Examples:", *(f"  {command}" for command in commands)])


TRAIN = examples(
    "redqueen train",
    "redqueen train population_4t4s --steps 20 learning.lr=5e-5",
    "redqueen train coder_0_5b --model Qwen/Qwen2.5-0.5B-Instruct",
    "redqueen train --matched total --run runs/single",
    "redqueen train --config mine.toml run.steps=20",
    "redqueen train paper_7b --dry-run",
    "redqueen train --resume runs/quickstart --steps 20",
)
GROW = examples("redqueen grow seeds.txt", "redqueen grow tasks.jsonl --steps 20 population.teachers=2")
INIT = examples("redqueen init", "redqueen init rlvr --out mine.toml")
RECIPES = examples("redqueen recipes", "redqueen recipes --cards")
KEYS = examples("redqueen keys", "redqueen keys learning", "redqueen keys tokens")
WARM_START = examples(
    "redqueen warm-start adapters/mine --model HuggingFaceTB/SmolLM2-360M",
    "redqueen train --model HuggingFaceTB/SmolLM2-360M population.init=adapters/mine",
)
EXPORT = examples(
    "redqueen export runs/quickstart best-student student",
    "redqueen export runs/quickstart S1 student-3 --step 3",
    "redqueen export runs/quickstart best-student whole-model --merge",
)
ASK = examples(
    "redqueen ask runs/quickstart",
    "redqueen ask runs/quickstart best-student 'def f(x): return x * 2' 'f(4) == ?'",
    "redqueen ask runs/quickstart best-student 'def f(x): return x * 2' 'f(?) == 10'",
    "redqueen ask runs/quickstart best-student '# double it' 'f(1) == 2' 'f(3) == 6' 'f(5) == 10'",
    "redqueen ask runs/quickstart S1 question.txt --attempts 8",
    "redqueen ask runs/quickstart base seed-12-code_i",
)
SHOW = examples(
    "redqueen show runs/quickstart",
    "redqueen show runs/quickstart --step 4 --kind code_f --best",
    "redqueen show runs/quickstart --member T1 --worst --limit 3",
)
EVAL = examples(
    "redqueen eval runs/quickstart warm-start base",
    "redqueen eval runs/quickstart --members all --limit 30",
    "redqueen eval runs/rlvr --step all --out evals/rlvr",
    "redqueen eval runs/rlvr --step all --samples 16 --temperature 1",
    "redqueen eval runs/quickstart runs/single base --benchmarks all --data benchmarks --out evals/quickstart",
    "redqueen eval runs/quickstart --benchmarks humaneval+,gsm8k --data benchmarks --samples 8 --temperature 0.6",
)
TASKS_EXPORT = examples(
    "redqueen tasks export runs/quickstart --out tasks.parquet",
    "redqueen tasks export runs/quickstart --kind code_o --solve-rate 0.1 0.9 --out hard.jsonl",
    "redqueen tasks export runs/quickstart --distinct --out my-tasks/",
    "redqueen tasks export runs/quickstart --format verifiers --out redqueen_tasks/",
)
TASKS_IMPORT = examples(
    "redqueen tasks import tasks.parquet --out seeds.txt", "redqueen tasks import my-tasks --out seeds.txt"
)
TASKS = examples(
    "redqueen tasks export runs/quickstart --out tasks.parquet", "redqueen tasks import tasks.parquet --out seeds.txt"
)
VERIFY = examples(
    """echo '{"id": 1, "kind": "code_o", "program": "def f(x): return x * 2", "input": "4"}' | redqueen verify -""",
    "redqueen verify answers.jsonl > verdicts.jsonl",
)
DOCTOR = examples("redqueen doctor")
JAIL = examples("redqueen jail serve", "redqueen jail serve --host 0.0.0.0 --port 8080 --seconds 30 --memory 1024")
