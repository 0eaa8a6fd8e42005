// Many charts, folded under the question of a reader that they answer, and found by name.

import { h } from "../dom.js";
import { drawPanels } from "../charts.js";

/** Draws panels, each with a `question`, the questions in order, into `root`. What is folded is drawn when it is opened. */
export function foldedCharts(root, panels, options) {
  const groups = new Map();
  for (const panel of panels) groups.set(panel.question, [...(groups.get(panel.question) ?? []), panel]);
  const titles = [...groups.keys()];
  const shape = JSON.stringify(titles);
  if (root.dataset.shape !== shape) build(root, titles);
  root.dataset.shape = shape;
  for (const title of titles) {
    const part = [...root.querySelectorAll("details")].find((each) => each.dataset.question === title);
    part.panels = groups.get(title);
    part.options = options;
  }
  find(root);
}

function build(root, titles) {
  const search = h("input", {
    type: "search",
    id: "find-chart",
    "data-filter": true,
    placeholder: "a name, such as entropy",
    input: () => find(root),
  });
  const parts = titles.map((title) =>
    h(
      "details",
      { class: "question", "data-question": title, toggle: (event) => show(event.target) },
      h("summary", {}, h("h3", {}, title), h("span", { class: "soft" })),
      h("div", { class: "charts" }),
    ),
  );
  root.replaceChildren(
    h("h2", {}, "All charts, by question"),
    h(
      "div",
      { class: "choices" },
      h("label", {}, "find a chart ", search),
      h("span", { class: "soft", role: "status", id: "found-charts" }),
    ),
    ...parts,
  );
}

/** Shows the charts that have the words of the search in their names, notes or curves, and says how many. */
function find(root) {
  const words = root.querySelector("#find-chart").value.toLowerCase().split(/\s+/).filter(Boolean);
  let found = 0;
  for (const part of root.querySelectorAll("details.question")) {
    const hits = part.panels.filter((panel) => {
      const text = `${panel.key} ${panel.title} ${panel.note} ${panel.curves.map((curve) => curve.label).join(" ")}`;
      return words.every((word) => text.toLowerCase().includes(word));
    });
    part.hits = hits;
    part.hidden = !hits.length;
    found += hits.length;
    part.querySelector("summary span").textContent = ` ${hits.length} ${hits.length === 1 ? "chart" : "charts"}`;
    // What a search opened is closed when the search is given up, what a reader opened stays.
    if (words.length && hits.length && !part.open) {
      part.open = true;
      part.dataset.opened = "by the search";
    } else if (!words.length && part.dataset.opened) {
      part.open = false;
      delete part.dataset.opened;
    }
    show(part);
  }
  root.querySelector("#found-charts").textContent = words.length ? `${found} found` : "";
}

function show(part) {
  if (part.open) drawPanels(part.querySelector(".charts"), part.hits, part.options);
}
