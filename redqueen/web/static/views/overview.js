// The course of the run: all panels. A step that is chosen in a chart opens its tasks.

import { h } from "../dom.js";
import { drawPanels } from "../charts.js";

export const overview = {
  api: "overview",
  title: "Overview",
  render(root, { verdict, panels }, page) {
    let box = root.querySelector(".overview");
    if (!box) {
      const hint =
        "Choose a point to see the tasks of its step. Left and right arrows move through the steps of a chart.";
      box = h("div", { class: "overview" });
      root.replaceChildren(h("h1", {}, "Overview"), h("p", { class: "verdict" }), h("p", { class: "soft" }, hint), box);
    }
    const words = page.state?.course === "finished" ? "Verdict: " : "So far: ";
    root.querySelector(".verdict").replaceChildren(words, h("strong", {}, verdict.word), `. ${verdict.reason}`);
    if (!panels.length || !panels[0].steps.length) {
      box.replaceChildren(h("p", {}, "No step has been played yet. The curves begin with the first one."));
      return;
    }
    drawPanels(box, panels, { onStep: (step) => page.go(page.link("/tasks", { from: step, to: step })) });
  },
};
