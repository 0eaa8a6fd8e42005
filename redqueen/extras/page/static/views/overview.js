// The overview: a card for each question, a task with its answers, what to type next, four charts, the kinds of task, and
// all other charts folded under the question they answer.

import { ago, boxes, clock, command, h, number, percent, soft, table, worded } from "../dom.js";
import { drawPanels } from "../charts.js";
import { chartControls } from "../chart_view.js";
import { foldedCharts } from "./folded_charts.js";

export const overview = {
  api: "overview",
  title: "Overview",
  render(root, data, page) {
    const names = ["answers", "glance", "verdict", "none", "controls", "first", "kinds", "folded"];
    const { part, keep } = boxes(root, "Overview", "overview", names);
    part("answers").replaceChildren(...answers(data, page.state));
    // Somebody may be reading far down in a long answer, or copying a command.
    const now = JSON.stringify([data.example?.id, page.state.course, page.state.next]);
    if (part("glance").dataset.shown !== now) part("glance").replaceChildren(...glance(data.example, page));
    part("glance").dataset.shown = now;
    // A report has the verdict with its numbers, further down.
    const words = data.verdict && page.state.steps && [`${data.verdict.title}: `, h("strong", {}, data.verdict.word), `. ${data.verdict.reason}`];
    part("verdict").replaceChildren(...(words || []));
    const none = h("p", {}, "No step has been played yet. The curves begin with the first one.");
    part("none").replaceChildren(...(data.panels.length ? [] : [none]));
    if (!data.panels.length) return;
    // The chart of held-out problems begins with the start, at step 0.
    const played = data.panels.map(({ steps }) => steps).filter((steps) => steps[0]);
    const steps = played.reduce((longest, steps) => (steps.length > longest.length ? steps : longest), []);
    // The controls know the first and the last step, and somebody may be setting one of them.
    keep("controls", () => chartControls(steps));
    const linkOf = page.link("/tasks") ? (step) => page.link("/tasks", { from: step, to: step }) : null;
    drawPanels(part("first"), data.first, { linkOf, go: page.go });
    part("kinds").replaceChildren(...kinds(data.kinds, page));
    foldedCharts(part("folded"), data.panels, { linkOf, go: page.go });
  },
  age(root, data, state) {
    root.querySelector(".overview .answers").replaceChildren(...answers(data, state));
  },
};

/** A card for each question. A report, whose run has ended, does not say how far it is. */
function answers({ better, health, winners }, state) {
  return [
    answer("Is it learning?", better.value, better.text, better.tone),
    answer("Is it healthy?", health.value, health.text, health.tone),
    winners && answer("Who wins?", winners.value, winners.text, winners.tone),
    state.steps && answer("How far is it?", ...progress(state)),
  ].filter(Boolean);
}

function answer(question, value, text, tone) {
  const words = typeof text === "string" ? worded(text) : text;
  return h("section", { class: `answer ${tone}` }, h("h2", {}, question), h("p", { class: "value" }, value), soft(words));
}

function progress(state) {
  const { course, now, step, steps, seconds, seconds_left: left, step_seconds: usual, written } = state;
  const last = written === null ? "" : `The last step ended ${ago(written)}.`;
  const took = `${step} steps took ${clock(seconds)}.`;
  if (course === "finished") return ["finished", `${took} ${last}`, "good"];
  if (course !== "running") return [step ? `${course} after step ${step} of ${steps}` : `${course} in step 1`, last, "bad"];
  if (!step && !now) return ["starting", "The base is loaded.", "open"];
  const present = now ? [h("span", { "data-now": "" }, now), ". "] : [];
  if (!step) return ["in step 1", present, "good"];
  const late = written !== null && usual !== null && written > 3 * usual + 30;
  const words = [...present, `About ${clock(left)} left; a step takes ${clock(usual)}.`];
  return [`in step ${step + 1} of ${steps}`, late ? [...words, " This one takes longer."] : words, late ? "bad" : "good"];
}

/** What a look tells more than a number: a task with its answers, and what can be typed now. */
function glance(example, page) {
  return [example && task(example, page), next(page.state)].filter(Boolean);
}

function task({ id, step, kind, fixed, author, question, answer: right, solved, attempts, answers: given, more }, page) {
  const link = page.link("/task", { id });
  const by = fixed ? author : `by ${author}`;
  const lines = given.map(({ status, work, text, count }) => [
    h("dt", { class: status === "correct" ? "good" : "soft" }, `${count} × ${status}`),
    h("dd", {}, work.trim() && h("div", { class: "soft" }, h("code", {}, work.trim())), h("code", {}, text || "(nothing)")),
  ]);
  return h(
    "section",
    { class: "answer example" },
    h("h2", {}, "What do the tasks look like?"),
    soft(`The newest ${solved && solved < attempts ? "that some attempts solved" : "one"}: ${kind}, ${by}, step ${step}. `, link && h("a", { href: link }, "all of it")),
    h("pre", { tabindex: "0", "aria-label": "a task" }, question.trim()),
    right && h("p", {}, "Right: ", h("code", {}, right)),
    h("p", {}, `${solved} of ${attempts} attempts solved it:`),
    h("dl", {}, lines, more ? [h("dt", { class: "soft" }, "…"), h("dd", { class: "soft" }, `${more} other ${more === 1 ? "answer" : "answers"}`)] : null),
  );
}

function next({ course, reason, next: commands }) {
  if (!commands.length && !reason) return null;
  return h(
    "section",
    { class: "answer next" },
    h("h2", {}, "What next?"),
    reason && h("p", { class: course === "failed" ? "reason" : "" }, reason),
    commands.map(({ what, command: text }) => [h("div", {}, what), command(text)]),
    !commands.length && h("p", {}, "There is no checkpoint to go on from: start it again."),
  );
}

function kinds({ first, last, rows, best }, page) {
  if (!rows.length) return [];
  const measured = [
    ["tasks", (row) => row.tasks],
    ...["valid", "solved", "contested"].map((name) => [name, (row) => percent(row[name]), name]),
    ["new ideas", (row) => percent(row.novel), "novel"],
    ["nodes", (row) => number(row.nodes, 0), "nodes"],
  ];
  // Students alone have no proposals, so some columns would be empty.
  const shown = measured.filter(([, , key]) => !key || rows.some((row) => row[key] !== null));
  const line = (row) => ({
    className: row.kind === best ? "average" : "",
    cells: [
      page.link("/tasks") ? h("a", { href: page.link("/tasks", { kind: row.kind }) }, row.kind) : row.kind,
      ...shown.map(([, value]) => value(row)),
    ],
  });
  const steps = first === last ? `Step ${last}` : `Steps ${first} to ${last}, the last quarter`;
  const most = best ? ` ${best} has the largest share of contested tasks: only these tell good answers from bad ones.` : "";
  return [
    h("h2", {}, best ? "Which kind of task works best?" : "The kinds of task"),
    soft(`${steps}. In sample.${most}`),
    table([["kind of task", ""], ...shown.map(([title]) => [title, "right"])], rows.map(line), "kinds of task"),
  ];
}
