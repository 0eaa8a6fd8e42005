from __future__ import annotations

import re
from pathlib import Path

from matplotlib.figure import Figure

from redqueen.analysis.drawing import write


def test_a_curve_is_stored_in_hundredths_of_a_point_and_text_as_it_is(tmp_path: Path) -> None:
    figure = Figure()
    axes = figure.subplots()
    axes.plot([0, 1, 2], [1 / 3, 2 / 7, 3 / 11])
    axes.set_title("0.123456")
    file = tmp_path / "curve.svg"
    write(figure, file)
    svg = file.read_text()
    paths = re.findall(r' d="([^"]+)"', svg)
    assert any(re.search(r"\.\d\d\b", path) for path in paths)
    assert not any(re.search(r"\.\d{3}", path) for path in paths)
    assert "0.123456" in svg
