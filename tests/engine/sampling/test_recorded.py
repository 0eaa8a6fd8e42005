"""Work is recorded once for each number of rows, and repeated afterwards."""

from __future__ import annotations

import pytest
import torch

from redqueen.engine.sampling import recorded
from redqueen.engine.sampling.recorded import Repeater, Work, bucket_of
from redqueen.errors import ModelError


def test_few_rows_have_buckets_of_powers_of_two_and_many_rows_of_multiples_of_64() -> None:
    assert [bucket_of(rows) for rows in (1, 8, 9, 16, 17, 33, 64, 65, 128, 129, 500, 512)] == [
        *(8, 8, 16, 16, 32, 64, 64),
        *(128, 128, 192, 512, 512),
    ]
    assert all(rows <= bucket_of(rows) < rows + 64 for rows in range(1, 1000))
    assert len({bucket_of(rows) for rows in range(1, 513)}) == 11


class Log:
    """A recorder that writes down what it is asked for."""

    def __init__(self) -> None:
        self.lines: list[str] = []

    def run(self, work: Work) -> None:
        self.lines.append("run")
        work()

    def record(self, work: Work) -> Work:
        self.lines.append("record")

        def replay() -> None:
            self.lines.append("replay")
            work()

        return replay


def test_work_is_done_as_it_is_first_then_recorded_then_repeated() -> None:
    log = Log()
    repeat = Repeater(log)
    done: list[str] = []
    for key in ("a", "a", "b", "a", "b"):
        repeat(key, lambda key=key: done.append(key))
    assert done == ["a", "a", "b", "a", "b"]
    assert log.lines == ["run", "record", "replay", "run", "replay", "record", "replay"]


class Refusing(Log):
    """A recorder that cannot record."""

    def record(self, work: Work) -> Work:
        super().record(work)
        raise RuntimeError("CUDA error: operation not permitted when stream is capturing\nadvice")


@pytest.fixture
def no_failure(monkeypatch: pytest.MonkeyPatch) -> None:
    """As in a new process."""
    monkeypatch.setattr(recorded, "_failures", [])


@pytest.mark.usefixtures("no_failure")
def test_after_a_failed_recording_work_is_done_as_it_is_and_one_line_says_so(
    caplog: pytest.LogCaptureFixture,
) -> None:
    log = Refusing()
    repeat = Repeater(log)
    done: list[str] = []
    for key in ("a", "a", "b", "a", "b"):
        repeat(key, lambda key=key: done.append(key))
    assert done == ["a", "a", "b", "a", "b"]
    assert log.lines == ["run", "record", "run"]
    (line,) = caplog.messages
    assert line.endswith("slower: CUDA error: operation not permitted when stream is capturing")
    assert recorded.recorder_of(torch.device("cuda")) is None


@pytest.mark.usefixtures("no_failure")
def test_work_that_cannot_be_done_raises_what_is_wrong_with_it(caplog: pytest.LogCaptureFixture) -> None:
    repeat = Repeater(Refusing())

    def work() -> None:
        raise ZeroDivisionError

    with pytest.raises(ZeroDivisionError):
        repeat("a", work)
    with pytest.raises(ZeroDivisionError):
        repeat("a", work)
    assert "launched one by one" in caplog.text


@pytest.mark.usefixtures("no_failure")
def test_recordings_can_be_switched_off(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("REDQUEEN_GRAPHS", "off")
    assert recorded.recorder_of(torch.device("cuda")) is None
    monkeypatch.setenv("REDQUEEN_GRAPHS", "no")
    with pytest.raises(ModelError, match="REDQUEEN_GRAPHS is 'no': use auto or off"):
        recorded.recorder_of(torch.device("cuda"))


@pytest.mark.usefixtures("no_failure")
def test_all_batches_record_on_one_stream_of_their_device(monkeypatch: pytest.MonkeyPatch) -> None:
    recorded._stream_of.cache_clear()
    monkeypatch.setattr(torch.cuda, "Stream", lambda device: ["a stream of", device])
    monkeypatch.setattr(torch.cuda, "graph_pool_handle", lambda: (0, 1))
    one, other = (recorded.recorder_of(torch.device("cuda", 0)) for _ in range(2))
    assert isinstance(one, recorded.CudaGraphs)
    assert isinstance(other, recorded.CudaGraphs)
    assert one is not other
    assert one._stream is other._stream
    recorded._stream_of.cache_clear()
