"""The page in a real browser: it draws, filters, opens and follows, and runs nothing that a model wrote."""

from __future__ import annotations

import json
import shutil
from collections.abc import Iterator
from datetime import UTC, datetime
from pathlib import Path

import pytest

from tests.extras.page.browser import PROGRAM, Browser, browser
from tests.extras.page.served import served

pytestmark = [
    pytest.mark.integration,
    pytest.mark.skipif(PROGRAM is None, reason="there is no chromium (apt-get install chromium)"),
]


@pytest.fixture(scope="module")
def web(watched: Path) -> Iterator[str]:
    with served(watched) as address:
        yield address


@pytest.fixture(scope="module")
def chromium(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Browser]:
    with browser(tmp_path_factory.mktemp("chromium")) as started:
        started.size(1280)
        yield started


@pytest.fixture(autouse=True)
def quiet(chromium: Browser, web: str) -> Iterator[None]:
    """In every test: no error in the console, and no request but to the page's own server."""
    chromium.complaints.clear()
    chromium.requests.clear()
    yield
    assert chromium.complaints == []
    assert [address for address in chromium.requests if not address.startswith("http://127.0.0.1:")] == []


def test_the_curves_have_points_that_are_drawn(chromium: Browser, web: str) -> None:
    chromium.goto(f"{web}/?run=first")
    assert chromium.run("document.querySelectorAll('.panel').length") == 3
    chromium.run("document.querySelectorAll('details.question').forEach((part) => { part.open = true; })")
    chromium.until("document.querySelectorAll('.panel canvas').length > 40")
    points = chromium.run("[...document.querySelectorAll('.panel')].map(p => Number(p.dataset.points))")
    assert min(points) > 0
    coloured = chromium.run(
        "[...document.querySelectorAll('.panel canvas')].map(c => c.getContext('2d')"
        ".getImageData(0, 0, c.width, c.height).data.some((v, i, all) => i % 4 === 0 && all[i + 3] > 200"
        " && Math.max(v, all[i + 1], all[i + 2]) - Math.min(v, all[i + 1], all[i + 2]) > 60))"
    )
    assert coloured == [True] * len(points)


def test_a_step_of_a_chart_leads_to_its_tasks_and_back_leads_back(chromium: Browser, web: str) -> None:
    chromium.goto(f"{web}/?run=first")
    chromium.run("document.querySelector('.panel').focus()")
    chromium.press("ArrowLeft")
    said = chromium.run("document.activeElement.querySelector('[role=status]').textContent")
    assert said.startswith("step 2")
    chromium.press("Enter")
    chromium.until("location.pathname === '/tasks'")
    chromium.drawn()
    assert chromium.run("location.search") == "?run=first&from=2&to=2"
    assert set(chromium.run("[...document.querySelectorAll('.rows .what')].map(r => r.children[1].textContent)")) == {
        "step 2"
    }
    chromium.run("history.back()")
    chromium.until("location.pathname === '/'")
    chromium.drawn()
    assert chromium.run("document.querySelectorAll('.panel canvas').length") == 3


def test_filters_filter_by_keyboard_and_the_address_can_be_shared(chromium: Browser, web: str) -> None:
    chromium.goto(f"{web}/tasks?run=first")
    everything = chromium.run("document.querySelector('.count').textContent")
    chromium.press("/")
    assert chromium.run("document.activeElement.id") == "filter-text"
    chromium.run(
        "(() => { const s = document.getElementById('filter-status'); s.value = 'refused';"
        " s.dispatchEvent(new Event('change', {bubbles: true})); })()"
    )
    chromium.until(f"document.querySelector('.count').textContent !== {json.dumps(everything)}")
    assert set(chromium.run("[...document.querySelectorAll('.rows .bad')].map(r => r.textContent)")) == {"malformed"}
    shared = chromium.run("location.href")
    assert "status=refused" in shared
    refused = chromium.run("document.querySelector('.count').textContent")
    chromium.goto(shared)
    assert chromium.run("document.querySelector('.count').textContent") == refused
    assert chromium.run("document.getElementById('filter-status').value") == "refused"


def test_j_and_enter_open_a_task_and_its_script_does_not_run(chromium: Browser, web: str) -> None:
    chromium.goto(f"{web}/tasks?run=first&sort=step")
    chromium.press("j")
    chromium.press("j")
    chromium.press("k")
    assert chromium.run("document.activeElement === document.querySelector('[data-row]')")
    chromium.press("Enter")
    chromium.until("location.pathname === '/task'")
    chromium.drawn()
    program = chromium.run("document.querySelector('.program').textContent")
    assert "<script>window.pwned = 1</script><img src=x" in program
    assert chromium.run("document.querySelector('main script, main img')") is None
    assert chromium.run("typeof window.pwned") == "undefined"
    assert chromium.run("document.querySelectorAll('.attempt').length") == 4
    assert "<script>" in chromium.run("document.querySelector('.attempt pre').textContent")
    assert chromium.run("document.querySelector('.why').textContent")
    assert "cyclomatic complexity" in chromium.run("document.querySelector('main').textContent")


@pytest.mark.slow
def test_every_view_is_drawn_at_every_width_and_in_both_themes(chromium: Browser, web: str) -> None:
    views = ["/runs", "/?run=first", "/league?run=first", "/matrix?run=first&all=1", "/matrix?run=first&show=games"]
    views += ["/tree?run=first", "/tasks?run=first", "/member?run=first&name=T0", "/"]
    views += ["/evaluation?run=first", "/evaluation?run=second", "/operators?run=first", "/machine?run=first"]
    views += ["/settings?run=first", "/compare?with=first&with=second", "/tasks?run=first&text=def"]
    for width, dark in ((400, True), (1280, False)):
        chromium.size(width, dark=dark)
        for view in views:
            chromium.goto(web + view)
            assert chromium.run("document.querySelector('main .error')") is None, view
            assert chromium.run("document.querySelector('main').textContent.length") > 40, view
            # The page itself never scrolls to the side; tables do so by themselves.
            assert chromium.run("document.documentElement.scrollWidth") <= width, (view, width)
    paper = chromium.run("getComputedStyle(document.body).backgroundColor")
    for _ in range(2):
        chromium.run("document.getElementById('theme').click()")
    assert chromium.run("document.getElementById('theme').textContent") == "colours: dark"
    assert chromium.run("getComputedStyle(document.body).backgroundColor") != paper
    chromium.run("document.getElementById('theme').click()")


@pytest.mark.slow
def test_the_page_follows_a_run(chromium: Browser, watched: Path, tmp_path: Path) -> None:
    run = Path(shutil.copytree(watched / "first", tmp_path / "run"))
    metrics = run / "metrics.jsonl"
    lines = metrics.read_text().splitlines(keepends=True)
    archive = run / "run.sqlite"
    stored = archive.read_bytes()
    # A run that has just begun has neither lines nor an archive.
    metrics.write_text("")
    archive.unlink()
    with served(run) as address:
        chromium.goto(address)
        assert "No step has been played yet" in chromium.run("document.querySelector('main').textContent")
        chromium.goto(f"{address}/league")
        assert "has no archive" in chromium.run("document.querySelector('main').textContent")
        archive.write_bytes(stored)
        metrics.write_text("".join(lines[:2]))
        chromium.until("document.querySelectorAll('table').length === 2")
        # The browser notes the answer that was an error.
        chromium.complaints.clear()
        chromium.goto(address)
        assert "step 2 of 3" in chromium.run("document.getElementById('course').textContent")
        points = chromium.run("Number(document.querySelector('.panel').dataset.points)")
        metrics.write_text("".join(lines))
        chromium.until("document.getElementById('course').textContent.includes('step 3 of 3')")
        chromium.until(f"Number(document.querySelector('.panel').dataset.points) > {points}")
        # Before the server ends, so that the page does not ask in vain.
        chromium.call("Page.navigate", url="about:blank")


HELD = """
window.held = [];
window.failing = false;
window.answered = window.fetch;
window.fetch = (address) => {
  if (!address.startsWith(%s)) return answered(address);
  if (failing) return Promise.reject(new Error("busy"));
  return new Promise((done) => held.push(() => done(answered(address))));
};
"""
"""Holds back the answers to some requests until they are let go, or fails them: a busy machine."""
POLL = "document.dispatchEvent(new Event('visibilitychange'))"
WAIT = "new Promise((done) => setTimeout(done, 300))"
LATER = "{ const now = Date.now; Date.now = () => now.call(Date) + 20000; }"


def hold(chromium: Browser, address: str) -> None:
    chromium.run(HELD % json.dumps(address))


@pytest.mark.slow
def test_one_update_is_under_way_and_one_that_failed_is_tried_again(
    chromium: Browser, watched: Path, tmp_path: Path
) -> None:
    run = Path(shutil.copytree(watched / "first", tmp_path / "run"))
    metrics = run / "metrics.jsonl"
    lines = metrics.read_text().splitlines(keepends=True)
    metrics.write_text("".join(lines[:1]))
    with served(run) as address:
        chromium.goto(address)
        hold(chromium, "/api/overview")
        metrics.write_text("".join(lines[:2]))
        chromium.until("held.length === 1")
        for _ in range(3):
            chromium.run(POLL)
        chromium.run(WAIT)
        assert chromium.run("held.length") == 1
        chromium.run("failing = true; held[0]()")
        chromium.until("document.getElementById('course').textContent.includes('step 2 of 3')")
        metrics.write_text("".join(lines))
        chromium.until("document.getElementById('notice').textContent.endsWith('(busy). Trying again.')")
        chromium.run("window.fetch = answered")
        chromium.until("document.getElementById('course').textContent.includes('step 3 of 3')")
        assert chromium.run("document.getElementById('notice').hidden")
        chromium.call("Page.navigate", url="about:blank")


def test_a_view_that_comes_late_leaves_the_next_one_alone(chromium: Browser, web: str) -> None:
    chromium.goto(f"{web}/tasks?run=first")
    hold(chromium, "/api/overview")
    chromium.run("document.querySelector('nav a[href=\"/?run=first\"]').click()")
    chromium.until("held.length === 1")
    chromium.run("document.querySelector('nav a[href=\"/runs\"]').click()")
    chromium.drawn()
    chromium.run("held[0]()")
    chromium.run(WAIT)
    chromium.run(POLL)
    chromium.run(WAIT)
    assert chromium.run("document.querySelector('main').dataset.view") == "/runs"
    assert chromium.run("document.getElementById('notice').hidden")
    assert chromium.run("document.querySelectorAll('.runs tbody tr').length") == 2


@pytest.mark.slow
def test_what_could_not_be_shown_is_tried_again(chromium: Browser, web: str) -> None:
    chromium.goto(f"{web}/tasks?run=first")
    hold(chromium, "/api/state")
    chromium.run("failing = true; document.querySelector('nav a[href=\"/league?run=first\"]').click()")
    chromium.until("!!document.querySelector('main .error')")
    chromium.run(f"window.fetch = answered; {LATER}")
    chromium.until("document.querySelectorAll('main table').length === 2")


@pytest.mark.slow
def test_ages_grow_while_nothing_new_is_written(chromium: Browser, watched: Path, tmp_path: Path) -> None:
    run = Path(shutil.copytree(watched / "first", tmp_path / "run"))
    lines = [json.loads(line) for line in (run / "metrics.jsonl").read_text().splitlines()]
    lines[-1]["time"] = datetime.now(UTC).strftime("%Y-%m-%dT%H:%M:%SZ")
    (run / "metrics.jsonl").write_text("".join(f"{json.dumps(line)}\n" for line in lines))
    places = "['#facts', '.overview .answers'].map((place) => document.querySelector(place).textContent).join()"
    with served(run) as address:
        chromium.goto(address)
        shown = chromium.run(places)
        assert shown.count(" s ago") == 2
        chromium.run("document.querySelector('nav a').focus()")
        chromium.run(LATER)
        ages = "text.match(/[0-9]+ s ago/g)"
        before = chromium.run(f"((text) => {ages})({json.dumps(shown)})")
        chromium.until(f"((text) => {ages}.every((age) => !{json.dumps(before)}.includes(age)))({places})")
        assert chromium.run("document.activeElement === document.querySelector('nav a')")
        chromium.call("Page.navigate", url="about:blank")


@pytest.mark.slow
def test_lists_of_runs_follow_and_keep_what_is_chosen(chromium: Browser, watched: Path, tmp_path: Path) -> None:
    folder = Path(shutil.copytree(watched, tmp_path / "runs"))
    ticked = "[...document.querySelectorAll('input[name=with]:checked')].map((box) => box.value).sort()"
    with served(folder) as address:
        chromium.goto(f"{address}/runs")
        chromium.run("document.querySelector('input[value=first]').click()")
        chromium.run("document.querySelector('input[value=first]').focus()")
        shutil.copytree(folder / "second", folder / "third")
        chromium.run(LATER)
        chromium.until("document.querySelectorAll('tbody tr').length === 3")
        assert chromium.run(ticked) == ["first"]
        assert chromium.run("document.activeElement.value") == "first"
        chromium.goto(f"{address}/compare?with=first&with=second")
        chromium.run("document.querySelector('.chooser details').open = true")
        chromium.run("document.querySelector('input[value=third]').click()")
        chromium.run("document.activeElement.blur()")
        shutil.copytree(folder / "second", folder / "fourth")
        chromium.run(LATER)
        chromium.until("document.querySelectorAll('input[name=with]').length === 4")
        assert chromium.run(ticked) == ["first", "second", "third"]
        assert chromium.run("document.querySelector('.chooser details').open")
        chromium.call("Page.navigate", url="about:blank")


def typed(chromium: Browser, field: str, text: str) -> None:
    chromium.run(f"document.getElementById('filter-{field}').focus()")
    chromium.call("Input.insertText", text=text)


def test_filters_keep_the_focus_and_are_those_of_the_address(chromium: Browser, web: str) -> None:
    chromium.goto(f"{web}/runs")
    chromium.run("document.querySelector('tbody a').click()")
    chromium.drawn()
    chromium.run("document.querySelector('nav a[href^=\"/tasks\"]').click()")
    chromium.drawn()
    typed(chromium, "from", "2")
    # What leaves a field applies it, and the reader goes on in the next one while the list is read.
    typed(chromium, "to", "3")
    chromium.until("location.search.includes('from=2')")
    chromium.drawn()
    chromium.run(WAIT)
    assert chromium.run("document.activeElement.id") == "filter-to"
    assert chromium.run("document.getElementById('filter-to').value") == "3"
    chromium.run("history.back()")
    chromium.until("!location.search.includes('from=2')")
    chromium.drawn()
    assert chromium.run("document.getElementById('filter-from').value") == ""
    chromium.run("history.forward()")
    chromium.until("document.getElementById('filter-from').value === '2'")
    reset = "[...document.querySelectorAll('form a')].find((link) => link.textContent === 'reset')"
    chromium.run(f"{reset}.focus(); {reset}.click()")
    chromium.until("document.getElementById('filter-from').value === ''")
    chromium.drawn()
    assert "from" not in chromium.run("location.search")


def test_enter_in_a_filter_is_one_step_of_the_history(chromium: Browser, web: str) -> None:
    chromium.goto(f"{web}/tasks?run=first")
    typed(chromium, "text", "def")
    chromium.press("Enter")
    chromium.until("location.search.includes('text=def')")
    chromium.drawn()
    chromium.run("history.back()")
    chromium.run(WAIT)
    assert chromium.run("location.search") == "?run=first"


def test_a_choice_of_the_matrix_keeps_the_focus(chromium: Browser, web: str) -> None:
    chromium.goto(f"{web}/matrix?run=first")
    chromium.run(
        "(() => { const s = document.getElementById('matrix-show'); s.focus(); s.value = 'games';"
        " s.dispatchEvent(new Event('change', {bubbles: true})); })()"
    )
    chromium.until("location.search.includes('show=games')")
    chromium.drawn()
    assert chromium.run("document.activeElement.id") == "matrix-show"


def test_the_matrix_reads_each_cell_a_few_times_only(chromium: Browser, web: str) -> None:
    chromium.goto(f"{web}/matrix?run=first")
    script = """
import('/static/views/matrix.js').then(({ matrix }) => {
  let read = 0;
  const members = (letter) => Array.from({ length: 60 }, (_, i) => ({ name: letter + i, lives: true }));
  const [teachers, students] = [members('T'), members('S')];
  const pairs = teachers.flatMap((t) => students.map((s) => [t.name, s.name]));
  const each = ([teacher, student]) => ({ get teacher() { read += 1; return teacher; }, student });
  const cells = pairs.map((pair) => Object.assign(each(pair), { kind: 'code_o', rho: 0.5, tasks: 8 }));
  const games = pairs.map((pair) => Object.assign(each(pair), { outcomes: { student: 1 } }));
  const root = document.createElement('div');
  return ['', 'games'].map((show) => {
    read = 0;
    const page = { query: new URLSearchParams({ show }), link: () => '/', go: () => null, memberLink: (name) => name };
    matrix.render(root, { teachers, students, cells, games }, page);
    return [root.querySelectorAll('td.cell').length, read <= 2 * pairs.length];
  });
})
"""
    assert chromium.run(script) == [[3600, True], [3600, True]]


def test_runs_are_found_sorted_and_chosen_up_to_six(chromium: Browser, watched: Path, tmp_path: Path) -> None:
    folder = tmp_path / "runs"
    for number in range(8):
        shutil.copytree(watched / "first", folder / f"run-{number}")
    # The last one ended last.
    for number in range(7):
        lines = (folder / f"run-{number}" / "metrics.jsonl").read_text().splitlines()
        old = [json.dumps({**json.loads(line), "time": f"2020-01-0{number + 1}T00:00:00Z"}) for line in lines]
        (folder / f"run-{number}" / "metrics.jsonl").write_text("\n".join(old) + "\n")
    names = "[...document.querySelectorAll('tbody a')].map((link) => link.textContent)"
    with served(folder) as address:
        chromium.goto(f"{address}/runs")
        newest = [f"run-{number}" for number in range(7, -1, -1)]
        assert chromium.run(names) == newest
        # A page that has just been opened is read from its top: the first Tab finds the link to the content.
        assert chromium.run("document.activeElement === document.body")
        chromium.run("document.querySelector('button.sort').click()")
        assert chromium.run(names) == newest[::-1]
        for number in range(6):
            chromium.run(f"document.querySelector('input[value=run-{number}]').click()")
        disabled = "[...document.querySelectorAll('input[name=with]:disabled')].map((box) => box.value)"
        assert chromium.run(disabled) == ["run-6", "run-7"]
        chromium.run("document.querySelector('#filter-runs').value = 'run-5'")
        chromium.run("document.querySelector('#filter-runs').dispatchEvent(new Event('input'))")
        assert chromium.run(names) == ["run-5"]
        # What was chosen before stays chosen.
        assert chromium.run("document.querySelector('input[value=run-5]').checked")
        chromium.run("document.querySelector('input[value=run-5]').click()")
        chromium.run("document.querySelector('#filter-runs').value = 'run-6'")
        chromium.run("document.querySelector('#filter-runs').dispatchEvent(new Event('input'))")
        chromium.run("document.querySelector('input[value=run-6]').click()")
        # Also what the filter leaves out is compared.
        chromium.run("document.querySelector('.runs form button:not(.sort)').click()")
        chromium.until("location.pathname === '/compare'")
        chosen = chromium.run("new URLSearchParams(location.search).getAll('with')")
        assert chosen == ["run-0", "run-1", "run-2", "run-3", "run-4", "run-6"]
        chromium.call("Page.navigate", url="about:blank")


def test_a_pair_has_the_colour_of_its_own_rate_if_it_has_enough_tasks(chromium: Browser, web: str) -> None:
    chromium.goto(f"{web}/matrix?run=first&all=1")
    cells = chromium.run(
        "[...document.querySelectorAll('.matrix td.cell')].map((cell) =>"
        " ({ level: cell.className, words: cell.innerText.match(/\\d+/g).map(Number) }))"
    )
    assert cells
    for cell in cells:
        rate, tasks = cell["words"]
        level = f"cell heat-{min(4, rate // 20)}" if tasks >= 8 else "cell"
        assert cell["level"] == level, cell


def test_the_next_command_can_be_copied(chromium: Browser, web: str, watched: Path) -> None:
    chromium.goto(f"{web}/?run=first")
    shown = chromium.run("[...document.querySelectorAll('.next .command code')].map((code) => code.textContent)")
    assert shown[0] == f"redqueen eval {watched / 'first'} base"
    assert chromium.run("document.querySelectorAll('.next .copy').length") == len(shown) == 3


def test_where_no_problem_tells_students_from_the_start_no_interval_is_drawn(
    chromium: Browser, watched: Path, tmp_path: Path
) -> None:
    run = Path(shutil.copytree(watched / "second", tmp_path / "run"))
    *before, last = (run / "metrics.jsonl").read_text().splitlines(keepends=True)
    line = json.loads(last)
    score = {"rate": 0.25, "gain": 0.0, "low": None, "high": None}
    line["held_out"] = {"problems": 8, "start": 0.25, "students": dict.fromkeys(line["members"], score)}
    (run / "metrics.jsonl").write_text("".join([*before, json.dumps(line) + "\n"]))
    with served(run) as address:
        chromium.goto(f"{address}/evaluation")
        shown = chromium.run("document.querySelector('main').textContent")
        assert "none: no problem changed" in shown
        assert "– to –" not in shown
        chromium.call("Page.navigate", url="about:blank")


def test_what_is_not_there_is_said(chromium: Browser, web: str) -> None:
    chromium.goto(f"{web}/task?run=first&id=nope")
    assert "no task 'nope'" in chromium.run("document.querySelector('main').textContent")
    # The browser itself notes every answer that is no success.
    assert all("404" in text for text in chromium.complaints)
    chromium.complaints.clear()
