"""The golden digest: SHA-256 sums of what a toy run leaves, the same on every x86-64 processor.

`python -m tests.golden` plays the run and prints its sums. Products, exponentials and random normals round differently
on different processors, so the run is played in a process of its own under `PINS`, in fp32, with torch's operations
(not the compiled kernels) and on one thread. A change of the rules of the game changes `tests/golden.json` on purpose,
with `python -m tests.golden --write`, and says so in the commit.
"""

from __future__ import annotations

import hashlib
import json
import os
import subprocess
import sys
import tempfile
from collections.abc import Iterable
from pathlib import Path

SUMS = Path(__file__).with_name("golden.json")
# Each variable takes one source of differences between processors away. With these the sums were the same on a
# processor with AVX-512 and on two that qemu emulated (with recorded verdicts): Haswell (AVX2, FMA), Nehalem (SSE4.2).
# Without MKL_CBWR or without ATEN_CPU_CAPABILITY they differ on the first.
PINS = {
    "MKL_CBWR": "COMPATIBLE",  # matrix products
    "ATEN_CPU_CAPABILITY": "default",  # torch's own vectorised loops
    "REDQUEEN_KERNELS": "torch",  # not the compiled kernels
    "GLIBC_TUNABLES": "glibc.cpu.hwcaps=-FMA,-FMA4,-AVX2",  # exp, log and pow, also those of Python's math
    "CUDA_VISIBLE_DEVICES": "",  # the processor, also where there is a GPU
}
# Of the caller's environment the run gets only what it needs to start: any other MKL_*, ATEN_* or OMP_* variable may
# change how numbers are rounded.
PASSED_ON = ("PATH", "HOME", "TMPDIR", "LD_LIBRARY_PATH", "XDG_CACHE_HOME")
CHANGES: dict[str, object] = {
    "run.steps": 3,
    "run.checkpoint_every": 1,
    "game.kinds": "code_o,code_i,code_f",
    "game.proposals": 6,
    "game.attempts": 3,
    "sampling.proposal_tokens": 3,
    "sampling.attempt_tokens": 2,
    "population.teachers": 3,
    "population.students": 3,
    "evolution.enabled": True,
    "evolution.every": 1,
    "evolution.burn_in": 1,
    "evolution.gamma": 0.4,
    "evolution.min_distance": 0.01,
    "league.student_fitness": "held_out",
    "league.held_out_tasks": 4,
    "league.hall_of_fame": 2,
    "league.hall_matches": 0.5,
}
# The metrics that are summed. A new metric is no golden change. Times are not among them, which differ from run to run,
# nor are the lines that ran, which differ between versions of Python.
METRICS = (
    "adapter_norm",
    "complexity_by_kind",
    "contested_by_kind",
    "coverage",
    "dead_code_by_kind",
    "dropped",
    "entropy",
    "grad_norm",
    "guessable",
    "hall",
    "importance_ratio",
    "lines_by_kind",
    "logprob_gap",
    "loss",
    "matches",
    "members",
    "new_paths",
    "new_shape_rate",
    "novel_rate",
    "novel_rate_by_kind",
    "outcomes",
    "par",
    "paths_per_node",
    "repeated_rate",
    "replacements",
    "response_tokens",
    "seed_references",
    "sizes_by_kind",
    "skipped",
    "solve_rate",
    "solve_rate_by_kind",
    "statuses",
    "step",
    "student_reward",
    "task_bank_size",
    "tasks_by_kind",
    "teacher_reward",
    "tokens_by_phase",
    "tokens_sampled",
    "tokens_trained",
    "truncated_rate",
    "truncated_rate_by_kind",
    "valid_rate",
    "valid_rate_by_kind",
)


def digest() -> dict[str, str]:
    """The sums of a toy run that is played in a new process under `PINS`."""
    root = Path(__file__).parents[1]
    inherited = {name: os.environ[name] for name in PASSED_ON if name in os.environ}
    done = subprocess.run(
        [sys.executable, "-m", "tests.golden"],
        capture_output=True,
        text=True,
        check=False,
        cwd=root,
        env={**inherited, **PINS, "PYTHONPATH": str(root)},
    )
    assert done.returncode == 0, done.stderr
    return json.loads(done.stdout)


def sum_of(rows: Iterable[object]) -> str:
    """SHA-256 over the rows as JSON, one a line."""
    text = "\n".join(json.dumps(row, sort_keys=True) for row in rows)
    return hashlib.sha256(text.encode()).hexdigest()


def _play() -> dict[str, str]:
    # Imported here, since the caller of `digest` needs none of it: the run is played in another process.
    import sqlite3

    import torch
    from safetensors.torch import load_file

    from redqueen.config import SandboxConfig
    from redqueen.method.verifier import LocalVerifier
    from tests import toy

    torch.set_num_threads(1)
    with tempfile.TemporaryDirectory() as scratch, LocalVerifier(SandboxConfig(workers=1)) as verifier:
        run = toy.played(Path(scratch), verifier, **CHANGES)
        lines = run.metrics()
        sums = {"metrics": sum_of({name: line[name] for name in METRICS if name in line} for line in lines)}
        connection = sqlite3.connect(run.archive)
        tables = connection.execute("SELECT name FROM sqlite_master WHERE type = 'table' ORDER BY name")
        for (table,) in tables.fetchall():
            cursor = connection.execute(f"SELECT * FROM {table} ORDER BY rowid")
            columns = [column[0] for column in cursor.description]
            rows = [dict(zip(columns, row, strict=True)) for row in cursor]
            # Times differ from run to run.
            sums[f"archive.{table}"] = sum_of(toy.without(row, "cpu_ms") for row in rows)
        connection.close()
        # Tensors are summed by their bytes, not by their files: how a file is laid out may change with a library.
        adapters = hashlib.sha256()
        for path in sorted(run.checkpoints.rglob("*.safetensors")):
            for name, tensor in sorted(load_file(path).items()):
                adapters.update(f"{path.relative_to(run.checkpoints)} {name}".encode())
                adapters.update(tensor.contiguous().flatten().view(torch.uint8).numpy().tobytes())
        return {**sums, "adapters": adapters.hexdigest()}


if __name__ == "__main__":
    if "--write" in sys.argv:
        SUMS.write_text(json.dumps(digest(), indent=1) + "\n")
    else:
        print(json.dumps(_play()))
