"""Work is recorded once for each number of rows, and repeated afterwards."""

from __future__ import annotations

from redqueen.policy.sampling.recorded import Repeated, Work, bucket_of


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
    repeat = Repeated(log)
    done: list[str] = []
    for key in ("a", "a", "b", "a", "b"):
        repeat(key, lambda key=key: done.append(key))
    assert done == ["a", "a", "b", "a", "b"]
    assert log.lines == ["run", "record", "replay", "run", "replay", "record", "replay"]
