"""TRL's GRPOTrainer as a peer of the whole step: one PEFT adapter, in another process that waits between steps.

Its settings are the fastest: the adapter in the base's dtype without autocasting, no checkpointing of activations, no
KL term, one update for each generated batch, and a reward that costs nothing.
"""

from __future__ import annotations

import importlib
import multiprocessing
import os
import tempfile
import warnings
from collections.abc import Sequence
from multiprocessing.connection import Connection
from types import TracebackType
from typing import Any, Self

import torch
from transformers import TrainerCallback

from benchmarks.peers import Attention, require
from benchmarks.system import B_STD, BenchmarkConfig
from benchmarks.timing import BenchmarkError, Stopwatch, Timing, quiet_child
from redqueen.config import LearningConfig
from redqueen.engine.adapters import generator
from redqueen.engine.model.base import load


class Trl:
    """A trainer that makes one step for each `turn`, and at most `steps`. Raises Missing if TRL is not installed."""

    def __init__(
        self,
        config: BenchmarkConfig,
        texts: Sequence[str],
        attempts: int,
        new_tokens: int,
        steps: int,
        attention: Attention,
    ) -> None:
        for module in ("trl", "datasets"):
            require(module)
        # `GRPOTrainer.train` returns after its last step only, so it cannot take turns in this process. In its own
        # process it waits before each step, and TRL's settings of torch and its output do not reach the other
        # contenders.
        context = multiprocessing.get_context("spawn")
        self._ours, theirs = context.Pipe()
        work = (theirs, config, list(texts), attempts, new_tokens, steps, attention)
        self._process = context.Process(target=serve, args=work, daemon=True)
        self._process.start()
        theirs.close()

    def turn(self) -> Timing:
        """Lets the trainer make one step. Raises BenchmarkError if its process has ended."""
        try:
            self._ours.send("step")
            return self._ours.recv()
        except (EOFError, BrokenPipeError) as error:
            raise BenchmarkError("TRL's process ended before its last step: what it said is above") from error

    def __enter__(self) -> Self:
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, _: TracebackType | None) -> None:
        self._ours.close()
        # The process ends by itself: after its last step, or when it waits for a message and the pipe is closed.
        self._process.join(timeout=20)
        if self._process.is_alive():
            self._process.terminate()
            self._process.join()


def serve(
    orders: Connection,
    config: BenchmarkConfig,
    texts: list[str],
    attempts: int,
    new_tokens: int,
    steps: int,
    attention: Attention,
) -> None:
    """Runs in the trainer's process: makes one step for each message and answers with its timing."""
    os.environ["TQDM_DISABLE"] = "1"
    # TRL sets options by names that transformers has renamed
    warnings.simplefilter("ignore", FutureWarning)
    torch.set_num_threads(config.threads)
    quiet_child(config.threads)
    trl: Any = importlib.import_module("trl")
    datasets: Any = importlib.import_module("datasets")
    datasets.disable_progress_bars()
    base = load(config.model_config)
    base.model.set_attn_implementation(attention)
    waiter = _Waiter(orders)
    with tempfile.TemporaryDirectory() as folder:
        trainer: Any = trl.GRPOTrainer(
            model=peft_model(base.model, config),
            reward_funcs=waiter.reward,
            args=_config(trl, folder, len(texts) * attempts, attempts, new_tokens, steps),
            train_dataset=datasets.Dataset.from_dict({"prompt": texts}),
            processing_class=base.tokenizer,
            callbacks=[waiter],
        )
        trainer.train()


def peft_model(model: Any, config: BenchmarkConfig) -> Any:
    """Returns `model` with one adapter in the base's dtype; its B is as far from zero as ours."""
    peft: Any = importlib.import_module("peft")
    targets = "all-linear"
    lora_config = peft.LoraConfig(r=config.rank, lora_alpha=config.rank, target_modules=targets, task_type="CAUSAL_LM")
    wrapped = peft.get_peft_model(model, lora_config, autocast_adapter_dtype=False)
    # PEFT starts with B = 0, with which the first steps would have no gradient for A.
    noise = generator("bench", "trl")
    for name, weight in wrapped.named_parameters():
        if "lora_B" in name:
            weight.data.copy_(B_STD * torch.randn(weight.shape, generator=noise))
    return wrapped


def _config(trl: Any, folder: str, completions: int, attempts: int, new_tokens: int, steps: int) -> Any:
    """Returns TRL's fastest settings for this work."""
    # With `beta` above 0 TRL would run a reference model as well. `bf16` would mean autocasting, and the base already
    # has its dtype. Recomputing activations saves memory for time.
    return trl.GRPOConfig(
        output_dir=folder,
        per_device_train_batch_size=completions,
        num_generations=attempts,
        max_completion_length=new_tokens,
        generation_kwargs={"min_new_tokens": new_tokens},
        max_steps=steps,
        learning_rate=LearningConfig().lr,
        temperature=1.0,
        top_k=0,
        beta=0.0,
        gradient_checkpointing=False,
        bf16=False,
        use_cpu=True,
        logging_strategy="no",
        save_strategy="no",
        report_to="none",
        disable_tqdm=True,
        dataloader_pin_memory=False,
    )


class _Waiter(TrainerCallback):
    """Holds the trainer before each step until it is told to go on, and times the step."""

    def __init__(self, orders: Connection) -> None:
        self.orders = orders
        self.watch = Stopwatch()
        self.tokens = 0

    def reward(self, completion_ids: list[list[int]], **_: Any) -> list[float]:
        """Rewards every second completion, so that every group has advantages."""
        self.tokens = sum(map(len, completion_ids))
        return [float(i % 2) for i in range(len(completion_ids))]

    def on_step_begin(self, *_: Any, **__: Any) -> None:
        """Waits for a message, then starts the clock."""
        self.orders.recv()
        self.watch.start()

    def on_step_end(self, *_: Any, **__: Any) -> None:
        """Stops the clock and sends the timing."""
        self.watch.stop()
        self.orders.send(Timing(self.watch.cpu_s, self.watch.wall_s, self.tokens))
