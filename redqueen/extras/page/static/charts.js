// Draws panels: the records of the page's panels as JSON. It fetches nothing, so that a file without a server can use it
// too. It needs uPlot as a global, and the classes `panel...` of style.css.
//
// A panel: {key, section, title, unit, note, low, high, steps: [1, 2], curves: [{label, values: [0.5, null]}]}
// A curve can have a band: `low` and `high`, as long as `values`. `along` names what `steps` counts, if not steps.
// A curve with a `hue` has that colour, wherever it stands. `limits` are dotted lines across the panel.
// `plain` panels are never smoothed; `zero` ones have a line at 0, which is always in sight; the
// lines of `joined` ones go on over steps without a value.

import { h, svg } from "./dom.js";
import { covered, dash, format, hue, inWords, smooth, usualWindow } from "./series.js";
import { followView, viewOf, zoomTo } from "./chart_view.js";

const MARKED = 60; // up to so many steps each has a dot
const NAMED = 8; // up to so many curves all have their names below the chart
const HEIGHT = 210;
const STEPS = [1, 2, 5, 10, 20, 50, 100, 200, 500, 1000, 2000, 5000, 10000];

const drawn = new WeakMap(); // root -> {shape, charts}
const hueOf = (curves, i) => hue(curves[i].hue ?? i);
const dashOf = (curves, i) => dash(curves[i].hue ?? i);

/**
 * Draws panels into `root`. Drawn again with panels of the same shape, it only changes the data.
 * `linkOf(step)` gives the address of what is behind a step; it is offered when a reader chooses one, and Enter opens it.
 */
export function drawPanels(root, panels, { linkOf = null, go = null } = {}) {
  const shape = JSON.stringify(panels.map((panel) => [panel.key, panel.curves.map((curve) => curve.label)]));
  const before = drawn.get(root);
  if (before?.shape === shape && root.childElementCount) {
    before.charts.forEach((chart, i) => chart.update(panels[i]));
    return;
  }
  before?.charts.forEach((chart) => chart.destroy());
  const charts = panels.map((panel) => new Chart(panel, linkOf, go));
  root.replaceChildren(
    h(
      "div",
      { class: "panels" },
      charts.map((chart) => chart.frame),
    ),
  );
  // A chart measures its room, so it is drawn once its frame is in the document.
  for (const chart of charts) chart.draw();
  drawn.set(root, { shape, charts });
}

class Chart {
  constructor(panel, linkOf, go) {
    this.panel = panel;
    this.linkOf = linkOf;
    this.go = go;
    this.pinned = null; // the place of the step that a reader chose
    this.hidden = panel.curves.map(() => false);
    const title = `title-${panel.key}`;
    this.plot = h("div", { class: "panel-plot", "aria-hidden": "true" });
    this.legend = h("div", { class: "panel-legend" });
    this.words = h("p", { class: "unseen", id: `words-${panel.key}` });
    this.said = h("p", { class: "unseen", role: "status" });
    this.frame = h(
      "figure",
      {
        class: "panel",
        id: `panel-${panel.key}`,
        tabindex: "0",
        "aria-labelledby": title,
        "aria-describedby": `words-${panel.key}`,
        keydown: (event) => this.onKey(event),
      },
      h("figcaption", {}, h("h3", { id: title }, panel.title)),
      this.plot,
      this.legend,
      h("p", { class: "panel-note" }, panel.note),
      this.words,
      this.said,
    );
  }

  draw() {
    this.drawPlot();
    this.observer = new ResizeObserver(() => this.resize());
    this.observer.observe(this.plot);
    this.redraw = () => this.chart.redraw();
    document.addEventListener("themechange", this.redraw);
    this.unfollow = followView(({ smoothing }) => (smoothing ? this.again() : this.setData()));
  }

  drawPlot() {
    this.window = viewOf(this.panel).window;
    this.covered = covered(this.panel.curves);
    this.chart = new uPlot(this.options(), this.data(), this.plot);
    this.listen();
    this.drawLegend();
    this.count();
  }

  /** Draws it from the beginning: smoothing adds and takes away lines. */
  again() {
    this.chart.destroy();
    this.drawPlot();
  }

  update(panel) {
    this.panel = panel;
    // A run that was resumed from an older checkpoint has fewer steps than before.
    if (this.pinned >= panel.steps.length) this.pinned = null;
    // The width of a line, and the legend, say which curves are the same.
    const same = String(covered(panel.curves)) === String(this.covered);
    if (!same || viewOf(panel).window !== this.window) return this.again();
    this.setData();
    this.count();
  }

  setData() {
    // With `true` the range of the horizontal axis is asked for again, so this also follows the reader's zoom.
    this.chart.setData(this.data(), true);
    this.label();
  }

  destroy() {
    this.observer.disconnect();
    this.unfollow();
    document.removeEventListener("themechange", this.redraw);
    this.chart.destroy();
  }

  /** Lines as they were measured (pale, only where the others are smoothed), ends of bands, and the lines themselves. */
  data() {
    const { steps, curves } = this.panel;
    const raw = this.window > 1 ? curves.map((curve) => curve.values) : [];
    const bands = this.banded().flatMap((curve) => [this.smoothed(curve, "low"), this.smoothed(curve, "high")]);
    const lines = curves.map((curve) => this.smoothed(curve, "values"));
    return [steps, ...raw, ...bands, ...lines];
  }

  smoothed(curve, part) {
    // A short run beside a long one is smoothed as if it were alone.
    const known = curve.values.filter((value) => value !== null).length;
    return smooth(curve[part], viewOf(this.panel).usual ? Math.min(this.window, usualWindow(known)) : this.window);
  }

  banded() {
    return this.panel.curves.filter((curve) => curve.low);
  }

  /** The places of a curve's lines among uPlot's series. */
  seriesOf(i) {
    const { curves } = this.panel;
    const raws = this.window > 1 ? curves.length : 0;
    const band = this.banded().indexOf(curves[i]);
    const low = 1 + raws + 2 * band;
    const main = 1 + raws + 2 * this.banded().length + i;
    return { main, all: [...(raws ? [1 + i] : []), ...(band < 0 ? [] : [low, low + 1]), main] };
  }

  /** Says in the markup how many points the curves have, for tests and for readers of the source. */
  count() {
    const values = this.panel.curves.flatMap((curve) => curve.values);
    const points = values.filter((value) => value !== null).length;
    this.frame.dataset.points = points;
    this.frame.classList.toggle("panel-empty", !points);
    this.words.textContent = `${inWords(this.panel)} Left and right arrows move through the steps.`;
  }

  options() {
    const { low, high, zero, unit, along = "step" } = this.panel;
    const axis = {
      stroke: () => colour("--ink-soft", "#555"),
      grid: { stroke: () => colour("--line", "#ddd"), width: 1 },
      ticks: { show: false },
      font: "12px system-ui, sans-serif",
      labelFont: "12px system-ui, sans-serif",
      labelGap: 0,
    };
    return {
      width: this.plot.clientWidth,
      height: HEIGHT,
      padding: [8, 16, 0, 0],
      legend: { show: false },
      cursor: {
        sync: { key: along },
        drag: { x: true, y: false, setScale: false, dist: 6 },
        // Only the lines themselves have a dot that follows the cursor.
        points: { size: (chart, i) => (i >= chart.series.length - this.panel.curves.length ? 7 : 0) },
        y: false,
        bind: { dblclick: () => () => zoomTo(null) },
      },
      scales: {
        x: { time: false, range: () => viewOf(this.panel).range ?? xRange(this.panel.steps) },
        y: { range: (_, from, to) => (zero ? yRange(Math.min(from, 0), Math.max(to, 0)) : yRange(from, to, low, high)) },
      },
      axes: [
        { ...axis, incrs: STEPS, size: 24, label: along, labelSize: 16, values: (_, ticks) => ticks },
        {
          ...axis,
          size: 46,
          label: unit,
          labelSize: unit ? 16 : 0,
          values: (_, ticks) => ticks.map((tick) => format(tick, unit, ticks[1] - ticks[0])),
        },
      ],
      series: this.series(),
      bands: this.banded().map((curve) => {
        const i = this.panel.curves.indexOf(curve);
        const [low, high] = this.seriesOf(i).all.slice(-3);
        return { series: [high, low], fill: `${hueOf(this.panel.curves, i)}26` };
      }),
      hooks: {
        setCursor: [() => this.label()],
        setSelect: [(chart) => this.onSelect(chart)],
        drawAxes: [(chart) => zero && this.drawZero(chart), (chart) => this.drawLimits(chart)],
        draw: [(chart) => this.drawPin(chart)],
      },
    };
  }

  series() {
    const { curves, steps } = this.panel;
    const points = { show: false };
    const raw = curves.map((_, i) => ({ stroke: `${hueOf(curves, i)}5a`, width: 1, show: !this.hidden[i], points }));
    // The ends of a band are curves without a line.
    const ends = this.banded().flatMap((curve) => {
      const end = { width: 0, show: !this.hidden[curves.indexOf(curve)], spanGaps: this.panel.joined === true, points };
      return [end, { ...end }];
    });
    const marked = steps.length <= MARKED && this.window <= 1;
    const main = curves.map((curve, i) => {
      // A line that others cover is so wide that it is seen on both sides of them.
      const above = this.covered.filter((below) => below === i).length;
      return {
        label: curve.label,
        show: !this.hidden[i],
        stroke: hueOf(curves, i),
        width: 2 + 4 * above,
        dash: dashOf(curves, i),
        spanGaps: this.panel.joined === true,
        points: { show: marked, size: 5 + 4 * above, fill: hueOf(curves, i), stroke: hueOf(curves, i) },
      };
    });
    return [{}, ...(this.window > 1 ? raw : []), ...ends, ...main];
  }

  drawLegend() {
    const { curves } = this.panel;
    this.values = curves.map(() => h("span", { class: "panel-value" }));
    const entries = curves.map((curve, i) => {
      const same = this.covered[i] === null ? null : h("span", { class: "soft" }, `(the same as ${curves[this.covered[i]].label})`);
      const entry = h(
        "button",
        { class: "panel-entry", type: "button", title: "show or hide this curve", "aria-pressed": String(!this.hidden[i]) },
        [swatch(curves, i), h("span", {}, curve.label), same, this.values[i]],
      );
      entry.addEventListener("click", () => {
        this.hidden[i] = !this.hidden[i];
        entry.setAttribute("aria-pressed", String(!this.hidden[i]));
        for (const place of this.seriesOf(i).all) this.chart.setSeries(place, { show: !this.hidden[i] });
      });
      return entry;
    });
    this.at = h("span", { class: "panel-at" });
    this.legend.replaceChildren(this.at, ...entries);
    this.label();
  }

  /** Shows the values at the cursor, else of the chosen step, else of the last one. */
  label() {
    if (!this.values) return;
    const { steps, curves, unit, along = "step" } = this.panel;
    const chosen = this.chart.cursor.idx ?? this.pinned;
    const index = chosen ?? steps.length - 1;
    const link = this.pinned !== null && this.linkOf?.(steps[this.pinned]);
    this.at.replaceChildren(
      steps.length ? `${along} ${steps[index]}` : "no step yet",
      link ? h("a", { href: link }, `tasks of step ${steps[this.pinned]}`) : "",
    );
    // Of many curves, such as all members that ever lived, only those that have a value there are named.
    const many = curves.length > NAMED;
    curves.forEach((curve, i) => {
      // Where no step is chosen, a curve that ended before shows its last value.
      const last = curve.values.findLastIndex((value) => value !== null);
      const place = chosen === null && !many && last >= 0 ? last : index;
      const at = (part) => this.smoothed(curve, part)[place] ?? null;
      const value = at("values");
      const low = curve.low ? at("low") : null;
      const ends = low === null ? "" : ` [${format(low, unit)}, ${format(at("high"), unit)}]`;
      const where = place === index ? "" : ` (${along} ${steps[place]})`;
      this.values[i].textContent = format(value, unit) + ends + where;
      this.values[i].parentElement.hidden = many && value === null;
    });
  }

  onKey(event) {
    const { steps } = this.panel;
    if (event.target !== this.frame || !steps.length) return;
    const now = this.pinned ?? steps.length - 1;
    if (event.key === "Enter") return this.linkOf && this.go?.(this.linkOf(steps[now]));
    const next = { ArrowLeft: now - 1, ArrowRight: now + 1, Home: 0, End: steps.length - 1 }[event.key];
    if (next === undefined) return;
    event.preventDefault();
    this.pin(Math.min(Math.max(next, 0), steps.length - 1));
    this.said.textContent = this.legend.innerText;
  }

  /** Chooses the step that is clicked; the end of a drag is a click, too, and chooses nothing. */
  listen() {
    let pressed = 0;
    this.chart.over.addEventListener("mousedown", (event) => (pressed = event.clientX));
    this.chart.over.addEventListener("click", (event) => {
      const { idx } = this.chart.cursor;
      if (Math.abs(event.clientX - pressed) < 6 && idx !== null) this.pin(idx);
    });
  }

  pin(index) {
    this.pinned = index;
    this.label();
    this.chart.redraw(false);
  }

  drawPin({ ctx, bbox, valToPos }) {
    const step = this.panel.steps[this.pinned];
    if (step === undefined) return;
    const x = Math.round(valToPos(step, "x", true));
    if (x < bbox.left || x > bbox.left + bbox.width) return;
    ctx.fillStyle = colour("--ink-soft", "#555");
    ctx.fillRect(x, bbox.top, devicePixelRatio, bbox.height);
  }

  drawZero({ ctx, bbox, valToPos }) {
    ctx.fillStyle = colour("--ink-soft", "#555");
    ctx.fillRect(bbox.left, Math.round(valToPos(0, "y", true)), bbox.width, 1.5 * devicePixelRatio);
  }

  drawLimits({ ctx, bbox, valToPos }) {
    ctx.fillStyle = colour("--ink-soft", "#555");
    const dot = 2 * devicePixelRatio;
    for (const limit of this.panel.limits ?? []) {
      const y = Math.round(valToPos(limit, "y", true));
      for (let x = bbox.left; x < bbox.left + bbox.width; x += 4 * dot) ctx.fillRect(x, y, dot, dot / 2);
    }
  }

  onSelect(chart) {
    const { left, width } = chart.select;
    if (width < 1) return;
    const [from, to] = [left, left + width].map((place) => Math.round(chart.posToVal(place, "x")));
    chart.setSelect({ left: 0, top: 0, width: 0, height: 0 }, false);
    if (to > from && (this.panel.along ?? "step") === "step") zoomTo([from, to]);
  }

  resize() {
    const width = this.plot.clientWidth;
    if (width && width !== this.chart.width) this.chart.setSize({ width, height: HEIGHT });
  }
}

// One step is a point near the end of an axis that begins at the start. uPlot itself would go on to twice that step.
function xRange(steps) {
  const [from, to] = [steps[0] ?? 0, steps.at(-1) ?? 1];
  return from === to ? [0, 1.1 * to || 1] : [from, to];
}

// Limits that a panel gives are kept; the others follow the data. A curve that never moves gets room around it.
function yRange(from, to, low = null, high = null) {
  let bottom = low ?? from ?? 0;
  let top = high ?? to ?? 1;
  if (top <= bottom) {
    const room = Math.abs(bottom) * 0.2 || 1;
    if (low === null && bottom) bottom -= room / 2;
    top = bottom + room;
  }
  const margin = (top - bottom) * 0.05;
  return [bottom - margin, top + margin];
}

function swatch(curves, i) {
  const look = { stroke: hueOf(curves, i), "stroke-width": 2.5, "stroke-dasharray": dashOf(curves, i).join(" ") };
  const line = { x1: 0, x2: 26, y1: 4, y2: 4, ...look };
  return svg("svg", { width: 26, height: 8, "aria-hidden": "true" }, svg("line", line));
}

function colour(name, otherwise) {
  return getComputedStyle(document.documentElement).getPropertyValue(name).trim() || otherwise;
}
