// What the machine did: speed, memory and time.

import { factList, h, number, percent, table } from "../dom.js";
import { drawPanels } from "../charts.js";
import { chartControls } from "../chart_view.js";

export const machine = {
  api: "machine",
  title: "Machine",
  render(root, { phases, machine: known, panels }) {
    let box = root.querySelector(".machine");
    if (!box) {
      box = h("div", { class: "machine" }, h("div", { class: "known" }), h("div", { class: "controls" }), h("div", { class: "charts" }));
      root.replaceChildren(h("h1", {}, "Machine: speed, memory and time"), box);
    }
    const part = (name) => box.querySelector(`.${name}`);
    const columns = [
      ["phase", ""],
      ["seconds a step", "right"],
      ["share of the time", "right"],
    ];
    const rows = phases.map((each) => ({ cells: [each.phase, number(each.seconds, 1), percent(each.share)] }));
    part("known").replaceChildren(
      factList(known),
      ...(rows.length ? [h("h2", {}, "Where the time goes (the last quarter of the steps)"), table(columns, rows, "phases")] : []),
    );
    if (!panels.length) return part("charts").replaceChildren(h("p", {}, "No step has been played yet."));
    if (!part("controls").contains(document.activeElement)) part("controls").replaceChildren(chartControls(panels[0].steps));
    drawPanels(part("charts"), panels);
  },
};
