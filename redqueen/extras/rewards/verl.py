"""verl's `compute_score`: `custom_reward_function.path=pkg://redqueen.extras.rewards.verl`, `.name=compute_score`.

`verl_rows` makes the rows that verl reads from a Parquet file. Nothing here imports verl.
"""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any, cast

from redqueen.errors import UserError
from redqueen.extras.rewards.judges import attempt_verdicts, pay_attempts, pay_programs, program_outcomes, task_rows
from redqueen.store.dataset.files import task_of

TRIES = 3
SOURCE = "redqueen"


class MachineFaultError(RuntimeError):
    """The machine failed `TRIES` times to judge a text. verl has no word for that, and 0 would be a lie."""


def compute_score(
    data_source: str, solution_str: str, ground_truth: str, extra_info: object = None, **_: Any
) -> dict[str, Any]:
    """Returns the reward of one answer as `score`, and as `acc` whether it is right.

    `ground_truth` is JSON: a row of `task_rows`, or `{"tests": [...]}` as `trl.passes_tests` takes
    them. `data_source` and `extra_info` do not matter.

    Raises UserError if it is neither, and MachineFaultError if the machine fails again and again.
    """
    del data_source, extra_info
    try:
        asked = json.loads(ground_truth)
    except ValueError as error:
        raise UserError(f"ground_truth is not JSON: {error}") from None
    if not isinstance(asked, dict):
        raise UserError("ground_truth is not a JSON object with a task or with tests")
    for _try in range(TRIES):
        score = _score(cast("dict[str, Any]", asked), solution_str)
        if score is not None:
            return {"score": score, "acc": score == 1.0}
    raise MachineFaultError(f"the jail failed {TRIES} times to judge a text; `redqueen doctor` says what is wrong")


def _score(asked: dict[str, Any], text: str) -> float | None:
    if "tests" in asked:
        return pay_programs(program_outcomes([text], [asked["tests"]]))[0]
    style = asked.get("style", "chat")
    verdicts = attempt_verdicts([task_of(asked)], [text], [style], [str(asked.get("opening", ""))])
    return pay_attempts(verdicts)[0]


def verl_rows(source: str | Path) -> list[dict[str, Any]]:
    """Returns the tasks of a run's folder or of an exported file as verl's rows, with conversations as prompts.

    `pandas.DataFrame(verl_rows(source)).to_parquet(file)` writes the file for `data.train_files`.
    """
    rows: list[dict[str, Any]] = []
    for index, row in enumerate(task_rows(source)):
        prompt = row.pop("prompt")
        rows.append(
            {
                "data_source": SOURCE,
                "prompt": prompt,
                "ability": "code",
                "reward_model": {"style": "rule", "ground_truth": json.dumps(row)},
                "extra_info": {"index": index, "id": row["id"]},
            }
        )
    return rows
