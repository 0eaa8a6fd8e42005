"""TRL's own GRPOTrainer trains a tiny model on exported tasks with our rewards. `make test-trl` installs TRL."""

from __future__ import annotations

import math
import os
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import pytest

from redqueen.extras.rewards import task_rows
from redqueen.extras.rewards.trl import JailEnvironment, passes_tests, solved
from tests.cli.archived import archived
from tests.cli.running import redqueen

trl = pytest.importorskip("trl", reason="TRL is not installed: make test-trl")
datasets = pytest.importorskip("datasets")
os.environ["TRL_EXPERIMENTAL_SILENCE"] = "1"

STEPS = 3


@pytest.fixture(scope="module")
def exported(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The tasks of a run, as the command exports them."""
    folder = tmp_path_factory.mktemp("exported")
    run = archived(folder / "run")
    done = redqueen("tasks", "export", str(run), "--out", str(folder / "tasks.jsonl"))
    assert done.returncode == 0, done.stderr
    return folder / "tasks.jsonl"


def train(
    model: str, rows: Sequence[dict[str, Any]], reward: Any, out: Path, **options: Any
) -> tuple[Any, list[dict[str, float]]]:
    """A trainer after `STEPS` steps, and what it logged at each."""
    config = trl.GRPOConfig(
        output_dir=str(out),
        per_device_train_batch_size=2,
        num_generations=2,
        max_completion_length=12,
        max_steps=STEPS,
        logging_steps=1,
        save_strategy="no",
        report_to=[],
        use_cpu=True,
        bf16=False,
        learning_rate=1e-3,
        disable_tqdm=True,
    )
    trainer = trl.GRPOTrainer(
        model=model, reward_funcs=reward, args=config, train_dataset=datasets.Dataset.from_list(list(rows)), **options
    )
    trainer.train()
    return trainer, [entry for entry in trainer.state.log_history if "reward" in entry]


@pytest.mark.parametrize("style", ["completion", "chat"])
def test_three_steps_on_exported_tasks(
    style: Any, exported: Path, tiny_folder: Callable[[str], Path], tmp_path: Path
) -> None:
    _, logged = train(str(tiny_folder("llama")), task_rows(exported, style), solved, tmp_path)
    assert len(logged) == STEPS
    # A random model writes nothing right, and its rewards are the game's for no answer and for a wrong one.
    assert all(-1 <= entry["rewards/solved/mean"] <= 1 for entry in logged)
    shares = [sum(value for name, value in entry.items() if name.startswith("jail/")) for entry in logged]
    assert shares == pytest.approx([1.0] * STEPS)


def test_a_fault_of_the_machine_is_left_out_by_trl(
    exported: Path, tiny_folder: Callable[[str], Path], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def half(completions: Sequence[Any], **_: Any) -> list[float | None]:
        return [None if index % 2 else 0.5 for index in range(len(completions))]

    _, logged = train(str(tiny_folder("llama")), task_rows(exported, "completion"), half, tmp_path)
    assert [entry["rewards/half/mean"] for entry in logged] == [0.5] * STEPS
    assert all(math.isfinite(entry["loss"]) for entry in logged)


def test_the_tool_runs_in_trls_rollouts(exported: Path, tiny_folder: Callable[[str], Path], tmp_path: Path) -> None:
    from transformers import AutoTokenizer

    tokenizer = AutoTokenizer.from_pretrained(str(tiny_folder("llama")))
    folder = Path(trl.__file__).parent / "chat_templates"
    tokenizer.chat_template = (folder / "qwen3.jinja").read_text(encoding="utf-8")
    rows = [{"prompt": [{"role": "user", "content": "print 1"}], "tests": [{"stdin": "", "stdout": "1"}]}] * 4
    trainer, logged = train(
        str(tiny_folder("llama")),
        rows,
        passes_tests,
        tmp_path,
        environment_factory=JailEnvironment,
        processing_class=tokenizer,
    )
    assert len(logged) == STEPS
    assert [tool.__name__ for tool in trainer.tools] == ["run"]
    # What TRL calls when a model asks for it: its own table of tools for the first rollout.
    assert trainer._sync_tool_dicts[0]["run"](code="print(6 * 7)") == "42\n"
