"""What holds for every tracker, with libraries that are not installed or that fail."""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from unittest.mock import MagicMock

import pytest

from redqueen import extras, plugins
from redqueen.base import optional
from redqueen.config import Config, ConfigError
from redqueen.method.played_step import PlayedStep
from redqueen.run.recording import recorder as tracking
from redqueen.run.recording.recorder import (
    MOST,
    TRACKERS,
    Row,
    Session,
    Tracker,
    check_trackers,
    open_trackers,
    sampled,
)
from tests.extras.trackers.recorded import EXPECTED, NULL, ROW, config, new_run, session
from tests.run.recording.steps import full


class Fake(Tracker):
    """Keeps what it is sent; fails from step 2 on."""

    name = "wandb"
    where = "look here"

    def __init__(self, session: Session) -> None:
        super().__init__(session)
        self.session = session
        self.id = session.id or "abc"
        self.sent: dict[int, Mapping[str, float]] = {}
        self.finished = False

    def send(self, step: int, values: Mapping[str, float]) -> None:
        if step >= 2:
            raise ConnectionError("no route to host\nand more")
        self.sent[step] = values

    def finish(self) -> None:
        self.finished = True


class Closed(Fake):
    """Cannot be opened."""

    def __init__(self, session: Session) -> None:
        raise ValueError


@pytest.fixture
def made(monkeypatch: pytest.MonkeyPatch) -> list[Fake]:
    """The fakes that stand in for wandb, in the order in which they were opened."""
    opened: list[Fake] = []

    def fake(session: Session) -> Fake:
        opened.append(Fake(session))
        return opened[-1]

    monkeypatch.setattr("redqueen.extras.trackers.WeightsAndBiases", fake)
    return opened


def test_a_failure_in_the_middle_is_one_line_and_ends_only_the_tracker(tmp_path: Path, made: list[Fake]) -> None:
    directory = new_run(tmp_path, "wandb")
    said = session(directory, 1, 4)
    (fake,) = made
    assert said == [
        "wandb: look here",
        "warning: the tracker wandb is off (no route to host); the run goes on, its numbers are in metrics.jsonl",
    ]
    assert [line["step"] for line in directory.metrics()] == [1, 2, 3, 4]
    assert not fake.finished
    (values,) = fake.sent.values()
    assert EXPECTED.items() <= values.items()
    assert NULL not in values
    assert "step" not in values


def test_a_tracker_that_cannot_be_opened_is_one_line(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("redqueen.extras.trackers.WeightsAndBiases", Closed)
    directory = new_run(tmp_path, "wandb")
    (line,) = session(directory, 1, 1)
    assert line.startswith("warning: the tracker wandb is off (ValueError)")
    assert directory.tracker_ids() == {}
    assert len(directory.metrics()) == 1


def test_an_own_tracker_that_is_none_is_one_line(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(plugins, "_parts", {})

    @plugins.tracker
    class Bare(Fake):
        def __init__(self, session: Session) -> None:
            del session

    @plugins.tracker
    def nothing(session: Session) -> None:
        del session

    directory = new_run(tmp_path, "Bare", "nothing")
    bare, none = session(directory, 1, 1)
    assert bare.startswith("warning: the tracker Bare is off (its __init__ does not call super().__init__(session))")
    assert none.startswith("warning: the tracker nothing is off (it gave None, which is no Tracker)")
    assert len(directory.metrics()) == 1


TOKEN = "http://host:7860/?write_token=abc"


@pytest.mark.parametrize(
    ("name", "variables", "line"),
    [
        ("trackio", {}, "trackio show --project redqueen"),
        ("trackio", {"TRACKIO_SERVER_URL": TOKEN}, "http://host:7860/"),
        ("trackio", {"TRACKIO_SERVER_URL": TOKEN, "TRACKIO_SPACE_ID": "me/runs"}, "the space me/runs of the Hugging"),
        ("mlflow", {"MLFLOW_TRACKING_URI": "sqlite:///a.db"}, "mlflow ui --backend-store-uri sqlite:///a.db"),
        ("mlflow", {"MLFLOW_TRACKING_URI": "http://host:5000"}, "http://host:5000"),
    ],
)
def test_a_line_says_where_the_numbers_are(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, name: str, variables: Mapping[str, str], line: str
) -> None:
    library = MagicMock()
    library.get_tracking_uri = lambda: os.environ["MLFLOW_TRACKING_URI"]
    library.MlflowClient.return_value.create_run.return_value.info.run_id = "abc"
    monkeypatch.setattr("redqueen.extras.trackers.require", lambda *_: library)
    for variable in ("TRACKIO_SERVER_URL", "TRACKIO_SPACE_ID"):
        monkeypatch.delenv(variable, raising=False)
    for variable, value in variables.items():
        monkeypatch.setenv(variable, value)
    (said,) = session(new_run(tmp_path, name), 1, 0)
    assert said.startswith(f"{name}: {line}")


def test_a_resumed_run_is_known_by_its_id(tmp_path: Path, made: list[Fake]) -> None:
    directory = new_run(tmp_path, "wandb")
    session(directory, 1, 1)
    assert directory.tracker_ids() == {"wandb": "abc"}
    session(directory, 2, 2)
    assert [(fake.session.id, fake.session.first) for fake in made] == [(None, 1), ("abc", 2)]
    (directory.path / "trackers.json").write_text("damaged")
    session(directory, 3, 3)
    assert made[-1].session.id is None


def test_a_session_has_a_name_and_flat_settings(tmp_path: Path, made: list[Fake]) -> None:
    session(new_run(tmp_path, "wandb"), 1, 1)
    (fake,) = made
    assert fake.session.name == "runs/mine"
    settings = fake.session.settings()
    assert settings["recipe"] == "quickstart"
    assert settings["learning.lr"] == Config().learning.lr
    assert settings["run.trackers"] == ["wandb"]


def test_a_missing_library_is_found_before_the_run_starts(monkeypatch: pytest.MonkeyPatch) -> None:
    check_trackers(())
    monkeypatch.setattr(tracking, "is_installed", lambda library: library != "mlflow")
    check_trackers(("tensorboard", "wandb", "trackio"))
    with pytest.raises(optional.MissingLibraryError) as caught:
        check_trackers(("tensorboard", "mlflow"))
    assert str(caught.value) == (
        "run.trackers=mlflow needs mlflow, which is not installed: pip install '.[mlflow]' in a checkout of Red Queen"
    )


def test_no_trackers_leave_no_file(tmp_path: Path) -> None:
    directory = new_run(tmp_path)
    assert open_trackers(Session(directory=directory, config=Config(), first=1, say=print)) == []
    assert not (directory.path / "trackers.json").exists()


def test_a_tracker_has_a_name_and_is_given_once() -> None:
    with pytest.raises(ConfigError, match=r"run\.trackers"):
        config("comet")
    with pytest.raises(ConfigError, match="given twice"):
        config("wandb", "wandb")
    assert {name: extras.find("tracker", name).name for name in TRACKERS} == {name: name for name in TRACKERS}


def test_every_so_many_steps_there_is_a_table(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    tables: dict[int, list[Row]] = {}

    class Looked(Fake):
        def send(self, step: int, values: Mapping[str, float]) -> None:
            pass

        def send_samples(self, step: int, rows: Sequence[Row]) -> None:
            tables[step] = list(rows)

    monkeypatch.setattr("redqueen.extras.trackers.WeightsAndBiases", Looked)
    directory = new_run(tmp_path, "wandb")
    session(directory, 1, 5)
    assert tables == {2: [ROW], 4: [ROW]}
    tables.clear()
    directory.set_config(directory.config().override(["run.samples_every=0"]))
    session(directory, 6, 10)
    assert tables == {}


def test_a_table_is_spread_over_the_step() -> None:
    (played,) = full().played.matches
    scored = played.proposals[0]
    students = [f"S{number}" for number in range(2 * MOST)]
    posed = [replace(scored, proposed=replace(scored.proposed, student=student)) for student in students]
    matches = tuple(replace(played, proposals=(one,)) for one in posed)
    assert sampled(PlayedStep(step=1, matches=())) == []
    assert [row["student"] for row in sampled(PlayedStep(step=1, matches=matches[:3]))] == ["S0", "S1", "S2"]
    rows = sampled(PlayedStep(step=1, matches=matches))
    assert [row["student"] for row in rows] == [f"S{number}" for number in range(0, 2 * MOST, 2)]
    assert rows[0] == ROW
