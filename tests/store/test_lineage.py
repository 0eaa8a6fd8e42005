"""The family tree of a real run and of a run without recorded standings, and its figure."""

from __future__ import annotations

import json
import sqlite3
import subprocess
import sys
from dataclasses import asdict
from pathlib import Path

import matplotlib.image
import pytest
from starlette.testclient import TestClient

from redqueen.analysis.drawing import write
from redqueen.extras.page.app import make_app
from redqueen.extras.page.live_run import Folder
from redqueen.extras.studies.lineage_figure import draw
from redqueen.method.verifier import LocalVerifier
from redqueen.store import lineage as tree
from redqueen.store.archive.rows import MemberRow, StandingRow
from redqueen.store.archive.writer import Archive
from redqueen.store.directory import RunDirectory, RunError
from redqueen.store.lineage import Life, ancestors, last_step, lives
from tests import toy
from tests.cli.archived import archived
from tests.cli.running import Done, redqueen

pytestmark = pytest.mark.integration


@pytest.fixture(scope="module")
def whole(tmp_path_factory: pytest.TempPathFactory, verifier: LocalVerifier) -> Path:
    folder = tmp_path_factory.mktemp("lineage")
    changes = {
        "run.steps": 5,
        "evolution.enabled": True,
        "evolution.every": 1,
        "evolution.burn_in": 1,
        "population.teachers": 3,
        "population.students": 4,
        "game.proposals": 3,
    }
    return toy.played(folder, verifier, **changes).path


def test_a_family_that_is_too_large_to_be_shown_is_one_line(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(tree, "MOST_MEMBERS", 3)
    run = archived(tmp_path / "run")
    with Archive(run / "run.sqlite") as archive:
        names = [f"S{number}" for number in range(3)]
        archive.write([MemberRow(name=name, role="student", step=0, parents=(), operator="init") for name in names])
        assert [life.name for life in lives(run)] == names
        archive.write([MemberRow(name="S3", role="student", step=1, parents=("S0",), operator="copy_parent")])
    done = redqueen("lineage", str(run))
    assert done.returncode == 2
    assert "run.sqlite has 4 members, and a family of more than 3 is not drawn or listed" in done.stderr
    page = TestClient(make_app(Folder(run)), base_url="http://127.0.0.1")
    for view in ("league", "tree"):
        answer = page.get(f"/api/{view}", params={"run": ""})
        assert (answer.status_code, "4 members" in answer.json()["error"]) == (400, True)


def by_name(run: Path) -> dict[str, Life]:
    return {life.name: life for life in lives(run)}


def test_lives_agree_with_the_metrics(whole: Path) -> None:
    found = by_name(whole)
    lines = RunDirectory(whole).metrics()
    births = [(line["step"], b) for line in lines for b in line["replacements"]]
    assert len(found) == 7 + len(births)
    assert len(births) >= 5
    for step, birth in births:
        child, victim = found[birth["child"]], found[birth["victim"]]
        assert (child.born, child.operator, list(child.parents)) == (step, birth["operator"], birth["parents"])
        assert child.victim == victim.name
        assert victim.died == step
        assert child.victim_fitness == victim.last
        assert [found[p].role for p in child.parents] == [child.role] * len(child.parents)
    living = {name for name, life in found.items() if life.died is None}
    assert living == set(lines[-1]["members"])
    assert last_step(whole) == 5


def test_fitness_before_first_and_last(whole: Path) -> None:
    found, lines = by_name(whole), RunDirectory(whole).metrics()
    final = lines[-1]["members"]
    for life in found.values():
        if life.died is None and life.games:
            assert life.last == final[life.name]["fitness"]
        assert (life.first is None) == (life.games == 0)
        assert (life.first_rated is None) == (life.games == 0)
        if life.first_rated is not None:
            assert life.first_rated > life.born
        if len(life.parents) == 2:
            assert life.parent_fitness[0] >= life.parent_fitness[1]  # type: ignore[operator]
        assert len(life.parent_fitness) == len(life.parents)


def test_the_age_at_death_is_the_one_in_the_metrics(whole: Path) -> None:
    found = by_name(whole)
    births = [birth for line in RunDirectory(whole).metrics() for birth in line["replacements"]]
    assert births
    for birth in births:
        victim = found[birth["victim"]]
        assert victim.died is not None
        assert victim.age == birth["age"] == victim.died - victim.born
        assert victim.games == birth["games"]
    for life in found.values():
        if life.died is None:
            assert life.age == last_step(whole) - life.born


def test_a_run_of_another_layout_is_refused_in_one_line(whole: Path, tmp_path: Path) -> None:
    old = tmp_path / "old"
    old.mkdir()
    (old / "config.json").write_bytes((whole / "config.json").read_bytes())
    with sqlite3.connect(whole / "run.sqlite") as new, sqlite3.connect(old / "run.sqlite") as copy:
        new.backup(copy)
    copy.execute("DROP TABLE standings")
    copy.commit()
    copy.close()
    with pytest.raises(RunError, match="another version of Red Queen"):
        lives(old)


def test_each_ancestor_is_listed_once(whole: Path) -> None:
    found = lives(whole)
    youngest = [life for life in found if life.parents][-1]
    family = ancestors(found, youngest.name)
    names = [life.name for life in family]
    assert names[0] == youngest.name
    assert len(set(names)) == len(names)
    for life in family:
        assert set(life.parents) <= set(names)
    assert ancestors(found, "nobody") == []


def test_a_folder_without_a_run_is_refused(tmp_path: Path, whole: Path) -> None:
    with pytest.raises(RunError, match=r"holds no run|does not exist"):
        lives(tmp_path)
    (tmp_path / "config.json").write_bytes((whole / "config.json").read_bytes())
    with pytest.raises(RunError, match="has no archive"):
        lives(tmp_path)


@pytest.mark.slow
@pytest.mark.parametrize("ending", ["png", "svg"])
def test_the_figure_has_a_line_for_every_life_and_an_arc_for_every_parent(
    whole: Path, tmp_path: Path, ending: str
) -> None:
    found = lives(whole)
    figure = draw(found, last_step(whole))
    assert [axes.get_title("left") for axes in figure.axes] == ["teachers", "students"]
    ends = {round(line.get_xdata()[-1]) for axes in figure.axes for line in axes.lines if len(line.get_xdata()) == 2}  # type: ignore[arg-type,index]
    assert sum(len(axes.lines) for axes in figure.axes) == 2 * len(found)
    assert max(ends) == 5
    assert sum(len(axes.patches) for axes in figure.axes) == sum(len(life.parents) for life in found)
    one, two = tmp_path / f"one.{ending}", tmp_path / f"two.{ending}"
    write(figure, one)
    write(draw(found, last_step(whole)), two)
    assert one.read_bytes() == two.read_bytes()
    if ending == "png":
        pixels = matplotlib.image.imread(one)
        assert pixels.std() > 0.05, "it is not blank"
    else:
        assert all(f">{life.name}<" in one.read_text() for life in found)


def lineage(*args: str) -> Done:
    return redqueen("lineage", *args)


@pytest.mark.slow
def test_the_command_prints_a_tree_or_json_and_draws(whole: Path, tmp_path: Path) -> None:
    command = [sys.executable, "-m", "redqueen", "lineage", str(whole), "--figure", str(tmp_path / "tree.png")]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    assert (tmp_path / "tree.png").stat().st_size > 10_000
    lines = done.stdout.splitlines()
    for life in lives(whole):
        (line,) = [line for line in lines if f"── {life.name} " in line]
        assert ("lives" in line) == (life.died is None)
        assert life.operator in line or not life.parents
    asked = lineage(str(whole), "--json")
    assert json.loads(asked.stdout) == json.loads(json.dumps([asdict(life) for life in lives(whole)]))


@pytest.mark.parametrize(
    ("figure", "message"), [("tree.pdf", "must end in .png or .svg"), ("no/where.png", "cannot write")]
)
def test_a_figure_that_cannot_be_written_is_a_one_line_error(
    whole: Path, tmp_path: Path, figure: str, message: str
) -> None:
    done = lineage(str(whole), "--figure", str(tmp_path / figure))
    assert done.returncode == 2
    assert message in done.stderr
    assert "Traceback" not in done.stderr


def test_a_fitness_that_was_not_known_at_the_first_game_is_the_first_that_was(tmp_path: Path, whole: Path) -> None:
    (tmp_path / "config.json").write_bytes((whole / "config.json").read_bytes())
    born = MemberRow(name="S0", role="student", step=0, parents=(), operator="init")
    known = [None, None, 0.25, 0.5]
    with Archive(tmp_path / "run.sqlite") as archive:
        archive.write([born])
        for step, fitness in enumerate(known):
            archive.write([StandingRow(step=step, member="S0", mu=25, sigma=8, games=step + 1, fitness=fitness)])
    (life,) = lives(tmp_path)
    assert (life.first, life.first_rated, life.last, life.games) == (0.25, 2, 0.5, 4)
