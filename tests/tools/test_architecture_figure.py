from __future__ import annotations

from pathlib import Path

from tools import architecture_figure


def test_every_room_is_drawn_with_its_title(tmp_path: Path) -> None:
    target = tmp_path / "picture.svg"
    architecture_figure.draw(target)
    assert target.read_text().lstrip().startswith("<?xml")
    assert set(architecture_figure.places()) == set(architecture_figure.TITLES)


def test_the_picture_keeps_only_arrows_that_no_longer_way_implies() -> None:
    arrows = architecture_figure.arrows()
    assert ("redqueen.extras.page", "redqueen.cli") in arrows
    assert ("redqueen.run", "redqueen.evals") in arrows
    # commands import records too, through everything below them
    assert ("redqueen.cli", "redqueen.jail") not in arrows
