"""A run is made smaller until it fits in free memory, and refused only where its smallest form does not."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import pytest
import torch

from redqueen.config import Config
from redqueen.config.recipes import configure
from redqueen.engine.memory.estimate import items, least, total
from redqueen.engine.memory.fit import Fit, fit, plans
from redqueen.engine.memory.machine import Demand, Machine
from redqueen.engine.model.dimensions import Shape
from redqueen.errors import ModelError
from redqueen.records import PromptLengths

LENGTHS = PromptLengths(proposal=300, attempt=200)
# The bundled model. Its numbers stand here so that no test needs its files.
SMOLLM2 = Shape(
    layers=30,
    hidden=576,
    intermediate=1536,
    heads=9,
    kv_heads=3,
    head_size=64,
    vocabulary=49152,
    weights=134_515_008,
    linear=134_479_872,
    stacked=69_009_408,
    factors=305_280,
    inner=7,
    head_norms=False,
    dtype=None,
)
GIB = 2**30


def test_processes_share_the_memory_of_their_machine_and_not_that_of_their_gpus() -> None:
    assert machine(9).shared(2) == machine(4)
    gpu = replace(machine(9), device=torch.device("cuda"))
    assert replace(gpu, host=9).shared(3) == replace(gpu, host=3)
    assert gpu.shared(3).host is None


def machine(free: int, cores: int = 2, dtype: str = "float32") -> Machine:
    """Returns a machine with so many free bytes and cores, and the bundled model."""
    return Machine(device=torch.device("cpu"), dtype=getattr(torch, dtype), workers=cores, shape=SMOLLM2, free=free)


def quickstart(dtype: str, *overrides: str) -> Config:
    return configure(["quickstart", f"model.dtype={dtype}", "model.device=cpu", *overrides])


def cpu_plans(*overrides: str) -> Iterator[Demand]:
    return plans(Demand.of(quickstart("float32", *overrides), machine(0, 3), LENGTHS, 4))


@pytest.mark.parametrize("dtype", ["float32", "bfloat16"])
@pytest.mark.parametrize(("free", "cores"), [(4, 1), (4, 2), (6, 2), (8, 4), (12, 8), (16, 8), (64, 8), (64, 64)])
def test_the_quickstart_starts_from_4_gib_on(dtype: str, free: int, cores: int) -> None:
    there = machine(free * GIB, cores, dtype)
    found = fit(quickstart(dtype), there, LENGTHS, 4)
    assert not found.warning
    assert 1 <= found.config.model.workers <= cores
    assert total(items(found.demand)) <= free * GIB


def test_what_fits_is_left_as_it_was_asked() -> None:
    asked = quickstart("float32")
    found = fit(asked, machine(64 * GIB, 3), LENGTHS, 4)
    assert found.changes == ()
    assert found.config.model.workers == 3
    assert found.config.override(["model.workers=0", "learning.checkpointing=auto"]) == asked


def test_the_less_is_free_the_less_a_run_takes() -> None:
    def workers(found: Fit) -> int:
        return found.config.model.workers

    sizes = (32, 16, 12, 8, 6, 4)
    fits = [fit(quickstart("float32"), machine(free * GIB, 8), LENGTHS, 4) for free in sizes]
    assert [workers(found) for found in fits] == sorted(map(workers, fits), reverse=True)
    assert f"model.workers={workers(fits[-1])}" in fits[-1].changes


def test_each_plan_needs_less_than_the_one_before_it_with_as_many_workers() -> None:
    before: dict[int, int] = {}
    for plan in cpu_plans("model.workers=3"):
        need = total(items(plan))
        assert need <= before.get(plan.model.workers, need)
        before[plan.model.workers] = need
    assert list(before) == [3, 2, 1]


def test_what_fits_only_while_texts_are_short_is_warned_of() -> None:
    smallest = list(cpu_plans())[-1]
    free = total(items(least(smallest)))
    found = fit(quickstart("float32"), machine(free), LENGTHS, 4)
    assert found.config.model.workers == 1
    assert "may need up to" in found.warning
    assert "\n" not in found.warning


def test_a_run_whose_smallest_form_does_not_fit_is_refused_with_what_would_help_most() -> None:
    smallest = list(cpu_plans())[-1]
    free = total(items(least(smallest))) - 1
    with pytest.raises(
        ModelError, match=r"needs at least .* GiB, cpu has .* GiB free: end other programs, or"
    ) as error:
        fit(quickstart("float32"), machine(free), LENGTHS, 4)
    assert "set model.dtype=bfloat16" in str(error.value)
    assert "\n" not in str(error.value)
    config = quickstart("bfloat16", "population.students=30", "model.rank=1")
    with pytest.raises(ModelError, match=r"take half as many members, which saves"):
        fit(config, machine(0, dtype="bfloat16"), LENGTHS, 32)
    alone = ("population.teachers=0", "population.students=1", "evolution.enabled=false", "model.rank=1")
    with pytest.raises(ModelError, match=r"or choose a smaller model\.name"):
        fit(quickstart("bfloat16", *alone), machine(0, dtype="bfloat16"), LENGTHS, 1)


def test_the_limit_of_a_container_counts(tmp_path: Path) -> None:
    from redqueen.base.machine import _left_in_groups

    job = tmp_path / "slurm" / "job"
    job.mkdir(parents=True)
    for folder, limit in ((job, "max"), (job.parent, "1000")):
        (folder / "memory.max").write_text(f"{limit}\n")
        (folder / "memory.current").write_text("700\n")
        (folder / "memory.stat").write_text("anon 1\ninactive_file 100\n")
    assert list(_left_in_groups(tmp_path, ["/slurm/job"])) == [400]
    assert list(_left_in_groups(tmp_path, ["/other"])) == []


def test_what_vllm_takes_counts() -> None:
    there = machine(4 * GIB, dtype="bfloat16")

    def need(*overrides: str) -> int:
        return total(items(Demand.of(quickstart("bfloat16", "model.workers=1", *overrides), there, LENGTHS, 4)))

    engine = need("sampling.engine=vllm")
    # The second copy of the base, 2 GiB of cache, and more, in place of the embedded sampler's cache.
    assert engine > need() + SMOLLM2.weights
    assert need("sampling.engine=vllm", "sampling.vllm_cache_gb=5") == engine + 3 * GIB
    # What fits the embedded sampler need not fit both, and the line names what is largest.
    config = quickstart("bfloat16")
    assert not fit(config, there, LENGTHS, 4).warning
    with pytest.raises(ModelError, match="needs at least"):
        fit(config.override(["sampling.engine=vllm"]), there, LENGTHS, 4)


def test_on_a_gpu_vllm_leaves_less_to_training_and_an_update_that_waits_less_to_sampling() -> None:
    gpu = replace(machine(16 * GIB, 1, "bfloat16"), device=torch.device("cuda"))
    config = configure(["paper_7b", "model.name=HuggingFaceTB/SmolLM2-135M-Instruct"])

    def planned(*overrides: str) -> Config:
        return fit(config.override(list(overrides)), gpu, LENGTHS, 32).config

    with pytest.raises(ModelError, match="needs at least"):
        planned("sampling.engine=vllm", "sampling.vllm_cache_gb=30")
    alone = planned()
    assert (
        planned("sampling.engine=vllm", "sampling.vllm_cache_gb=5").learning.batch_tokens < alone.learning.batch_tokens
    )
    ahead = planned("learning.max_staleness=1")
    # Fewer rows, or fewer pages for them.
    assert ahead.sampling.cache_tokens < (alone.sampling.cache_tokens or ahead.sampling.cache_tokens + 1)
    assert ahead.learning == alone.learning.model_copy(update={"max_staleness": 1})
