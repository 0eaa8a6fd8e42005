"""What a micro-batch may launch on a GPU at the shape of a 7B model.

Before flash attention over sequences, compiled operations and products that add in fp32, a layer launched 370 kernels
in a micro-batch of students, 538 with checkpointing, and the log-probabilities of 16,384 tokens 3,460.
"""

from __future__ import annotations

import pytest

from benchmarks.gpu.launches import logprobs_cost, micro_batch_cost
from benchmarks.gpu.shapes import SEVEN_B
from redqueen.engine.learning.packing import PromptGroup, WeightedSample
from redqueen.records import Sample


def groups_of(slots: list[int]) -> list[PromptGroup]:
    """Returns four continuations of different lengths of one prompt for each slot."""
    groups: list[PromptGroup] = []
    for slot in slots:
        samples: list[WeightedSample] = []
        for length in (slot + 3, 5, 5, 9):
            sample = Sample(
                member=str(slot),
                prompt_ids=(1, 2, 3, 4),
                token_ids=(7,) * length,
                logprobs=(-1.0,) * length,
                advantage=1.0,
            )
            samples.append(WeightedSample(sample, slot, 1.0))
        groups.append(PromptGroup(slot, (1, 2, 3, 4), tuple(samples)))
    return groups


# Without members a layer launches 24: the base's products, norms, rotary embeddings, SwiGLU and attention. Each member
# adds 33: 7 adapted layers in 4 sites have 11 products forward, and 22 backward. Checkpointing repeats the forward
# pass.
@pytest.mark.parametrize(("slots", "kept", "recomputed"), [([0], 57, 83), ([0, 1, 2], 123, 171)])
def test_a_layer_of_a_micro_batch_launches_few_kernels(slots: list[int], kept: int, recomputed: int) -> None:
    groups = groups_of(slots)
    for checkpointing, budget in ((False, kept), (True, recomputed)):
        cost = micro_batch_cost(SEVEN_B, groups, checkpointing=checkpointing)
        assert cost.layer.launches <= budget


def test_log_probabilities_launch_five_kernels_a_chunk() -> None:
    assert logprobs_cost(SEVEN_B, 16384).launches <= 5 * 16 + 4
