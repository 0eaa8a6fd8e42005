// Draws panels: the records of redqueen/analysis/panels as JSON. It fetches nothing and imports nothing, so that a
// file without a server can use it too. It needs uPlot as a global, and the classes `panel...` of style.css.
//
// A panel: {key, section, title, unit, note, low, high, steps: [1, 2], curves: [{label, values: [0.5, null]}]}
// A curve can have a band: `low` and `high`, as long as `values`. `along` names what `steps` counts, if not steps.

// Okabe and Ito's palette, as in redqueen/analysis/hues.py. Beyond it, and for readers who see no colours, dashes differ.
export const HUES = ["#0072B2", "#D55E00", "#009E73", "#CC79A7", "#E69F00", "#56B4E9"];
const DASHES = [[], [6, 3], [2, 2], [10, 3, 2, 3]];
const MARKED = 60; // up to so many steps each has a dot
const NAMED = 8; // up to so many curves all have their names below the chart
const HEIGHT = 190;
const STEPS = [1, 2, 5, 10, 20, 50, 100, 200, 500, 1000, 2000, 5000, 10000];

const drawn = new WeakMap(); // root -> {shape, charts}

/**
 * Draws all panels into `root`, by section. Drawn again with panels of the same shape, it only changes the data.
 * `onStep(step)` is called when a reader chooses a step, by a click or by Enter.
 */
export function drawPanels(root, panels, { onStep = null, headings = true } = {}) {
  const shape = JSON.stringify(panels.map((panel) => [panel.key, panel.curves.map((curve) => curve.label)]));
  const before = drawn.get(root);
  if (before?.shape === shape && root.childElementCount) {
    before.charts.forEach((chart, i) => chart.update(panels[i]));
    return;
  }
  before?.charts.forEach((chart) => chart.destroy());
  const charts = [];
  const sections = new Map();
  for (const panel of panels) {
    if (!sections.has(panel.section)) sections.set(panel.section, []);
    sections.get(panel.section).push(panel);
  }
  const parts = [...sections].map(([section, members]) => {
    const grid = make("div", "panels");
    const part = make("section", "panel-section");
    if (headings) part.append(make("h2", "", section[0].toUpperCase() + section.slice(1)));
    part.append(grid);
    for (const panel of members) charts.push(new Chart(grid, panel, onStep));
    return part;
  });
  root.replaceChildren(...parts);
  // A chart measures its room, so it is drawn once its frame is in the document.
  for (const chart of charts) chart.draw();
  // `charts` must be in the order of `panels`, by which they are updated.
  charts.sort((a, b) => panels.indexOf(a.panel) - panels.indexOf(b.panel));
  drawn.set(root, { shape, charts });
}

class Chart {
  constructor(grid, panel, onStep) {
    this.panel = panel;
    this.onStep = onStep;
    this.frame = make("figure", "panel");
    this.frame.id = `panel-${panel.key}`;
    this.frame.tabIndex = 0;
    this.frame.setAttribute("aria-label", `${panel.title}. Left and right move through the steps.`);
    this.caption = make("figcaption");
    const unit = make("span", "panel-unit", panel.unit);
    this.caption.append(make("h3", "", panel.title), unit);
    this.plot = make("div", "panel-plot");
    this.legend = make("div", "panel-legend");
    this.note = make("p", "panel-note", panel.note);
    this.frame.append(this.caption, this.plot, this.legend, this.note);
    this.frame.addEventListener("keydown", (event) => this.onKey(event));
    grid.append(this.frame);
  }

  draw() {
    this.hidden = this.panel.curves.map(() => false);
    this.chart = new uPlot(this.options(), this.data(), this.plot);
    this.chart.over.addEventListener("click", () => this.choose());
    this.drawLegend();
    this.observer = new ResizeObserver(() => this.resize());
    this.observer.observe(this.plot);
    this.redraw = () => this.chart.redraw();
    document.addEventListener("themechange", this.redraw);
    this.count();
  }

  update(panel) {
    this.panel = panel;
    this.chart.setData(this.data());
    this.count();
    this.label();
  }

  destroy() {
    this.observer.disconnect();
    document.removeEventListener("themechange", this.redraw);
    this.chart.destroy();
  }

  data() {
    const bands = this.banded().flatMap((curve) => [curve.low, curve.high]);
    return [this.panel.steps, ...this.panel.curves.map((curve) => curve.values), ...bands];
  }

  banded() {
    return this.panel.curves.filter((curve) => curve.low);
  }

  /** Says in the markup how many points the curves have, for tests and for readers of the source. */
  count() {
    const values = this.panel.curves.flatMap((curve) => curve.values);
    const points = values.filter((value) => value !== null).length;
    this.frame.dataset.points = points;
    this.frame.classList.toggle("panel-empty", !points);
  }

  options() {
    const marked = this.panel.steps.length <= MARKED;
    const { low, high, unit } = this.panel;
    const axis = {
      stroke: () => colour("--ink-soft", "#555"),
      grid: { stroke: () => colour("--line", "#ddd"), width: 1 },
      ticks: { show: false },
      font: "12px system-ui, sans-serif",
    };
    return {
      width: this.plot.clientWidth,
      height: HEIGHT,
      legend: { show: false },
      cursor: { sync: { key: this.panel.along ?? "step" }, drag: { x: false, y: false }, points: { size: 7 }, y: false },
      scales: {
        x: { time: false, range: (_, from, to) => xRange(from, to) },
        y: { range: (_, from, to) => yRange(from, to, low, high) },
      },
      axes: [
        { ...axis, incrs: STEPS, size: 28, values: (_, ticks) => ticks },
        { ...axis, size: 52, values: (_, ticks) => ticks.map((tick) => format(tick, unit, ticks[1] - ticks[0])) },
      ],
      series: [
        {},
        ...this.panel.curves.map((curve, i) => ({
          label: curve.label,
          stroke: hue(i),
          width: 2,
          dash: dash(i),
          points: { show: marked, size: 5, fill: hue(i), stroke: hue(i) },
        })),
        // The ends of a band are curves without a line.
        ...this.banded().flatMap((curve) =>
          [0, 1].map(() => ({ label: curve.label, width: 0, points: { show: false } })),
        ),
      ],
      bands: this.banded().map((curve, i) => {
        const low = this.panel.curves.length + 1 + 2 * i;
        return { series: [low + 1, low], fill: `${hue(this.panel.curves.indexOf(curve))}2e` };
      }),
      hooks: { setCursor: [() => this.label()] },
    };
  }

  drawLegend() {
    this.values = this.panel.curves.map(() => make("span", "panel-value"));
    const entries = this.panel.curves.map((curve, i) => {
      const entry = make("button", "panel-entry");
      entry.type = "button";
      entry.title = "show or hide this curve";
      entry.setAttribute("aria-pressed", "true");
      entry.append(swatch(i), make("span", "", curve.label), this.values[i]);
      entry.addEventListener("click", () => {
        this.hidden[i] = !this.hidden[i];
        entry.setAttribute("aria-pressed", String(!this.hidden[i]));
        this.chart.setSeries(i + 1, { show: !this.hidden[i] });
        const band = this.banded().indexOf(curve);
        const low = this.panel.curves.length + 1 + 2 * band;
        if (band >= 0) for (const end of [low, low + 1]) this.chart.setSeries(end, { show: !this.hidden[i] });
      });
      return entry;
    });
    this.at = make("span", "panel-at");
    this.legend.replaceChildren(this.at, ...entries);
    this.label();
  }

  /** Shows the values at the cursor, or of the last step where there is none. */
  label() {
    if (!this.values) return;
    const index = this.chart.cursor.idx ?? this.panel.steps.length - 1;
    this.at.textContent = this.panel.steps.length ? `${this.panel.along ?? "step"} ${this.panel.steps[index]}` : "no step yet";
    // Of many curves, such as all members that ever lived, only those that have a value there are named.
    const many = this.panel.curves.length > NAMED;
    this.panel.curves.forEach((curve, i) => {
      const value = curve.values[index] ?? null;
      this.values[i].textContent = format(value, this.panel.unit);
      this.values[i].parentElement.hidden = many && value === null;
    });
  }

  onKey(event) {
    const steps = this.panel.steps;
    if (event.target !== this.frame || !steps.length) return;
    const now = this.chart.cursor.idx ?? steps.length - 1;
    if (event.key === "Enter") return this.choose(now);
    const next = { ArrowLeft: now - 1, ArrowRight: now + 1, Home: 0, End: steps.length - 1 }[event.key];
    if (next === undefined) return;
    event.preventDefault();
    const index = Math.min(Math.max(next, 0), steps.length - 1);
    this.chart.setCursor({ left: this.chart.valToPos(steps[index], "x"), top: 10 });
  }

  choose(index = this.chart.cursor.idx) {
    if (this.onStep && index !== null && index !== undefined) this.onStep(this.panel.steps[index]);
  }

  resize() {
    const width = this.plot.clientWidth;
    if (width && width !== this.chart.width) this.chart.setSize({ width, height: HEIGHT });
  }
}

/** Formats a value of a panel; `step` is the distance of two ticks of an axis. */
export function format(value, unit, step = null) {
  if (value === null || value === undefined) return "–";
  if (unit === "share")
    return `${step === null ? (value * 100).toFixed(0) : trim((value * 100).toFixed(step < 0.1 ? 1 : 0))}%`;
  const size = Math.abs(value);
  if (size >= 1e6) return `${trim((value / 1e6).toFixed(2))}M`;
  if (size >= 1e4) return `${trim((value / 1e3).toFixed(1))}k`;
  if (step !== null) return trim(value.toFixed(step >= 1 ? 1 : step >= 0.1 ? 2 : step >= 0.01 ? 3 : 5));
  return Number.isInteger(value)
    ? String(value)
    : size >= 100
      ? value.toFixed(0)
      : size >= 0.1
        ? value.toFixed(2)
        : value.toPrecision(2);
}

function trim(text) {
  return text.includes(".") ? text.replace(/\.?0+$/, "") : text;
}

// One step is a point in the middle of its axis.
function xRange(from, to) {
  return from === to || from === null ? [(from ?? 1) - 1, (to ?? 1) + 1] : [from, to];
}

// Limits that a panel gives are kept; the others follow the data. A curve that never moves gets room around it.
function yRange(from, to, low, high) {
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

function hue(i) {
  return HUES[i % HUES.length];
}

function dash(i) {
  return DASHES[Math.floor(i / HUES.length + (i % HUES.length)) % DASHES.length];
}

function swatch(i) {
  const box = document.createElementNS("http://www.w3.org/2000/svg", "svg");
  box.setAttribute("width", "26");
  box.setAttribute("height", "8");
  box.setAttribute("aria-hidden", "true");
  const line = document.createElementNS("http://www.w3.org/2000/svg", "line");
  const attributes = {
    x1: 0,
    x2: 26,
    y1: 4,
    y2: 4,
    stroke: hue(i),
    "stroke-width": 2.5,
    "stroke-dasharray": dash(i).join(" "),
  };
  for (const [name, value] of Object.entries(attributes)) line.setAttribute(name, value);
  box.append(line);
  return box;
}

function colour(name, otherwise) {
  return getComputedStyle(document.documentElement).getPropertyValue(name).trim() || otherwise;
}

function make(tag, className = "", text = "") {
  const node = document.createElement(tag);
  if (className) node.className = className;
  if (text) node.textContent = text;
  return node;
}
