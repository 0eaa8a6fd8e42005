"""Writes reserved tasks for lm-evaluation-harness: the same prompts and the same rows as `redqueen eval` poses.

    python tools/lm_eval_task.py runs/quickstart OUT
    lm_eval run --model hf --model_args pretrained=BASE,peft=MEMBER --tasks redqueen_code_o --include_path OUT

These are the tasks that ask for an output (`code_o`), which a few lines can judge. lm-evaluation-harness is no
dependency of the project: install it in an environment of its own.
"""

from __future__ import annotations

import json
import sys
from pathlib import Path

from redqueen.evals.benchmark import answer_tokens, load_reserved
from redqueen.method.verifier import LocalVerifier
from redqueen.records import Task
from redqueen.store.directory import RunDirectory

NAME = "redqueen_code_o"
JUDGE = '''\
import ast


def judge(doc, results):
    """A value is right if Python calls it equal and it has the same type."""
    try:
        said, wanted = ast.literal_eval(results[0].strip()), ast.literal_eval(doc["target"])
    except (ValueError, SyntaxError):
        return {"acc": 0.0}
    return {"acc": float(said == wanted and type(said) is type(wanted))}
'''


def main(run: str, out: str) -> None:
    """Writes the rows, the judge and the task."""
    config = RunDirectory(Path(run)).config()
    if config.model.prompts == "chat":
        raise SystemExit("this run's prompts are messages: the harness would have to be told its chat template")
    folder = Path(out).resolve()
    folder.mkdir(parents=True, exist_ok=True)
    rows: list[dict[str, str]] = []
    stops: tuple[str, ...] = ()
    with LocalVerifier(config.sandbox, config.game.min_inputs) as verifier:
        loaded = load_reserved(config.play_settings, verifier, None)
    for problem in loaded.problems:
        task: Task = problem.data["task"]
        if task.kind != "code_o":
            continue
        prompt = loaded.benchmark.pose(problem, "completion")
        stops = prompt.stop
        rows.append({"id": problem.id, "prompt": prompt.text + prompt.prefix, "target": task.pairs[0].output})
    data = folder / f"{NAME}.jsonl"
    data.write_text("".join(f"{json.dumps(row)}\n" for row in rows), encoding="utf-8")
    (folder / "judge.py").write_text(JUDGE, encoding="utf-8")
    # JSON is YAML, but for the harness's tag for functions.
    described = {
        "task": NAME,
        "dataset_path": "json",
        "dataset_kwargs": {"data_files": {"test": str(data)}},
        "test_split": "test",
        "output_type": "generate_until",
        "doc_to_text": "{{prompt}}",
        "doc_to_target": "{{target}}",
        "generation_kwargs": {"until": list(stops), "do_sample": False, "max_gen_toks": answer_tokens(config.sampling)},
        "metric_list": [{"metric": "acc", "aggregation": "mean", "higher_is_better": True}],
    }
    lines = [f"{key}: {json.dumps(value)}" for key, value in described.items()]
    lines.append("process_results: !function judge.judge")
    (folder / f"{NAME}.yaml").write_text("\n".join(lines) + "\n", encoding="utf-8")
    print(f"{len(rows)} tasks in {folder}")


if __name__ == "__main__":
    main(*sys.argv[1:])
