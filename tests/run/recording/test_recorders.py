"""Recorders: what each of them makes of the same step."""

from __future__ import annotations

import io
import queue
from contextlib import closing
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from rich.console import Console

from redqueen.engine.work import Work
from redqueen.extras.page.live_run import LiveRun
from redqueen.extras.page.state import present
from redqueen.run.recording.files import ArchiveRecorder, MetricsRecorder
from redqueen.run.recording.metrics import step_metrics
from redqueen.run.recording.phases import NowRecorder
from redqueen.run.recording.recorder import Recorder
from redqueen.run.recording.terminal import PHASES, Heartbeat, LineReporter, LiveReporter, headline, members_table
from redqueen.store.archive.reader import ArchiveReader
from redqueen.store.archive.rows import (
    AttemptRow,
    ChampionRow,
    MatchRow,
    MemberRow,
    ProbeRow,
    ProposalRow,
    ReplacementRow,
    StandingRow,
    TaskRow,
)
from redqueen.store.directory import RunDirectory
from redqueen.store.metrics import StepMetrics
from tests.run.recording.steps import MATCH, SEED, TASK, full, record


def test_a_recorder_implements_only_what_it_needs() -> None:
    class Quiet(Recorder):
        pass

    quiet = Quiet()
    quiet.phase(0, "match")
    quiet.progress(1, 2)
    quiet.record(full())
    quiet.close()


def test_metrics_count_the_machines_faults_nowhere_but_in_statuses_and_dropped() -> None:
    line = step_metrics(full())
    assert (line["valid_rate"], line["solve_rate"]) == (0.5, 0.5)
    assert (line["teacher_reward"], line["student_reward"]) == (-0.25, 0.25)
    assert (line["novel_rate"], line["dropped"]) == (1.0, 2)
    assert line["novel_rate_by_kind"] == {"code_o": 1.0, "code_i": None, "code_f": None}
    assert line["lines_by_kind"] == {"code_o": 2.0, "code_i": None, "code_f": None}
    assert line["seed_references"] == 0.5
    assert line["contested_by_kind"] == {"code_o": 1, "code_i": 0, "code_f": 0}
    assert line["statuses"]["attempts"] == {"correct": 1, "infra_error": 1, "wrong": 1}
    assert line["truncated_rate"] == {"proposals": 0.0, "attempts": 1.0}
    assert line["truncated_rate_by_kind"] == {
        "code_o": {"proposals": 0.0, "attempts": 1.0},
        "code_i": {"proposals": None, "attempts": None},
        "code_f": {"proposals": None, "attempts": None},
    }
    assert line["task_bank_size"] == 7
    assert line["tokens_sampled"] == 3 * 3 + 3 * 2
    assert line["members"]["S1"]["parents"] == ["S0"]
    assert line["replacements"][0].get("tries") == 2
    birth = line["replacements"][0]
    assert (birth["age"], birth["games"], birth["tie"]) == (5, 1, True)
    assert line["outcomes"] == {"student": 0, "draw": 0, "teacher": 1}
    assert line["par"] == {"code_o": 0.75}
    assert line["seconds"] == {"match": 0.123, "total": 61.5}


def test_champions_count_in_no_rate() -> None:
    living = full()
    # The student has left, so it is a champion here; the teacher's proposals count as before.
    line = step_metrics(replace(living, standings=living.standings[:1]))
    assert (line["valid_rate"], line["teacher_reward"]) == (0.5, -0.25)
    assert (line["solve_rate"], line["student_reward"]) == (None, None)
    assert line["truncated_rate"] == {"proposals": 0.0, "attempts": None}
    assert line["tasks_by_kind"] == {"code_o": 0, "code_i": 0, "code_f": 0}
    # What was sampled and what was lost are facts of the machine.
    assert (line["dropped"], line["tokens_sampled"]) == (2, 3 * 3 + 3 * 2)


def test_metrics_are_appended_and_rewound(tmp_path: Path) -> None:
    directory = RunDirectory(tmp_path)
    metrics = MetricsRecorder(directory)
    for step in range(1, 5):
        metrics.record(record(step))
    metrics.rewind(2)
    assert [line["step"] for line in directory.metrics()] == [1, 2]


def test_the_archive_holds_the_whole_step(tmp_path: Path) -> None:
    archive = ArchiveRecorder(tmp_path / "run.sqlite")
    archive.record(full())
    archive.close()
    with ArchiveReader(tmp_path / "run.sqlite") as reader:
        (match,) = reader.every(MatchRow)
        assert (match.id, match.outcome, match.teacher_mu, match.student_mu) == (MATCH.id, "teacher", 26.0, 24.0)
        assert [(row.match, row.status, row.reward) for row in reader.every(ProposalRow)] == [
            ("4.0", "valid", 0.5), ("4.0", "malformed", -1.0), ("4.0", "infra_error", None),
        ]  # fmt: skip
        assert [(row.number, row.status, row.reward) for row in reader.every(AttemptRow)] == [
            (0, "correct", 1.0), (1, "wrong", -0.5), (2, "infra_error", None),
        ]  # fmt: skip
        assert {row.finish_reason for row in reader.every(ProposalRow)} == {"stop"}
        assert {row.reference_ids for row in reader.every(ProposalRow)} == {(SEED.id, TASK.id)}
        assert {row.finish_reason for row in reader.every(AttemptRow)} == {"length"}
        (task,) = reader.every(TaskRow)
        assert (task.task(), task.rho, task.novel) == (TASK, 0.5, True)
        (birth,) = reader.every(ReplacementRow)
        assert (birth.victim, birth.child, birth.distance, birth.tries) == ("S0", "S1", 0.25, 2)
        assert [row.name for row in reader.every(MemberRow)] == ["S1"]
        assert [(row.member, row.games, row.fitness) for row in reader.every(StandingRow)] == [
            ("T0", 1, 5.0),
            ("S0", 1, None),
        ]
        assert [row.name for row in reader.every(ChampionRow)] == ["T0@4"]
        assert [(row.member, row.task, row.status) for row in reader.every(ProbeRow)] == [
            ("S0", "probe-seed-0-code_o", "correct")
        ]


def test_lines_have_the_step_its_births_and_the_time_left() -> None:
    console = Console(file=io.StringIO(), width=200)
    with closing(LineReporter(console, 10, Heartbeat(print))) as reporter:
        reporter.phase(4, "match")
        reporter.progress(1, 2)
        reporter.record(full())
    assert isinstance(console.file, io.StringIO)
    assert console.file.getvalue().splitlines() == [
        "step 4  62s  valid 50%  solved in sample 50% (o:50% i:- f:-)  contested 1/0/0  games 0-0-1  6:09 left in all",
        "    S0 -> S1 (copy_parent of S0)",
    ]


def test_on_a_gpu_the_line_says_how_well_it_is_used() -> None:
    assert "GPU" not in headline(step_metrics(full()))
    played = Work(sampled_tokens=149_030, sampling_s=10.0, flops=1.2e15, peak_flops=1e15, device_bytes=72 << 30)
    learned = Work(trained_rows=241_020, training_s=10.0, flops=5.1e15, peak_flops=1e15, device_bytes=61 << 30)
    line = step_metrics(replace(full(), work={"play": played, "learn": learned}))
    assert "GPU 14,903 tok/s (MFU 12%), 24,102 rows/s trained (MFU 51%), 72.0 GiB" in headline(line)
    line = step_metrics(replace(full(), work={"play": replace(played, peak_flops=None)}))
    assert "GPU 14,903 tok/s, 72.0 GiB" in headline(line)


@pytest.mark.parametrize("width", [40, 60, 80, 110])
def test_a_narrow_terminal_breaks_lines_between_numbers_and_drops_columns(width: int) -> None:
    line = step_metrics(full())
    rows = headline(line, "6:09 left in all", width=width).splitlines()
    assert max(map(len, rows)) <= width
    assert "contested 1/0/0" in "  ".join(rows)
    headings = [column.header for column in members_table(line, width).columns]
    assert ("parents" in headings) == (width >= 80)


def cells_of(line: StepMetrics) -> dict[str, list[str]]:
    return {str(column.header): [str(cell) for cell in column.cells] for column in members_table(line).columns}


def test_a_member_without_a_game_has_no_fitness_and_students_alone_have_no_games() -> None:
    member = {"role": "student", "mu": 28.5, "sigma": 4.2, "fitness": 28.54, "born": 0, "parents": []}
    newborn = {**member, "record": [0, 0, 0], "born": 1, "parents": ["S0"]}
    line: Any = {"members": {"S0": {**member, "record": [2, 1, 0]}, "S1": newborn}}
    cells = cells_of(line)
    assert cells["fitness"] == ["28.54", "-"]
    assert cells["rating"] == ["28.5 ± 4.2", "28.5 ± 4.2"]
    alone: Any = {"members": {"S0": {**member, "record": [0, 0, 0]}}}
    assert list(cells_of(alone)) == ["member", "role", "born", "parents"]


@pytest.fixture
def terminal() -> Console:
    return Console(file=io.StringIO(), force_terminal=True, width=120, height=40, record=True)


def test_the_live_view_shows_phase_bar_members_and_steps(terminal: Console) -> None:
    with closing(LiveReporter(terminal, 10, Heartbeat(print))) as reporter:
        for phase in PHASES:
            reporter.phase(4, phase)
            reporter.progress(3, 12)
            reporter.live.refresh()
        reporter.record(full())
        reporter.phase(5, "match")
        reporter.live.refresh()
    shown = terminal.export_text()
    for number, phase in enumerate(PHASES, 1):
        assert f"step 4/10  {phase} ({number}/5)" in shown
    assert "step 4  62s  valid 50%" in shown
    assert "26.0 ± 7.0" in shown, "the table of members"
    assert "step 5/10  match (1/5)" in shown
    assert "6:09 left" in shown
    assert "━" in shown, "the bar"


def test_at_the_end_the_bar_goes_and_the_members_stay(terminal: Console) -> None:
    with closing(LiveReporter(terminal, 10, Heartbeat(print))) as reporter:
        reporter.phase(4, "evolve")
        reporter.record(full())
        terminal.export_text(clear=True)
    last = terminal.export_text()
    assert "T0" in last
    assert "evolve" not in last
    assert not reporter.live.is_started


def test_what_a_step_is_doing_is_in_a_small_file(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    directory = RunDirectory(tmp_path)
    recorder = NowRecorder(directory)
    times = iter([10.0, 10.5, 11.5, 11.5, 12.0])
    monkeypatch.setattr("redqueen.run.recording.phases.time.monotonic", lambda: next(times))
    recorder.phase(3, "solve")
    written = directory.now_file.stat().st_ino
    # Half a second later nothing is written, another second later it is.
    recorder.progress(1, 90)
    assert directory.now_file.stat().st_ino == written
    recorder.progress(45, 90)
    assert present(LiveRun(tmp_path)) == "students answer, and the sandbox judges, 45 of 90"
    recorder.close()
    assert present(LiveRun(tmp_path)) == ""


# A run that is silent for a minute says what it does.


def test_silence_ends_in_a_line_that_says_what_goes_on_and_how_far_it_is() -> None:
    said: queue.SimpleQueue[str] = queue.SimpleQueue()
    with closing(Heartbeat(said.put, every_s=0.001)) as heartbeat:
        heartbeat.begin("loading the base")
        assert said.get(timeout=60).startswith("loading the base, for 0:")
        heartbeat.begin("step 3/40: solve")
        heartbeat.progress(12, 96)
        while not (line := said.get(timeout=60)).startswith("step 3/40: solve, 12 of 96, for 0:"):
            assert line.startswith(("loading the base", "step 3/40: solve"))


def test_it_says_nothing_within_a_minute_or_after_its_end() -> None:
    said: list[str] = []
    with closing(Heartbeat(said.append)) as heartbeat:
        heartbeat.begin("solve")
        heartbeat.spoke()
    heartbeat.begin("learn")
    assert said == []
