"""The charts in a real browser: smoothing, zoom, a step that is chosen, lines that cover one another, and search."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from tests.extras.page import drawn_run
from tests.extras.page.browser import PROGRAM, Browser, browser
from tests.extras.page.served import served

pytestmark = [
    pytest.mark.integration,
    pytest.mark.skipif(PROGRAM is None, reason="there is no chromium (apt-get install chromium)"),
]
STEPS = 60
FIRST = "document.querySelector('#panel-first-health')"


@pytest.fixture(scope="module")
def shown(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Browser]:
    """A browser that shows a long run."""
    run = drawn_run.write(tmp_path_factory.mktemp("drawn") / "run", STEPS)
    with browser(tmp_path_factory.mktemp("chromium")) as started, served(run) as address:
        started.size(1280)
        started.goto(address)
        yield started
        assert started.complaints == []
        # Before the server ends, so that the page does not ask in vain.
        started.call("Page.navigate", url="about:blank")


def module(shown: Browser, script: str) -> object:
    """Returns what an expression gives in which `s` is series.js."""
    return shown.run(f"import('/static/series.js').then((s) => {script})")


def test_smoothing_is_a_mean_around_each_step_that_leaves_gaps(shown: Browser) -> None:
    assert module(shown, "s.smooth([1, 2, 6, null, 4], 3)") == [1.5, 3, 4, None, 4]
    assert module(shown, "s.smooth([1, 2, 6], 1)") == [1, 2, 6]
    assert module(shown, "[6, 30, 31, 60, 150].map(s.usualWindow)") == [1, 1, 3, 7, 13]


def test_a_line_that_covers_another_is_found(shown: Browser) -> None:
    curves = "[[1, null], [1, 2], [1, null], [1 + 1e-12, null]].map((values) => ({values}))"
    assert module(shown, f"s.covered({curves})") == [None, None, 0, 0]
    shown.run("document.querySelector('details.question').open = true")
    shown.until("!!document.querySelector('#panel-solve-rate canvas')")
    legend = shown.run("document.querySelector('#panel-solve-rate .panel-legend').innerText")
    assert "mean of kinds(the same as all tasks)" in legend.replace("\n", "")


def test_a_tick_is_not_rounded_to_another_number(shown: Browser) -> None:
    texts = "[0, 0.25, 0.5, 0.75, 1].map((tick) => s.format(tick, 'points', 0.25))"
    assert module(shown, texts) == ["0", "+0.25", "+0.5", "+0.75", "+1"]
    assert module(shown, "[0, 0.2, 0.4].map((tick) => s.format(tick, 'points', 0.2))") == ["0", "+0.2", "+0.4"]


def test_curves_are_told_in_words(shown: Browser) -> None:
    curves = "[{label: 'all', values: [0.5, null, 0.25]}, {label: 'b', values: [null]}]"
    panel = f"{{steps: [1, 2, 3], unit: 'share', curves: {curves}}}"
    words = "all: 50% at step 1, 25% at step 3; lowest 25%, highest 50%. b: no value."
    assert module(shown, f"s.inWords({panel})") == words


def test_smoothing_can_be_chosen(shown: Browser) -> None:
    assert "mean of 7 steps" in shown.run("document.querySelector('#smoothing').selectedOptions[0].textContent")
    text = f"{FIRST}.querySelector('.panel-value').textContent"
    smoothed = shown.run(text)
    put(shown, "#smoothing", "1", "change")
    assert shown.run(text) != smoothed
    put(shown, "#smoothing", "", "change")
    assert shown.run(text) == smoothed


def put(shown: Browser, where: str, value: str, event: str) -> None:
    """Sets a control as a reader does."""
    shown.run(
        f"((control) => {{ control.value = '{value}'; control.dispatchEvent(new Event('{event}')); }})"
        f"(document.querySelector('{where}'))"
    )


def mouse(shown: Browser, what: str, x: float, y: float, clicks: int = 1) -> None:
    shown.call("Input.dispatchMouseEvent", type=what, x=x, y=y, button="left", buttons=1, clickCount=clicks)


def test_a_drag_zooms_all_charts_and_a_double_click_shows_all(shown: Browser) -> None:
    shown.run(f"{FIRST}.scrollIntoView({{block: 'center'}})")
    box = shown.run(f"{FIRST}.querySelector('.u-over').getBoundingClientRect().toJSON()")
    y = box["y"] + 50
    ends = [box["x"] + part * box["width"] for part in (0.25, 0.75)]
    mouse(shown, "mouseMoved", ends[0], y)
    mouse(shown, "mousePressed", ends[0], y)
    mouse(shown, "mouseMoved", ends[1], y)
    mouse(shown, "mouseReleased", ends[1], y)
    shown.until("document.querySelector('#zoom-from').value === '16'")
    assert shown.run("document.querySelector('#zoom-to').value") == "45"
    # A drag chooses no step.
    assert shown.run(f"{FIRST}.querySelector('a')") is None
    for clicks in (1, 2):
        mouse(shown, "mousePressed", ends[0], y, clicks)
        mouse(shown, "mouseReleased", ends[0], y, clicks)
    shown.until(f"document.querySelector('#zoom-to').value === '{STEPS}'")
    assert shown.run("document.querySelector('#zoom-all').disabled")
    # The clicks chose a step, whose tasks are one more click away.
    assert shown.run(f"{FIRST}.querySelector('a').textContent").startswith("tasks of step ")


def test_steps_are_chosen_by_keys_as_well(shown: Browser) -> None:
    put(shown, "#zoom-from", "50", "change")
    shown.until("!document.querySelector('#zoom-all').disabled")
    shown.run("document.querySelector('#zoom-all').click()")
    assert shown.run("document.querySelector('#zoom-from').value") == "1"


def test_charts_are_found_by_name(shown: Browser) -> None:
    put(shown, "#find-chart", "entropy", "input")
    shown.until("!!document.querySelector('#panel-entropy canvas')")
    assert shown.run("document.querySelector('#found-charts').textContent") == "1 found"
    assert shown.run("document.querySelectorAll('details.question:not([hidden])').length") == 1
    put(shown, "#find-chart", "", "input")
    shown.until("document.querySelectorAll('details.question:not([hidden])').length > 5")
    # What the search opened is closed again.
    assert shown.run("document.querySelector('#panel-entropy').closest('details').open") is False


PANEL = (
    "(one, other) => ({key: 'made', section: 's', title: 't', unit: '', note: '', low: null, high: null,"
    " steps: one.map((_, i) => i + 1), curves: [{label: 'one', values: one}, {label: 'other', values: other}]})"
)


def redrawn(shown: Browser, before: str, after: str, *, press: str = "") -> str:
    """Returns the legend of a chart whose two curves change; before that a key may be pressed in it."""
    shown.run(
        "import('/static/charts.js').then(({ drawPanels }) => {"
        f" window.panel = {PANEL}; window.redraw = (...both) => drawPanels(made, [panel(...both)], {{}});"
        " window.made = document.createElement('div'); document.querySelector('main').append(made);"
        f" redraw({before}); made.querySelector('figure').focus(); }})"
    )
    if press:
        shown.press(press)
    legend = shown.run(f"redraw({after}); made.querySelector('.panel-legend').innerText")
    shown.run("made.remove()")
    return legend.replace("\n", " ")


def test_curves_part_and_meet_while_they_are_shown(shown: Browser) -> None:
    assert "the same as" in redrawn(shown, "[0, 1], [0, 2]", "[0, 1, 2], [0, 1, 2]")
    assert "the same as" not in redrawn(shown, "[0, 1], [0, 1]", "[0, 1, 2], [0, 1, 3]")


def test_a_chosen_step_that_was_given_up_is_chosen_no_more(shown: Browser) -> None:
    assert redrawn(shown, "[1, 2, 3], [0, 0, 0]", "[1, 2], [0, 0]", press="End").startswith("step 2")


def test_a_joined_band_goes_on_over_steps_without_a_value(shown: Browser) -> None:
    script = f"""
import('/static/charts.js').then(({{ drawPanels }}) => {{
  const real = uPlot;
  const made = document.createElement('div');
  document.querySelector('main').append(made);
  let series = null;
  window.uPlot = function (options, ...rest) {{ series = options.series; return new real(options, ...rest); }};
  const panel = ({PANEL})([1, null, 3], [0, 0, 0]);
  panel.joined = true;
  Object.assign(panel.curves[0], {{ low: [0, null, 2], high: [2, null, 4] }});
  drawPanels(made, [panel], {{}});
  window.uPlot = real;
  made.remove();
  return series.slice(1).map((each) => each.spanGaps);
}})
"""
    assert shown.run(script) == [True, True, True, True]
