// Teachers x students: solve rates, or games.

import { h, percent, soft, wide } from "../dom.js";

const ALL = "all kinds";
const LEVELS = 5; // the colours heat-0 to heat-4 of style.css, for a fifth of 0 to 100 % each
const SURE = 8; // a pair with fewer tasks or games than this has no colour
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
    const address = (values) =>
      page.link("/matrix", { kind, show: games ? "games" : "", all: page.query.get("all"), ...values });
    const choose = (values) => page.go(address(values));
    const met = byPair(games ? data.games : data.cells.filter((cell) => !kind || cell.kind === kind));
    const pairs = teachers.map((t) => students.map((s) => (games ? gamesOf : rateOf)(met(t, s))));
    const head = h(
      "tr",
      {},
      h("th", { scope: "col" }, "teacher \\ student"),
      students.map((s) => h("th", { scope: "col" }, page.memberLink(base(s.name), s.name))),
    );
    const body = teachers.map((t, i) =>
      h(
        "tr",
        {},
        h("th", { scope: "row" }, page.memberLink(base(t.name), t.name)),
        students.map((s, j) => cell(pairs[i][j], games ? null : linkOf(page, t, s, kind))),
      ),
    );
    root.replaceChildren(
      h("h1", {}, "Teachers × students"),
      soft(
        games
          ? "Games that the student won, that were drawn, and that the teacher won. The colour is the student's share; a draw is half a game."
          : "Mean solve rate of the teacher's valid tasks by the student it was matched with, in sample; below it the number of tasks.",
        // In a report the tasks cannot be opened.
        !games && page.link("/tasks") && " Choose a cell to see them.",
      ),
      h(
        "div",
        { class: "choices" },
        pick("show", { "": "solve rates", games: "games" }, games ? "games" : "", choose),
        !games && pick("kind", Object.fromEntries(kinds.map((each) => [each, each || ALL])), kind, choose),
        h(
          "a",
          { href: address({ all: everybody ? "0" : "1" }) },
          everybody ? "living members only" : "all members that ever lived",
        ),
      ),
      teachers.length && students.length
        ? wide("match matrix", h("table", { class: "matrix" }, h("thead", {}, head), h("tbody", {}, body)))
        : h("p", {}, "No teacher has met a student yet."),
      legend(games),
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
    { id: `matrix-${name}`, "data-filter": true, change: (event) => choose({ [name]: event.target.value }) },
    Object.entries(options).map(([each, text]) => h("option", { value: each, selected: each === value }, text)),
  );
  return h("label", {}, `${name} `, select);
}

/** Returns what finds those of a pair. They are sorted once: a long run has many pairs, and much of each. */
function byPair(found) {
  const pairs = new Map();
  const key = (teacher, student) => `${teacher} ${student}`;
  for (const each of found) {
    const place = key(each.teacher, each.student);
    if (!pairs.has(place)) pairs.set(place, []);
    pairs.get(place).push(each);
  }
  return (teacher, student) => pairs.get(key(teacher.name, student.name)) ?? [];
}

/** What a pair did: the value of its colour, a text, and a small one below it; null if it never met. */
function rateOf(cells) {
  const tasks = cells.reduce((sum, cell) => sum + cell.tasks, 0);
  if (!tasks) return null;
  const value = cells.reduce((sum, cell) => sum + cell.rho * cell.tasks, 0) / tasks;
  return { value, count: tasks, text: percent(value), small: `${tasks} ${tasks === 1 ? "task" : "tasks"}` };
}

function gamesOf([played]) {
  if (!played) return null;
  const [won, drawn, lost] = ["student", "draw", "teacher"].map((side) => played.outcomes[side] ?? 0);
  const games = won + drawn + lost;
  const none = played.outcomes.none;
  return {
    value: games ? (won + drawn / 2) / games : null,
    count: games,
    text: `${won}-${drawn}-${lost}`,
    small: none ? `${none} without a game` : null,
  };
}

/** The colour of a value: always the same one, whatever the others are. A few tasks say too little to have one. */
function heat({ value, count }) {
  if (value === null || count < SURE) return "cell";
  return `cell heat-${Math.min(LEVELS - 1, Math.floor(value * LEVELS))}`;
}

function cell(pair, link) {
  if (!pair) return h("td", { class: "soft" }, "–");
  const content = [pair.text, pair.small && h("small", {}, pair.small)];
  return h("td", { class: heat(pair) }, link ? h("a", { href: link }, content) : content);
}

function linkOf(page, teacher, student, kind) {
  return page.link("/tasks", { teacher: teacher.name, student: student.name, kind });
}

function legend(games) {
  const ends = (i) => `${(100 / LEVELS) * i} to ${(100 / LEVELS) * (i + 1)}%`;
  const boxes = Array.from({ length: LEVELS }, (_, i) => h("li", { class: `heat-${i}` }, ends(i)));
  const what = games ? "the student's share of the games" : "solved";
  const few = h("li", { class: "soft" }, `without a colour: fewer than ${SURE} ${games ? "games" : "tasks"}`);
  return h("ul", { class: "heat-key", "aria-label": "what the colours mean" }, h("li", {}, what), boxes, few);
}
