// The runs of a folder, the newest first. A click on a head sorts them; some of them can be chosen and compared.

import { ago, clock, h, percent, table } from "../dom.js";

const MOST = 6; // so many runs can be told apart in a chart
const COLUMNS = [
  ["run", "", (run) => run.title],
  ["compare", ""],
  ["state", "", (run) => run.course ?? ""],
  ["step", "right", (run) => run.step ?? -1],
  ["left", "right", (run) => run.seconds_left ?? -1],
  ["learning", "", (run) => run.better ?? ""],
  ["curriculum", "", (run) => run.verdict ?? ""],
  ["solved", "right", (run) => run.solve_rate ?? -1],
  ["last step", "", (run) => run.written ?? Infinity],
  ["seed", "right", (run) => run.seed ?? -1],
  ["base", "", (run) => run.base ?? ""],
  ["recipe", "wrap", (run) => run.recipe ?? ""],
];
const order = { column: 8, descending: false, words: "" }; // as the reader left it

export const runs = {
  api: "runs",
  title: "Runs",
  render(root, { folder, runs: found }, page) {
    // Somebody may be using the filter and the boxes, so drawn again only the list is new.
    const box = root.querySelector(".runs") ?? build(root, folder, page);
    box.found = found;
    box.draw();
  },
};

function build(root, folder, page) {
  const chosen = new Set(); // also runs that the filter leaves out
  const list = h("div");
  const draw = () => {
    const focused = list.contains(document.activeElement) && document.activeElement.id;
    const left = list.querySelector(".wide")?.scrollLeft;
    for (const name of chosen) if (!box.found.some((run) => run.name === name)) chosen.delete(name);
    list.replaceChildren(listed(box.found, chosen, draw));
    limit(list, chosen);
    several.hidden = box.found.length < 2;
    if (focused) document.getElementById(focused)?.focus({ preventScroll: true });
    if (left) list.querySelector(".wide")?.scrollTo(left, 0);
  };
  const filter = h("input", {
    type: "search",
    id: "filter-runs",
    "data-filter": true,
    placeholder: "a name, recipe or state",
    value: order.words,
    input: () => ((order.words = filter.value), draw()),
  });
  const choose = ({ target }) => {
    target.checked ? chosen.add(target.value) : chosen.delete(target.value);
    limit(list, chosen);
  };
  const compare = (event) => {
    event.preventDefault();
    page.go(page.compareLink([...chosen]));
  };
  const several = h("p", {}, h("button", {}, `compare the chosen runs (at most ${MOST})`));
  const form = h("form", { submit: compare, change: choose }, list, several);
  const box = h("div", { class: "runs" }, h("div", { class: "choices" }, h("label", {}, "find a run ", filter)), form);
  box.draw = draw;
  root.replaceChildren(h("h1", {}, `Runs in ${folder}`), box);
  return box;
}

function listed(found, chosen, draw) {
  const words = order.words.toLowerCase().split(/\s+/).filter(Boolean);
  const text = (run) => `${run.title} ${run.course} ${run.recipe} ${run.members} ${run.base}`.toLowerCase();
  const key = COLUMNS[order.column][2];
  const way = order.descending ? -1 : 1;
  const compared = (one, other) => {
    const [a, b] = [key(one), key(other)];
    return way * (typeof a === "string" ? a.localeCompare(b, "en", { numeric: true }) : a === b ? 0 : a < b ? -1 : 1);
  };
  const shown = found.filter((run) => words.every((word) => text(run).includes(word))).sort(compared);
  if (!shown.length) return h("p", {}, "No run matches.");
  return table(COLUMNS.map((column, i) => [head(column, i, draw), column[1]]), shown.map((run) => row(run, chosen)), "runs");
}

function head([title, , key], i, draw) {
  if (!key) return title;
  const click = () => {
    Object.assign(order, { descending: order.column === i && !order.descending, column: i });
    draw();
  };
  const arrow = order.column === i ? (order.descending ? " ↓" : " ↑") : "";
  return h("button", { type: "button", class: "sort", id: `sort-${i}`, "aria-label": `sort by ${title}`, click }, title + arrow);
}

/** No more runs can be chosen than a comparison shows. */
function limit(list, chosen) {
  for (const box of list.querySelectorAll("input[name=with]")) box.disabled = chosen.size >= MOST && !box.checked;
}

function row(run, chosen) {
  const address = run.name ? `/?${new URLSearchParams({ run: run.name })}` : "/";
  const link = h("a", { href: address, id: `open ${run.name}`, "data-row": true }, run.title);
  if (run.error) return { cells: [link, "", h("span", { class: "error" }, "cannot be read"), ...Array(8).fill(""), run.error] };
  const name = `compare ${run.title}`;
  const box = h("input", {
    type: "checkbox",
    name: "with",
    id: name,
    value: run.name,
    "aria-label": name,
    checked: chosen.has(run.name),
  });
  return {
    cells: [
      link,
      box,
      h("span", { class: `badge ${run.course}` }, run.course),
      `${run.step} of ${run.steps}`,
      run.seconds_left === null ? "" : clock(run.seconds_left),
      run.better,
      run.verdict,
      percent(run.solve_rate),
      run.written === null ? "" : ago(run.written),
      run.seed,
      run.base,
      `${run.recipe}, ${run.members}`,
    ],
  };
}
