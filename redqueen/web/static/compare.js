// The comparison of runs: charts with one curve an arm, from the data that the file itself holds.

import { h } from "./dom.js";
import { drawPanels } from "./charts.js";

const data = JSON.parse(document.getElementById("data").textContent);
for (const [name, panels] of Object.entries(data)) {
  const box = h("div");
  document.getElementById(name).append(box);
  drawPanels(box, panels);
}
document.querySelector("main").dataset.view = "compare";
