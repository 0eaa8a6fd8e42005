// The report: the live page's views, one below the other, from the data that the file itself holds.

import { h } from "./dom.js";
import { overview } from "./views/overview.js";
import { evaluation } from "./views/evaluation.js";
import { league } from "./views/league.js";
import { matrix } from "./views/matrix.js";
import { tree } from "./views/tree.js";
import { task } from "./views/task.js";

const data = JSON.parse(document.getElementById("data").textContent);
const section = (name) => document.getElementById(name);
const MOST_PAIRS = 10000; // a matrix of more makes a browser wait

/** What the views are given. Nothing in a file can be opened further, so only the matrix has links: its own choices. */
function pageOf(query = new URLSearchParams()) {
  const link = (path, values = {}) => {
    if (path !== "/matrix") return null;
    const chosen = Object.entries(values).filter(([, value]) => value);
    return `#matrix?${new URLSearchParams(chosen)}`;
  };
  const go = (address) => drawMatrix(new URLSearchParams(address.split("?")[1]));
  return { query, link, go, memberLink: (name, text = name) => h("span", {}, text) };
}

function drawMatrix(query) {
  matrix.render(section("matrix"), data.matrix, pageOf(query));
}

function drawTasks(root, title, note, found) {
  if (!found.length) return;
  root.append(h("h1", {}, title), h("p", { class: "soft" }, note));
  for (const each of found) {
    const box = h("div");
    const { proposal, task: valid } = each;
    const solved = valid.rho === null ? "no solve rate" : `solved ${Math.round(valid.rho * 100)}%`;
    const what = `${proposal.id} · step ${proposal.step} · ${proposal.kind} · ${each.author} → ${each.student} · ${solved}`;
    const text = valid.message ? `# ${valid.message}\n${valid.program}` : valid.program;
    root.append(h("details", { class: "told" }, h("summary", {}, what, h("pre", {}, text.trim())), box));
    task.render(box, each, pageOf());
  }
}

overview.render(section("overview"), data.overview, { ...pageOf(), state: data.state });
evaluation.render(section("evaluation"), data.evaluation);
// A run of students alone has no matches, for instance.
if (data.league) league.render(section("league"), data.league, pageOf());
// A finished run has hardly a match left between those that live, so everybody is shown, as far as a browser can.
const pairs = data.matrix && data.matrix.teachers.length * data.matrix.students.length;
if (data.matrix) drawMatrix(new URLSearchParams(pairs > MOST_PAIRS ? {} : { all: "1" }));
if (data.tree) tree.render(section("tree"), data.tree, pageOf());
drawTasks(section("tasks"), "Best paid tasks", "Those that paid their teachers most.", data.tasks.best);
drawTasks(section("tasks"), "Typical tasks", "Drawn at random from the last quarter of the steps.", data.tasks.typical);
section("matrix")?.addEventListener("click", (event) => {
  const address = event.target.closest?.("a[href^='#matrix']")?.getAttribute("href");
  if (!address) return;
  event.preventDefault();
  pageOf().go(address);
});
document.querySelector("main").dataset.view = "report";
