"""`redqueen export`: a PEFT folder with a card."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.commands.running import redqueen

pytestmark = pytest.mark.integration


def test_export_writes_a_peft_folder_with_a_card(finished: Path, tmp_path: Path) -> None:
    done = redqueen("export", str(finished), "best-student", str(tmp_path / "out"))
    assert done.returncode == 0, done.stderr
    assert {p.name for p in (tmp_path / "out").iterdir()} >= {
        "adapter_config.json",
        "adapter_model.safetensors",
        "README.md",
    }
    card = (tmp_path / "out" / "README.md").read_text()
    assert "| S" in card
    assert "base fingerprint" in card


def test_exporting_an_unknown_member_names_the_known_ones(finished: Path, tmp_path: Path) -> None:
    done = redqueen("export", str(finished), "S99", str(tmp_path / "out"))
    assert done.returncode == 2
    assert "choose one of T0, T1, S0, S1" in done.stderr
    assert not (tmp_path / "out").exists()


@pytest.mark.parametrize("member", ["best-teacher", "S0"])
def test_a_folder_that_holds_something_is_refused(finished: Path, tmp_path: Path, member: str) -> None:
    (tmp_path / "precious.txt").write_text("mine")
    done = redqueen("export", str(finished), member, str(tmp_path))
    assert done.returncode == 2
    assert "is not empty: choose another folder" in done.stderr
    assert [path.name for path in tmp_path.iterdir()] == ["precious.txt"]
