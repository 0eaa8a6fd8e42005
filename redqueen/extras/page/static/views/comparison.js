// Two or more runs beside one another: what differs, what they came to, and their curves.

import { boxes, clock, h, settingName, table, worded } from "../dom.js";
import { drawPanels } from "../charts.js";
import { chartControls } from "../chart_view.js";
import { foldedCharts } from "./folded_charts.js";

export const comparison = {
  api: "compare",
  title: "Compare",
  render(root, data, page) {
    const chosen = data.chosen.join("\n");
    if (root.querySelector(".comparison")?.dataset.chosen !== chosen) root.replaceChildren();
    const { part, keep } = boxes(root, "Compare runs", "comparison", ["chooser", "tables", "controls", "first", "folded"]);
    root.querySelector(".comparison").dataset.chosen = chosen;
    const before = part("chooser").querySelector("details");
    keep("chooser", () => chooser(data, page, before));
    if (!data.runs.length) return;
    part("tables").replaceChildren(...tables(data));
    if (!data.first.length) return;
    const steps = data.first.at(-1).steps;
    keep("controls", () => chartControls(steps));
    drawPanels(part("first"), data.first);
    foldedCharts(part("folded"), data.panels, {});
  },
};

/** The runs to choose from; what a reader has chosen and opened in the one `before` is chosen and open again. */
function chooser({ names, chosen, most }, page, before) {
  const ticked = before ? new FormData(before.querySelector("form")).getAll("with") : chosen;
  const boxes = names.map((name) =>
    h("label", {}, h("input", { type: "checkbox", name: "with", value: name, checked: ticked.includes(name) }), ` ${name}`),
  );
  const submit = (event) => {
    event.preventDefault();
    page.go(page.compareLink(new FormData(event.target).getAll("with")));
  };
  return h(
    "details",
    { open: before?.open ?? chosen.length < 2 },
    h("summary", {}, `Choose from 2 to ${most} of ${names.length} runs`),
    h("form", { class: "chosen-runs", submit }, boxes, h("button", {}, "compare")),
  );
}

function tables({ runs, differ }) {
  const titles = runs.map((run) => [run.title, "wrap"]);
  const lines = [
    ["better than the start?", (run) => [h("strong", {}, run.better.value), " ", worded(run.better.text)]],
    ["healthy?", (run) => [h("strong", {}, run.health.value), " ", worded(run.health.text)]],
    ["curriculum", (run) => run.verdict],
    ["steps", (run) => run.steps],
    ["tokens", (run) => run.tokens.toLocaleString("en")],
    ["time in steps", (run) => clock(run.seconds)],
  ];
  const rows = lines.map(([name, value]) => ({ cells: [name, ...runs.map(value)] }));
  const settings = differ.map(({ key, values }) => ({
    cells: [settingName(key), ...values.map((value) => h("code", {}, value || "(empty)"))],
  }));
  return [
    h("h2", {}, "What they came to"),
    table([["", ""], ...titles], rows, "what the runs came to"),
    h("h2", {}, "Settings that differ"),
    settings.length ? table([["setting", ""], ...titles], settings, "settings that differ") : h("p", {}, "None."),
    h("h2", {}, "Curves"),
  ];
}
