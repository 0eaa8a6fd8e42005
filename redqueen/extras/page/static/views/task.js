// One proposal: what was written, what it became, every attempt, and what each was paid and why.

import { factList, h, number, percent, soft, table } from "../dom.js";
import { measuresSection } from "./measures.js";
import { taskRows } from "./task_rows.js";

export const task = {
  api: "task",
  title: "Task",
  fixed: true, // a step is written once and never changes
  render(root, data, page) {
    const { proposal, task: valid, attempts } = data;
    const end = proposal.finish_reason === "length" ? "the token limit" : "a stop";
    const parts = [
      h("h1", {}, `Task ${proposal.id}`),
      facts(data, page),
      !data.fixed && h("h2", {}, "What the teacher was paid, and why"),
      h("p", { class: "why" }, proposal.why),
      ...(valid ? question(valid) : refused(proposal)),
      ...(data.fixed ? [] : way(data, page)),
      ...answers(data, attempts),
      ...measuresSection(data.measures),
      !data.fixed &&
        h(
          "details",
          {},
          h("summary", {}, "The prompt, and what the teacher wrote"),
          h("h3", {}, "Prompt"),
          h("pre", {}, proposal.prompt),
          h("h3", {}, `Written (${proposal.tokens} tokens, ended by ${end})`),
          h("pre", {}, proposal.text),
        ),
    ];
    root.replaceChildren(...parts.filter(Boolean));
  },
};

function facts({ kind, fixed, author, proposal, task: valid, student, references }, page) {
  const named = ({ id, here }) => (here ? h("a", { href: page.link("/task", { id }) }, id) : id);
  const lines = [
    ["kind", kind],
    ["step", h("a", { href: page.link("/tasks", { from: proposal.step, to: proposal.step }) }, proposal.step)],
    ["author", fixed ? author : page.memberLink(proposal.teacher.split("@")[0])],
    ["student", student ? page.memberLink(student.split("@")[0]) : "–"],
    ["verdict", h("span", { class: valid ? "good" : "bad" }, proposal.status)],
    valid && ["solve rate", percent(valid.rho)],
    valid && !fixed && ["idea", valid.novel ? "new: no seed and no task of the bank has it" : "not new"],
    !fixed && ["references", references.length ? references.map((each, i) => [i ? ", " : "", named(each)]) : "none"],
    !fixed && ["judged in", `${number(proposal.cpu_ms, 1)} ms of CPU time`],
  ];
  return factList(lines);
}

function question(valid) {
  const rows = valid.pairs.map(([input, output], i) => ({
    cells: [valid.asks || (i < valid.shown ? "shown" : "hidden"), h("code", {}, `f(${input})`), h("code", {}, output)],
  }));
  return [
    h("h2", {}, "Program"),
    h("pre", { class: "program" }, valid.program),
    valid.message && [h("h2", {}, "Message"), h("pre", {}, valid.message)],
    h("h2", {}, "Inputs and outputs"),
    table([["", ""], ["input", "wrap"], ["output", "wrap"]], rows, "inputs and outputs"),
  ].flat().filter(Boolean);
}

/** The run's tasks that the teacher was shown, and those whose teachers were shown this one. */
function way({ came_from: before, led_to: after, task: valid }, page) {
  if (!after) return []; // a report shows single tasks
  const read = after.complete ? "" : ` The steps up to ${after.last} were read.`;
  const more = after.more ? soft(`${after.more} more, at least.`) : null;
  return [
    h("h2", {}, "Where it came from, and what it led to"),
    h("h3", {}, "It came from"),
    before.length ? taskRows(before, page) : soft("No task of this run: its teacher was shown seed programs, or nothing."),
    valid && [
      h("h3", {}, "It led to"),
      after.tasks.length ? taskRows(after.tasks, page) : soft(`No teacher was shown it yet.${read}`),
      more,
    ],
  ].flat().filter(Boolean);
}

function refused(proposal) {
  return [
    h("h2", {}, "Refused"),
    h("p", { class: "bad" }, proposal.detail || proposal.status),
    proposal.given && [h("h3", {}, "It was given the program"), h("pre", { class: "program" }, proposal.given)],
    proposal.given && h("h3", {}, "It wrote"),
    h("pre", { class: "program" }, proposal.text),
    proposal.output && [h("h3", {}, "Its output"), h("pre", {}, proposal.output)],
  ].flat().filter(Boolean);
}

function answers({ task: valid }, attempts) {
  if (!attempts.length) return valid ? [h("h2", {}, "Attempts"), h("p", {}, "No student has attempted it.")] : [];
  const judged = attempts.filter((attempt) => attempt.reward !== null);
  const solved = judged.filter((attempt) => attempt.status === "correct").length;
  const lost = attempts.length - judged.length;
  return [
    h("h2", {}, `Attempts: ${solved} of ${judged.length} correct${lost ? ` (${lost} more were not judged)` : ""}`),
    ...attempts.map((attempt) =>
      h(
        "section",
        { class: "attempt", "data-status": attempt.status },
        h(
          "div",
          {},
          h("strong", {}, `${attempt.number + 1}. ${attempt.student}`),
          " ",
          h("span", { class: attempt.status === "correct" ? "good" : "bad" }, attempt.status),
          ` · paid ${attempt.why}`,
        ),
        ...(attempt.work ? worked(attempt) : [h("pre", {}, attempt.text)]),
        h("div", { class: "soft" }, [
          attempt.output && ["gave ", h("code", {}, attempt.output), " · "],
          attempt.detail && `${attempt.detail} · `,
          `${attempt.tokens} tokens${attempt.finish_reason === "length" ? ", cut off" : ""} · ${number(attempt.cpu_ms, 1)} ms`,
        ]),
      ),
    ),
  ];
}

/** Work is marked off from the answer, which alone is judged. */
function worked({ text, work }) {
  const at = text.indexOf(work);
  if (at < 0) return [h("pre", {}, text)]; // the answer stands within the work
  return [h("pre", {}, text.slice(0, at), h("span", { class: "soft" }, work), text.slice(at + work.length))];
}
