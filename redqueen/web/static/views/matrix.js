// Teachers x students: solve rates, or games.

import { h, percent } from "../dom.js";

const ALL = "all kinds";
const FEW = 16; // up to so many of a role, everybody that ever lived is shown

export const matrix = {
  api: "matrix",
  title: "Matches",
  render(root, data, page) {
    const kind = page.query.get("kind") ?? "";
    const games = page.query.get("show") === "games";
    // The dead fill a long run's matrix, and a short run's would be empty without them.
    const few = data.teachers.length <= FEW && data.students.length <= FEW;
    const everybody = few ? page.query.get("all") !== "0" : page.query.get("all") === "1";
    const some = (members) => (everybody ? members : members.filter((member) => member.lives));
    const teachers = some(data.teachers);
    const students = some(data.students);
    const kinds = ["", ...new Set(data.cells.map((cell) => cell.kind))].sort();
    const choose = (values) =>
      page.link("/matrix", { kind, show: games ? "games" : "", all: page.query.get("all"), ...values });
    const head = h(
      "tr",
      {},
      h("th", { scope: "col" }, "teacher \\ student"),
      students.map((s) => h("th", { scope: "col" }, page.memberLink(base(s.name)))),
    );
    const body = teachers.map((t) =>
      h(
        "tr",
        {},
        h("th", { scope: "row" }, page.memberLink(base(t.name))),
        students.map((s) => (games ? gamesCell(data, t, s) : rateCell(data, t, s, kind, page))),
      ),
    );
    root.replaceChildren(
      h("h1", {}, "Teachers × students"),
      h(
        "p",
        { class: "soft" },
        games
          ? "Games that the student won, that were drawn, and that the teacher won."
          : "Mean solve rate of the teacher's valid tasks by the student it was matched with, in sample; below it the number of tasks.",
        // In a report the tasks cannot be opened.
        !games && page.link("/tasks") && " Choose a cell to see them.",
      ),
      h(
        "div",
        { class: "choices" },
        pick(
          "show",
          [
            ["", "solve rates"],
            ["games", "games"],
          ],
          games ? "games" : "",
          (value) => page.go(choose({ show: value })),
        ),
        !games &&
          pick(
            "kind",
            kinds.map((each) => [each, each || ALL]),
            kind,
            (value) => page.go(choose({ kind: value })),
          ),
        h(
          "a",
          { href: choose({ all: everybody ? "0" : "1" }) },
          everybody ? "only the living" : "everybody that ever lived",
        ),
      ),
      teachers.length && students.length
        ? h(
            "div",
            { class: "wide", tabindex: "0", role: "region", "aria-label": "match matrix" },
            h("table", { class: "matrix" }, h("thead", {}, head), h("tbody", {}, body)),
          )
        : h("p", {}, "No step has been played yet."),
    );
  },
};

/** A champion of the hall of fame, S3@40, is a frozen copy of its member. */
function base(name) {
  return name.split("@")[0];
}

function pick(name, options, value, choose) {
  const select = h(
    "select",
    { id: `matrix-${name}`, "data-filter": true, change: (event) => choose(event.target.value) },
    options.map(([each, text]) => h("option", { value: each, selected: each === value }, text)),
  );
  return h("label", {}, `${name} `, select);
}

function rateCell(data, teacher, student, kind, page) {
  const cells = data.cells.filter(
    (cell) => cell.teacher === teacher.name && cell.student === student.name && (!kind || cell.kind === kind),
  );
  const tasks = cells.reduce((sum, cell) => sum + cell.tasks, 0);
  if (!tasks) return h("td", { class: "soft" }, "–");
  const rate = cells.reduce((sum, cell) => sum + cell.rho * cell.tasks, 0) / tasks;
  const link = page.link("/tasks", { teacher: teacher.name, student: student.name, kind });
  const cell = h(
    "td",
    { class: `cell${rate > 0.55 ? " strong" : ""}` },
    h("a", { href: link }, percent(rate), h("small", {}, `${tasks} tasks`)),
  );
  cell.style.setProperty("--rate", Math.round(rate * 100));
  return cell;
}

function gamesCell(data, teacher, student) {
  const played = data.games.find((each) => each.teacher === teacher.name && each.student === student.name);
  if (!played) return h("td", { class: "soft" }, "–");
  const counts = ["student", "draw", "teacher"].map((side) => played.outcomes[side] ?? 0);
  const none = played.outcomes.none ? h("small", {}, `${played.outcomes.none} without a game`) : null;
  return h("td", {}, counts.join("-"), none);
}
