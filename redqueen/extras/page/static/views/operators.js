// Which operators' children did well: each child's change of fitness beside its fitter parent, and the mean of them.

import { byRole, h, number, signed, soft, svg, wide } from "../dom.js";

const WIDTH = 260;
const HEIGHT = 30;

export const operators = {
  api: "operators",
  title: "Operators",
  render(root, { rows }, page) {
    const parts = byRole(rows, (those, title) => [best(those), (known(those).length > 1 ? chart : told)(title, those, page)]);
    root.replaceChildren(
      h("h1", {}, "Operators: whose children did well?"),
      soft(
        "The change is a child's last fitness less its fitter parent's at the birth. A dot is a child (hollow: it was replaced), " +
          "the bar is the mean with its 95 % interval. Fitness is relative to the opponents that were met, so compare operators " +
          "with each other and with the controls, not with 0. Held out is the mean gain of the children over the start.",
      ),
      ...(parts.length ? parts : [h("p", {}, "No child has been born yet.")]),
    );
  },
};

/** The changes of all children that have played. */
function known(rows) {
  return rows.flatMap((row) => row.children.map((child) => child.change)).filter((value) => value !== null);
}

/** One child is no picture: what it did is a sentence. */
function told(title, rows, page) {
  const children = rows.flatMap((row) => row.children.map((child) => ({ ...child, operator: row.operator })));
  const words = ({ change }) => (change === null ? "has played no game yet" : `changed by ${tenths(change)}`);
  return h(
    "ul",
    { class: "said" },
    children.map((child) => h("li", {}, page.memberLink(child.name), `, by ${child.operator}, born after step ${child.born}: ${words(child)}`)),
  );
}

function best(rows) {
  const several = rows.filter((row) => row.change?.low !== null && row.change);
  const first = several[0];
  if (!first) return h("p", {}, "No operator has two children with a fitness yet, so none can be said to be better.");
  const others = several.filter((row) => row !== first);
  const clear = others.length && others.every((row) => row.change.high < first.change.low);
  const words = `${first.operator}: ${tenths(first.change.mean)} [${tenths(first.change.low)}, ${tenths(first.change.high)}]`;
  return h(
    "p",
    {},
    clear ? "The best is " : "The largest mean is ",
    h("strong", {}, words),
    clear ? ", above all others' intervals." : ". The intervals overlap, so chance is not excluded.",
  );
}

function chart(title, rows, page) {
  // The scale is that of the children. An interval of two of them can be far wider; it is cut off at the edge.
  const changes = known(rows);
  const room = Math.max(0, ...changes) - Math.min(0, ...changes) || 1;
  const low = Math.min(0, ...changes) - 0.2 * room;
  const high = Math.max(0, ...changes) + 0.2 * room;
  const x = (value) => Math.min(Math.max((value - low) / (high - low), 0), 1) * WIDTH;
  const change = `change, from ${tenths(low)} to ${tenths(high)}`;
  const head = ["operator", change, "mean", "children", "living", "had children", "age", "held out"];
  const body = rows.map((row) =>
    h(
      "tr",
      {},
      h("th", { scope: "row", class: "stay" }, row.operator, row.control && h("small", { class: "soft" }, " control")),
      h("td", {}, plot(row, x, page)),
      h("td", { class: "right" }, row.change ? interval(row.change) : "–"),
      h("td", { class: "right" }, row.children.length),
      h("td", { class: "right" }, row.living),
      h("td", { class: "right" }, row.parents),
      h("td", { class: "right" }, number(row.age, 0)),
      h("td", { class: "right" }, row.held_out === null ? "–" : `${tenths(100 * row.held_out)} points`),
    ),
  );
  const heads = head.map((text, i) => h("th", { scope: "col", class: i > 1 ? "right" : "" }, text));
  return wide(title, h("table", { class: "operators" }, h("thead", {}, h("tr", {}, heads)), h("tbody", {}, body)));
}

function interval({ mean, low, high }) {
  return [tenths(mean), low !== null && h("small", {}, `${tenths(low)} to ${tenths(high)}`)];
}

function plot(row, x, page) {
  const middle = HEIGHT / 2;
  const dots = row.children
    .filter((child) => child.change !== null)
    .map((child) => {
      const dot = svg(
        "circle",
        { class: child.lives ? "dot lives" : "dot", cx: x(child.change), cy: middle, r: 4 },
        svg("title", {}, `${child.name}, born after step ${child.born}: ${tenths(child.change)}`),
      );
      const link = page.link("/member", { name: child.name });
      return link ? svg("a", { href: link, "aria-label": child.name }, dot) : dot;
    });
  const { mean, low, high } = row.change ?? {};
  return svg(
    "svg",
    { width: WIDTH, height: HEIGHT, role: "group", "aria-label": `${row.operator}: ${row.children.length} children` },
    svg("line", { class: "rule", x1: x(0), x2: x(0), y1: 0, y2: HEIGHT }),
    low !== null && low !== undefined && svg("line", { class: "interval", x1: x(low), x2: x(high), y1: middle, y2: middle }),
    mean !== undefined && svg("line", { class: "mean", x1: x(mean), x2: x(mean), y1: 4, y2: HEIGHT - 4 }),
    dots,
  );
}

function tenths(value) {
  return signed(value, 1);
}
