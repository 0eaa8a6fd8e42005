// The overview: four answers, four charts, the kinds of task, and all other charts folded under the question they answer.

import { ago, boxes, clock, h, number, percent, soft, table } from "../dom.js";
import { drawPanels } from "../charts.js";
import { chartControls } from "../chart_view.js";
import { foldedCharts } from "./folded_charts.js";

export const overview = {
  api: "overview",
  title: "Overview",
  render(root, data, page) {
    const names = ["answers", "verdict", "none", "controls", "first", "kinds", "folded"];
    const { part, keep } = boxes(root, "Overview", "overview", names);
    part("answers").replaceChildren(...answers(data, page.state));
    const words = page.state?.course !== "finished" ? "Verdict so far: " : "Verdict: ";
    const verdict = [words, h("strong", {}, data.verdict.word), `. ${data.verdict.reason}`];
    // A report begins with it.
    part("verdict").replaceChildren(...(page.state ? verdict : []));
    const none = h("p", {}, "No step has been played yet. The curves begin with the first one.");
    part("none").replaceChildren(...(data.panels.length ? [] : [none]));
    if (!data.panels.length) return;
    const steps = data.panels.reduce((longest, { steps }) => (steps.length > longest.length ? steps : longest), []);
    // The controls know the first and the last step, and somebody may be setting one of them.
    keep("controls", () => chartControls(steps));
    const linkOf = page.link("/tasks") ? (step) => page.link("/tasks", { from: step, to: step }) : null;
    drawPanels(part("first"), data.first, { linkOf, go: page.go });
    part("kinds").replaceChildren(...kinds(data.kinds, page));
    foldedCharts(part("folded"), data.panels, { linkOf, go: page.go });
  },
};

/** The four numbers. A report, which shows a run that nobody follows, has two. */
function answers({ better, health }, state) {
  return [
    answer("Better than the start?", better.value, better.text, better.tone),
    answer("Healthy?", health.value, health.text, health.tone),
    ...(state ? [answer("What is it doing?", ...doing(state)), answer("How long still?", ...left(state))] : []),
  ];
}

function answer(question, value, text, tone) {
  return h(
    "section",
    { class: `answer ${tone}` },
    h("h2", {}, question),
    h("p", { class: "value" }, value),
    soft(text),
  );
}

function doing({ course, now, step, steps, written, step_seconds: usual }) {
  const last = written === null ? "" : `The last step ended ${ago(written)}.`;
  if (course === "finished") return ["finished", `${step} steps were played. ${last}`, "good"];
  if (course === "stopped") return ["stopped", `${step} of ${steps} steps are played, and nobody trains it here. ${last}`, "bad"];
  if (!step && !now) return ["starting", "The base is loaded.", "open"];
  if (!step) return ["step 1", h("span", { "data-now": "" }, now), "good"];
  const late = written !== null && usual !== null && written > 3 * usual + 30;
  const words = `${last} A step takes about ${clock(usual)}.`;
  const present = ["In it: ", h("span", { "data-now": "" }, now), ". "];
  const text = [...(now ? present : []), words];
  return late
    ? [`step ${step + 1}`, [...text, " This one takes longer."], "bad"]
    : [`step ${step + 1}`, text, "good"];
}

function left({ course, step, steps, seconds, seconds_left: time }) {
  const played = `${step} of ${steps} steps, ${clock(seconds)} in steps so far.`;
  if (course === "finished") return ["done", played, "good"];
  return [time === null ? "not known" : clock(time), played, "open"];
}

function kinds({ first, last, rows }, page) {
  if (!rows.length) return [];
  const columns = [
    ["kind of task", ""],
    ...["tasks", "valid", "solved", "contested", "new ideas", "nodes"].map((title) => [title, "right"]),
  ];
  const best = rows.reduce((one, other) => ((other.contested ?? -1) > (one.contested ?? -1) ? other : one));
  const line = (row) => ({
    className: row === best && best.contested ? "average" : "",
    cells: [
      page.link("/tasks") ? h("a", { href: page.link("/tasks", { kind: row.kind }) }, row.kind) : row.kind,
      row.tasks,
      ...[row.valid, row.solved, row.contested, row.novel].map(percent),
      number(row.nodes, 0),
    ],
  });
  const steps = first === last ? `step ${last}` : `steps ${first} to ${last}`;
  const most = best.contested ? ` ${best.kind} has the largest share of contested tasks: only these tell good answers from bad ones.` : "";
  return [
    h("h2", {}, "Which kind of task works best?"),
    soft(`The last quarter: ${steps}. In sample.${most}`),
    table(columns, rows.map(line), "kinds of task"),
  ];
}
