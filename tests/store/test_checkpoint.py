"""Checkpoints: bit-exact, checksummed, and whole whatever kills the process."""

from __future__ import annotations

import json
import resource
import subprocess
import sys
from dataclasses import replace
from pathlib import Path

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from redqueen.engine.adapters import Factors
from redqueen.errors import UserError
from redqueen.method.hall_of_fame import champion_of
from redqueen.method.population import Member, Population
from redqueen.method.rating import Rating
from redqueen.method.task_bank import Entry
from redqueen.records import Pair, Task
from redqueen.store import checkpoint
from redqueen.store.checkpoint import Checkpoint, CheckpointError
from redqueen.store.directory import RunDirectory, RunError

SITES = ("model.layers.0.self_attn.q_proj", "model.layers.1.mlp.up_proj")


def make(step: int = 4, seed: int = 0) -> Checkpoint:
    g = torch.Generator().manual_seed(seed)
    table = Population()
    for role in ("teacher", "student", "student"):
        table.add_member(role, 0)
    child = table.add_member("student", 3, ("S0", "S1"), "dare")
    table.remove_member("S0")
    table.add_matches([{"code_o": [0.1 + 0.2, 0.0]}, {"code_i": [1 / 3]}], 20)
    table.members["T0"] = replace(table.members["T0"], rating=Rating(25.1 + 0.2, 1 / 3), wins=3, draws=1, losses=2)
    adapters: dict[str, dict[str, Factors]] = {name: {} for name in table.members}
    for adapter in adapters.values():
        for site in SITES:
            adapter[site] = Factors(torch.randn(6, 2, generator=g), torch.randn(2, 5, generator=g))
    # Values that a detour over text or another dtype would change.
    adapters["T0"][SITES[0]].b[0] = torch.tensor([0.0, -0.0, 1e-45, 3.4e38, 1 / 3])
    optimizers: dict[str, dict[str, torch.Tensor]] = {
        name: {f"{SITES[0]}.a.exp_avg": torch.randn(6, 2, generator=g), f"{SITES[0]}.a.step": torch.tensor(7.0)}
        for name in table.members
    }
    # Born in this step, so it has no moments yet.
    optimizers[child.name] = {}
    task = Task(
        id="0.0.code_f.1",
        kind="code_f",
        author="T0",
        step=0,
        program="def f(x):\n    return 'é\U0001f451'",
        pairs=(Pair("1", "2"),) * 2,
        message="m\n",
    )
    bank = [Entry(task, 0.1 + 0.2), Entry(replace(task, id="seed", kind="code_o", program="def f(x): return x"), None)]
    versions = {name: 3 + i for i, name in enumerate(table.members)}
    return Checkpoint(
        step=step,
        base="some/base",
        fingerprint="abc123",
        alpha=16.5,
        population=table,
        bank=bank,
        adapters=adapters,
        optimizers=optimizers,
        versions=versions,
        slots={name: 2 - i for i, name in enumerate(table.members)},
    )


def save(folder: Path, saved: Checkpoint, keep_last: int = 9, keep_every: int = 0) -> Path:
    return checkpoint.save(folder, saved, keep_last=keep_last, keep_every=keep_every)


def steps(folder: Path) -> list[int]:
    return RunDirectory(folder.parent).saved()


def bits(t: torch.Tensor) -> tuple[torch.dtype, tuple[int, ...], bytes]:
    return t.dtype, tuple(t.shape), t.contiguous().numpy().tobytes()


def assert_same(one: Checkpoint, other: Checkpoint) -> None:
    for name in ("step", "base", "fingerprint", "alpha", "bank", "versions", "slots"):
        assert getattr(one, name) == getattr(other, name)
    assert list(one.population.members.items()) == list(other.population.members.items())
    assert one.population.born == other.population.born
    assert one.population.recent_matches == other.population.recent_matches
    assert one.adapters.keys() == other.adapters.keys()
    for member, adapter in one.adapters.items():
        assert adapter.keys() == other.adapters[member].keys()
        for site, factors in other.adapters[member].items():
            assert (bits(adapter[site].a), bits(adapter[site].b)) == (bits(factors.a), bits(factors.b))
    assert one.optimizers.keys() == other.optimizers.keys()
    for member, state in one.optimizers.items():
        assert state.keys() == other.optimizers[member].keys()
        assert all(bits(tensor) == bits(state[key]) for key, tensor in other.optimizers[member].items())


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    return tmp_path / "checkpoints"


def test_what_was_saved_is_loaded_bit_for_bit(folder: Path) -> None:
    saved = make()
    assert save(folder, saved) == folder / "step-000004"
    assert_same(checkpoint.load(folder, 4), saved)


def test_the_table_goes_on_numbering_after_a_load(folder: Path) -> None:
    save(folder, make())
    assert checkpoint.load(folder, 4).population.add_member("student", 9).name == "S3"


@given(
    st.floats(allow_nan=False, allow_infinity=False),
    st.floats(min_value=1e-300, allow_nan=False, allow_infinity=False),
    st.integers(0, 10**9),
    st.text(st.characters(exclude_categories=("Cs",))),
)
def test_any_rating_and_any_text_survive(mu: float, sigma: float, games: int, text: str) -> None:
    task = Task(id=text, kind="code_i", author="T0", step=0, program=text, pairs=(Pair(text, text),), message=text)
    table = Population([Member("T0", "teacher", 0, ("T1",), text, Rating(mu, sigma), games, 0, 1)], {"teacher": 1})
    saved = replace(make(), population=table, bank=[Entry(task, None)])
    state = json.loads(json.dumps(checkpoint._state(saved)))
    assert checkpoint._MEMBERS.validate_python(state["members"]) == list(table.members.values())
    assert checkpoint._ENTRIES.validate_python(state["bank"]) == saved.bank


def test_a_flipped_byte_in_any_file_is_refused_with_the_folders_name(folder: Path) -> None:
    path = save(folder, make())
    files = sorted(p for p in path.rglob("*") if p.is_file())
    assert len(files) == 2 + 3 * len(make().population.members) + sum(p.name == "README.md" for p in files)
    for file in files:
        whole = file.read_bytes()
        for at in sorted({0, len(whole) // 3, len(whole) // 2, len(whole) - 2}):
            file.write_bytes(whole[:at] + bytes([whole[at] ^ 0x40]) + whole[at + 1 :])
            with pytest.raises(CheckpointError) as caught:
                checkpoint.load(folder, 4)
            assert str(path) in str(caught.value), file
            assert "\n" not in str(caught.value)
        file.write_bytes(whole)
    checkpoint.load(folder, 4)


def test_a_cut_or_longer_file_is_refused(folder: Path) -> None:
    path = save(folder, make())
    for file in sorted(p for p in path.rglob("*") if p.is_file() and p.name != "manifest.json"):
        whole = file.read_bytes()
        for other in (b"", whole[:-1], whole + b"\0"):
            file.write_bytes(other)
            with pytest.raises(CheckpointError, match="is damaged"):
                checkpoint.load(folder, 4)
        file.write_bytes(whole)


def test_a_missing_file_is_refused_with_the_folders_name(folder: Path) -> None:
    path = save(folder, make())
    for file in sorted(p for p in path.rglob("*") if p.is_file()):
        whole = file.read_bytes()
        file.unlink()
        with pytest.raises(CheckpointError) as caught:
            checkpoint.load(folder, 4)
        assert str(path) in str(caught.value), file
        file.write_bytes(whole)


def test_a_damaged_checkpoint_does_not_touch_the_one_before(folder: Path) -> None:
    save(folder, make(4))
    (save(folder, make(5)) / "state.json").write_text("{}")
    with pytest.raises(CheckpointError, match="move the folder away to resume from the one before"):
        checkpoint.load(folder, 5)
    assert_same(checkpoint.load(folder, 4), make(4))


# The message says to move the folder away; people do it by renaming it where it is.
@pytest.mark.parametrize("name", ["step-000005.damaged", "step-000005-bad", "step-", "step-old"])
def test_a_folder_that_was_renamed_aside_is_no_checkpoint(folder: Path, name: str) -> None:
    save(folder, make(4))
    save(folder, make(5)).rename(folder / name)
    assert steps(folder) == [4]
    save(folder, make(5), keep_last=1)
    assert (folder / name).is_dir()


@pytest.mark.parametrize("other", [1, 99])
def test_an_older_or_newer_layout_is_refused_in_one_line_with_both_numbers(folder: Path, other: int) -> None:
    path = save(folder, make())
    state = json.loads((path / "state.json").read_text())
    (path / "state.json").write_text(json.dumps({**state, "format": other}))
    (path / "manifest.json").unlink()
    checkpoint._seal(path)
    with pytest.raises(
        CheckpointError, match=f"has checkpoint format {other}, this version reads {checkpoint.FORMAT}"
    ) as caught:
        checkpoint.load(folder, 4)
    assert str(path) in str(caught.value)
    assert "\n" not in str(caught.value)


def change_state(path: Path, old: str, new: str) -> None:
    """Changes the text of state.json as whoever makes a checkpoint by hand does, checksums and all."""
    state = path / "state.json"
    assert old in state.read_text()
    state.write_text(state.read_text().replace(old, new))
    (path / "manifest.json").unlink()
    checkpoint._seal(path)


@pytest.mark.parametrize("name", ["../../../victim", "/tmp/victim", "S1/../../victim", "S1\\n", "S1;rm -r"])
def test_a_member_whose_name_leads_out_of_the_run_is_refused_before_it_is_read(folder: Path, name: str) -> None:
    path = save(folder, make())
    change_state(path, '"name": "S1"', f'"name": "{name}"')
    with pytest.raises(CheckpointError, match=r"was changed .it names a member .*: use an unchanged copy") as caught:
        checkpoint.load(folder, 4)
    assert "\n" not in str(caught.value)


def test_a_champion_whose_name_leads_out_of_the_run_is_refused(folder: Path) -> None:
    saved = make()
    champion = champion_of("S1", "student", 2, Rating(), None)
    saved.population.hall_of_fame[champion.name] = champion
    adapters = {**saved.adapters, champion.name: saved.adapters["S1"]}
    path = save(folder, replace(saved, adapters=adapters))
    assert "S1@2" in checkpoint.load(folder, 4).adapters
    change_state(path, "S1@2", "../S1@2")
    with pytest.raises(CheckpointError, match="it names a member"):
        checkpoint.load(folder, 4)


@pytest.mark.parametrize("name", ["../../victim", "/etc/hostname"])
def test_a_manifest_names_files_of_its_own_folder_only(folder: Path, tmp_path: Path, name: str) -> None:
    path = save(folder, make())
    (tmp_path / "victim").write_text("mine")
    sums = json.loads((path / "manifest.json").read_text())
    (path / "manifest.json").write_text(json.dumps({**sums, name: checkpoint._checksum(path / "state.json")}))
    with pytest.raises(CheckpointError, match=r"which lies outside of it.: move the folder away to resume"):
        checkpoint.load(folder, 4)


def test_a_checkpoint_holds_its_own_files(folder: Path) -> None:
    path = save(folder, make())
    (path / "members" / "S1").rename(folder / "S1")
    (path / "members" / "S1").symlink_to(folder / "S1")
    with pytest.raises(RunError, match="S1 is a link, and a run holds its own files"):
        checkpoint.load(folder, 4)


def test_a_checkpoint_of_another_step_than_its_folder_is_refused(folder: Path) -> None:
    change_state(save(folder, make()), '"step": 4', '"step": 3')
    with pytest.raises(CheckpointError, match="is of step 3: use an unchanged copy"):
        checkpoint.load(folder, 4)


@pytest.mark.parametrize("text", ["[]", '{"format": 4}', '{"format": 4, "step": 4, "members": 3}'])
def test_a_state_of_another_form_is_one_line(folder: Path, text: str) -> None:
    path = save(folder, make())
    (path / "state.json").write_text(text)
    (path / "manifest.json").unlink()
    checkpoint._seal(path)
    with pytest.raises(UserError) as caught:
        checkpoint.load(folder, 4)
    assert "\n" not in str(caught.value)


def test_a_step_that_is_not_there_is_refused(folder: Path) -> None:
    save(folder, make())
    with pytest.raises(CheckpointError, match="step-000007 is not a complete checkpoint"):
        checkpoint.load(folder, 7)


def test_there_are_no_steps_where_there_is_no_folder(folder: Path) -> None:
    assert steps(folder) == []


def test_steps_are_in_the_order_of_numbers(folder: Path) -> None:
    for step in (2, 10, 0, 1_000_000, 999_999):
        save(folder, make(step))
    assert steps(folder) == [0, 2, 10, 999_999, 1_000_000]
    assert checkpoint.load(folder, 1_000_000).step == 1_000_000


def test_what_was_half_written_is_no_checkpoint_and_is_removed_by_the_next(folder: Path) -> None:
    save(folder, make(4))
    half = folder / ".step-000005.tmp"
    (half / "members").mkdir(parents=True)
    (half / "state.json").write_text("{")
    assert steps(folder) == [4]
    save(folder, make(5))
    assert sorted(p.name for p in folder.iterdir()) == ["step-000004", "step-000005"]


def test_cleaning_touches_nothing_else(folder: Path) -> None:
    save(folder, make(4))
    (folder / "notes.tmp").mkdir()
    (folder / ".step-000009.tmp").mkdir()
    checkpoint.clean(folder)
    assert sorted(p.name for p in folder.iterdir()) == ["notes.tmp", "step-000004"]


def test_saving_a_step_again_replaces_it(folder: Path) -> None:
    save(folder, make(4, seed=0))
    save(folder, make(4, seed=1))
    assert_same(checkpoint.load(folder, 4), make(4, seed=1))


@pytest.mark.parametrize(
    ("keep_last", "keep_every", "kept"),
    [
        (1, 0, [9]),
        (2, 0, [8, 9]),
        (20, 0, list(range(10))),
        (1, 3, [0, 3, 6, 9]),
        (2, 4, [0, 4, 8, 9]),
        (3, 5, [0, 5, 7, 8, 9]),
    ],
)
def test_the_last_ones_and_every_nth_are_kept(folder: Path, keep_last: int, keep_every: int, kept: list[int]) -> None:
    small = make()
    small = replace(small, adapters={}, optimizers={}, population=Population())
    for step in range(10):
        save(folder, replace(small, step=step), keep_last, keep_every)
    assert steps(folder) == kept


HELPERS = f"""
import importlib.util, os, shutil, signal, sys
from dataclasses import replace
from pathlib import Path
spec = importlib.util.spec_from_file_location("helpers", {__file__!r})
helpers = importlib.util.module_from_spec(spec)
sys.modules["helpers"] = helpers
spec.loader.exec_module(helpers)
from helpers import make, save, steps
"""


@pytest.mark.integration
@pytest.mark.slow
def test_a_kill_at_any_call_in_a_save_leaves_the_last_complete_checkpoint_loadable(folder: Path) -> None:
    # One process forks a child for each place to die at: after the nth change that `save` makes to the disk.
    code = f"""
root = Path({str(folder)!r})
events = ("open", "os.mkdir", "os.rename", "os.remove", "os.rmdir", "shutil.rmtree")
armed = False
left = 0
def watch(event, args):
    global left
    if armed and event in events:
        left -= 1
        if left == 0:
            os.kill(os.getpid(), signal.SIGKILL)
sys.addaudithook(watch)
new = make(5)
save(root / "start", make(3)), save(root / "start", make(4))
for place in range(1, 500):
    folder = root / str(place) / "checkpoints"
    shutil.copytree(root / "start", folder)
    child = os.fork()
    if child == 0:
        left, armed = place, True
        save(folder, new, keep_last=2)
        armed = False
        os._exit(0)
    if os.waitpid(child, 0)[1] == 0:
        break
print(place)
"""
    done = subprocess.run([sys.executable, "-c", HELPERS + code], capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    places = int(done.stdout)
    assert places > 30
    newest = []
    for place in range(1, places + 1):
        home = folder / str(place) / "checkpoints"
        newest.append(steps(home)[-1])
        assert_same(checkpoint.load(home, newest[-1]), make(newest[-1]))
        if newest[-1] == 4:
            assert_same(checkpoint.load(home, 3), make(3))
        # and the next save goes through as if nothing had happened
        if place % 10 == 1:
            save(home, make(6), keep_last=1)
            assert [p.name for p in home.iterdir()] == ["step-000006"]
    assert newest == sorted(newest)
    assert set(newest) == {4, 5}


# The command line turns an OSError into one line that says how to go on; anything else is a traceback.
def test_a_full_disk_is_an_os_error_and_leaves_the_former_ones(folder: Path) -> None:
    save(folder, make(4))
    factors = Factors(torch.randn(400, 8), torch.randn(8, 400))
    big = replace(make(5), adapters={name: {SITES[0]: factors} for name in make().adapters})
    soft, hard = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (8000, hard))
    try:
        with pytest.raises(OSError, match="large"):
            save(folder, big)
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, (soft, hard))
    assert steps(folder) == [4]
    assert_same(checkpoint.load(folder, 4), make(4))
    save(folder, big)
    assert steps(folder) == [4, 5]


def test_what_is_remembered_of_games_and_champions_survives() -> None:
    table = make().population
    table.record_game("T0", 0.1 + 0.2, 1 / 3)
    table.set_held_out({"S1": 2 / 3})
    table.add_champion(champion_of("S0", "student", 2, Rating(30.1, 1 / 3), None), 3)
    state = json.loads(json.dumps(checkpoint._state(replace(make(), population=table))))
    assert checkpoint._MEMBERS.validate_python(state["members"]) == list(table.members.values())
    assert checkpoint._HALL.validate_python(state["hall"]) == list(table.hall_of_fame.values())
