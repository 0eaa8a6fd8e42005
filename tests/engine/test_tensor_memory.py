"""Checks the memory that processes share."""

from __future__ import annotations

import multiprocessing

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from redqueen.engine.tensor_memory import SharedBlock, padded

SHAPES = st.lists(
    st.tuples(
        st.lists(st.integers(1, 5), max_size=3).map(tuple),
        st.sampled_from([torch.float32, torch.bfloat16, torch.int64]),
    ),
    min_size=1,
    max_size=5,
)


@given(SHAPES)
def test_the_same_allocations_give_the_same_tensors_in_every_process(
    shapes: list[tuple[tuple[int, ...], torch.dtype]],
) -> None:
    sizes = [padded(torch.empty(shape, dtype=dtype).nbytes) for shape, dtype in shapes]
    block = SharedBlock(sum(sizes))
    ours = [block.allocate(*wanted) for wanted in shapes]
    assert not any(tensor.any() for tensor in ours)
    other = SharedBlock(block.size, block.path)
    theirs = [other.allocate(*wanted) for wanted in shapes]
    for number, tensor in enumerate(ours, 1):
        tensor.fill_(number)
        assert tensor.data_ptr() % 64 == 0
    for number, (tensor, (shape, dtype)) in enumerate(zip(theirs, shapes, strict=True), 1):
        assert (tuple(tensor.shape), tensor.dtype) == (shape, dtype)
        assert (tensor == number).all(), "no tensor overlaps another"
    with pytest.raises(MemoryError, match="shared bytes"):
        block.allocate((1,), torch.uint8)


def test_a_view_is_the_tensor_that_begins_there() -> None:
    block = SharedBlock(1000)
    block.allocate((3,), torch.float32)
    whole = block.store(torch.arange(24).view(4, 6).float())
    for tensor in (whole, whole[1:3], whole[:, 2:4], whole.T, whole[1:, ::2], whole[3, 5]):
        offset = block.offset(tensor)
        assert offset is not None
        again = block.view(offset, tuple(tensor.shape), tuple(tensor.stride()), tensor.dtype)
        assert torch.equal(again, tensor)
    again = block.view(block.offset(whole[1:3]) or 0, (2, 6), (6, 1), torch.float32)
    again.zero_()
    assert not whole[1:3].any()
    assert block.offset(torch.zeros(3)) is None


def double(size: int, path: str) -> None:
    """Doubles the first four numbers of the block at `path`, in another process."""
    SharedBlock(size, path).allocate((4,), torch.float32).mul_(2)


@pytest.mark.slow
@pytest.mark.integration
def test_another_process_writes_into_it() -> None:
    block = SharedBlock(padded(16))
    tensor = block.allocate((4,), torch.float32)
    tensor.copy_(torch.arange(4.0))
    process = multiprocessing.get_context("spawn").Process(target=double, args=(block.size, block.path))
    process.start()
    process.join(60)
    assert process.exitcode == 0
    assert tensor.tolist() == [0, 2, 4, 6]
