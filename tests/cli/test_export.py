"""`redqueen export`: a PEFT folder or a whole model, with a card whose program runs."""

from __future__ import annotations

import contextlib
import io
import re
import subprocess
import sys
from pathlib import Path

import pytest

from redqueen.config import GameConfig, ModelConfig
from redqueen.members.exporting import _example, _notes
from redqueen.method.population import Member
from redqueen.records import Role
from redqueen.tasks.python import NAMES
from tests.cli.running import redqueen

pytestmark = pytest.mark.integration


def program_of(folder: Path) -> str:
    """The program in a card."""
    (found,) = re.findall(r"```python\n(.*?)```", (folder / "README.md").read_text(), re.S)
    return found


@pytest.mark.parametrize(
    ("member", "options", "files"),
    [
        ("best-student", (), {"adapter_config.json", "adapter_model.safetensors"}),
        ("best-teacher", ("--merge",), {"config.json", "model.safetensors", "tokenizer.json"}),
    ],
)
def test_the_program_of_a_card_runs(
    finished: Path, tmp_path: Path, member: str, options: tuple[str, ...], files: set[str]
) -> None:
    out = tmp_path / "out"
    done = redqueen("export", str(finished), member, str(out), *options)
    assert done.returncode == 0, done.stderr
    assert {path.name for path in out.iterdir()} >= {"README.md", *files}
    card = (out / "README.md").read_text()
    assert "| S" in card or "| T" in card
    assert "base fingerprint" in card
    assert (f"convert_hf_to_gguf.py {out} " in card) == ("--merge" in options)
    said = io.StringIO()
    with contextlib.redirect_stdout(said):
        exec(compile(program_of(out), "card", "exec"), {})
    assert said.getvalue().endswith("\n")
    assert [path.name for path in tmp_path.iterdir()] == ["out"]


def test_a_member_is_written_as_it_was_at_a_step(finished: Path, tmp_path: Path) -> None:
    # What an export that was killed left is not part of the next one.
    (tmp_path / ".then.tmp").mkdir()
    (tmp_path / ".then.tmp" / "model.safetensors").write_bytes(b"half")
    done = redqueen("export", str(finished), "t1", str(tmp_path / "then"), "--step", "1")
    assert done.returncode == 0, done.stderr
    assert "wrote T1 (teacher) after step 1" in done.stdout
    assert not (tmp_path / "then" / "model.safetensors").exists()
    assert redqueen("export", str(finished), "T1", str(tmp_path / "now")).returncode == 0
    then, now = (tmp_path / name / "adapter_model.safetensors" for name in ("then", "now"))
    assert then.stat().st_size == now.stat().st_size


def test_exporting_an_unknown_member_names_the_known_ones(finished: Path, tmp_path: Path) -> None:
    done = redqueen("export", str(finished), "S99", str(tmp_path / "out"))
    assert done.returncode == 2
    assert "choose one of T0, T1, S0, S1, best-student, best-teacher" in done.stderr
    assert not (tmp_path / "out").exists()


def test_a_checkpoint_that_is_not_kept_names_those_that_are(finished: Path, tmp_path: Path) -> None:
    done = redqueen("export", str(finished), "S0", str(tmp_path / "out"), "--step", "7")
    assert done.returncode == 2
    assert "S0 is in the checkpoints after step 0, 1, 2" in done.stderr


def test_a_name_that_is_none_is_refused_before_torch_is_imported(finished: Path, tmp_path: Path) -> None:
    run, out = str(finished), str(tmp_path / "out")
    refused = {
        "--push noslash: write USER/NAME": ["export", run, "best-student", out, "--push", "noslash"],
        "S0 is in the checkpoints after step 0, 1, 2": ["export", run, "S0", out, "--step", "99"],
        "has no checkpoint at step 99": ["export", run, "best-student", out, "--step", "99"],
        "S1 is in the checkpoints after step": ["ask", run, "S1", "--step", "99"],
        "no seed task 'seed-999999': choose seed-0 to": ["ask", run, "best-student", "seed-999999"],
        "nosuch is neither a run nor a PEFT folder": ["eval", run, "nosuch"],
    }
    script = f"""
import sys
from redqueen.cli.app import main
for args in {list(refused.values())}:
    sys.argv = ["redqueen", *args]
    try:
        main()
    except SystemExit:
        pass
print([name for name in ("torch", "transformers", "matplotlib") if name in sys.modules])
"""
    done = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, check=True)
    for said, line in zip(refused, done.stderr.splitlines(), strict=True):
        assert said in line
    assert done.stdout.splitlines()[-1] == "[]"


@pytest.mark.parametrize("member", ["best-teacher", "S0"])
def test_a_folder_that_holds_something_is_refused(finished: Path, tmp_path: Path, member: str) -> None:
    (tmp_path / "precious.txt").write_text("mine")
    done = redqueen("export", str(finished), member, str(tmp_path))
    assert done.returncode == 2
    assert "is not empty: choose another folder" in done.stderr
    assert [path.name for path in tmp_path.iterdir()] == ["precious.txt"]


@pytest.mark.parametrize(("rank", "said"), [(4, "--max-lora-rank 8"), (8, "--max-lora-rank 8"), (1024, None)])
def test_the_line_for_vllm_has_a_rank_that_vllm_has(rank: int, said: str | None) -> None:
    member = Member("S0", "student", born=0)
    notes = _notes(member, ModelConfig(rank=rank), Path("student"), merged=False)
    assert (said in notes) if said else "vllm" not in notes
    assert ("BASE" in notes) == (said is not None)


@pytest.mark.parametrize("role", ["student", "teacher"])
@pytest.mark.parametrize("kind", ["sql_o", "sql_i", "sql_f", "expr_o", "code_t", "maths", "code_o", "code_i", "code_f"])
def test_a_card_has_an_example_of_any_kind(kind: str, role: Role) -> None:
    game = GameConfig(kinds=(kind,))
    text = _example(Member("S0", role, born=0), game, "completion").text
    assert ("sort" in text) == (kind in NAMES)
    assert ("question of the kind" in text) == (kind in ("sql_i", "sql_f", "code_t", "maths"))
