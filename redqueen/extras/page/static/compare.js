// The comparison of runs: charts with one curve an arm, from the data that the file itself holds.

import { h } from "./dom.js";
import { drawPanels } from "./charts.js";
import { chartControls } from "./chart_view.js";
import { foldedCharts } from "./views/folded_charts.js";

const data = JSON.parse(document.getElementById("data").textContent);
const first = document.getElementById("overview");
const steps = data.overview.find((panel) => (panel.along ?? "step") === "step")?.steps ?? [];
const box = h("div");
first.append(chartControls(steps), box);
drawPanels(box, data.overview);
foldedCharts(document.getElementById("others"), data.others, {});
document.querySelector("main").dataset.view = "compare";
