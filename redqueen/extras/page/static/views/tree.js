// The family tree: a line is a life, from birth to the end; arcs come from the parents.

import { byRole, h, number, soft, svg, wide } from "../dom.js";
import { HUES } from "../series.js";

const ROW = 22;
const TOP = 8;
const LEFT = 52;
const RIGHT = 60;
const DASHES = ["", "6 3", "2 2"];

export const tree = {
  api: "tree",
  title: "Family tree",
  render(root, { members, steps }, page) {
    const operators = [...new Set(members.filter((m) => m.parents.length).map((m) => m.operator))].sort();
    const look = (member) => style(member.parents.length ? operators.indexOf(member.operator) : -1);
    const room = Math.max(root.clientWidth - 40, 520);
    const key = operators.map((name, i) => h("li", {}, sample(style(i)), name));
    root.replaceChildren(
      h("h1", {}, "Family tree"),
      soft(
        "A line is a life. A cross ends the line of a member that was replaced, a dot that of one that lives; the number is its last fitness. An arc comes from each parent: solid from the fitter one, dashed from the other.",
      ),
      h("ul", { class: "key" }, h("li", {}, sample(style(-1)), "start"), key),
      ...byRole(members, (lives, title) => [wide(title, draw(lives, steps, room, look, page))]),
    );
  },
};

/** The look of an operator: a hue, and dashes beyond the number of hues. */
function style(index) {
  if (index < 0) return { stroke: "#8a8f98", "stroke-dasharray": "" };
  return {
    stroke: HUES[index % HUES.length],
    "stroke-dasharray": DASHES[Math.floor(index / HUES.length) % DASHES.length],
  };
}

function sample(look) {
  const line = svg("line", { x1: 0, x2: 26, y1: 4, y2: 4, "stroke-width": 3, ...look });
  return svg("svg", { width: 26, height: 8, "aria-hidden": "true" }, line);
}

function draw(lives, steps, width, look, page) {
  const height = TOP + lives.length * ROW + 26;
  const x = (step) => LEFT + (step / Math.max(steps, 1)) * (width - LEFT - RIGHT);
  const y = new Map(lives.map((life, i) => [life.name, TOP + (i + 0.5) * ROW]));
  const bottom = TOP + lives.length * ROW;
  const apart = [1, 2, 5, 10, 20, 50, 100, 200, 500, 1000, 2000, 5000].find((each) => steps / each <= 8) ?? 10000;
  const ticks = Array.from({ length: Math.floor(steps / apart) + 1 }, (_, i) => i * apart);
  const axis = ticks.flatMap((step) => [
    svg("line", { class: "rule", x1: x(step), x2: x(step), y1: TOP, y2: bottom }),
    svg("text", { class: "soft", x: x(step), y: bottom + 18, "text-anchor": "middle" }, step === 0 ? "start" : step),
  ]);
  return svg(
    "svg",
    { class: "tree", width, height, role: "group", "aria-label": `lives of ${lives.length} members` },
    axis,
    lives.flatMap((life) => arcs(life, x, y, look)),
    lives.flatMap((life) => line(life, steps, x, y, look, page)),
  );
}

function line(life, steps, x, y, look, page) {
  const at = y.get(life.name);
  const from = x(life.born);
  const to = x(life.died ?? steps);
  const stroke = look(life);
  const end =
    life.died === null
      ? svg("circle", { cx: to, cy: at, r: 4, fill: stroke.stroke })
      : svg("path", { d: `M${to - 4} ${at - 4}l8 8m0-8l-8 8`, stroke: stroke.stroke, "stroke-width": 2 });
  const made = life.parents.length ? `${life.operator} of ${life.parents.join(" + ")}` : "start";
  const title = svg("title", {}, `${life.name}: ${made}`);
  const text = svg("text", { x: from - 6, y: at + 4, "text-anchor": "end" }, life.name, title);
  const name = svg("a", { href: page.link("/member", { name: life.name }) }, text);
  return [
    svg("line", { x1: from, x2: to, y1: at, y2: at, "stroke-width": 3, ...stroke }),
    end,
    name,
    life.last === null
      ? null
      : svg("text", { class: "soft", x: to + 8, y: at + 4 }, number(life.last, Math.abs(life.last) < 1 ? 2 : 1)),
  ];
}

function arcs(life, x, y, look) {
  return life.parents
    .filter((parent) => y.has(parent))
    .map((parent, rank) => {
      const from = y.get(parent);
      const to = y.get(life.name);
      const at = x(life.born);
      const bend = Math.min(26, Math.abs(to - from) / 2);
      return svg("path", {
        d: `M${at} ${from}C${at + bend} ${from} ${at + bend} ${to} ${at} ${to}`,
        fill: "none",
        stroke: look(life).stroke,
        "stroke-dasharray": rank ? "4 3" : "",
      });
    });
}
