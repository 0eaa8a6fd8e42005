// What the machine did: speed, memory and time.

import { boxes, factList, h, number, percent, table } from "../dom.js";
import { drawPanels } from "../charts.js";
import { chartControls } from "../chart_view.js";

export const machine = {
  api: "machine",
  title: "Machine",
  render(root, { phases, machine: known, panels }) {
    const { part, keep } = boxes(root, "Machine: speed, memory and time", "machine", ["known", "controls", "charts"]);
    const columns = [["phase", ""], ["seconds a step", "right"], ["share of the time", "right"]];
    const rows = phases.map((each) => ({ cells: [each.phase, number(each.seconds, 1), percent(each.share)] }));
    part("known").replaceChildren(
      factList(known),
      ...(rows.length ? [h("h2", {}, "Where the time goes (the last quarter of the steps)"), table(columns, rows, "phases")] : []),
    );
    if (!panels.length) return part("charts").replaceChildren(h("p", {}, "No step has been played yet."));
    keep("controls", () => chartControls(panels[0].steps));
    drawPanels(part("charts"), panels);
  },
};
