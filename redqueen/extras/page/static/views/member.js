// A member's life: rating, games, family, and the tasks that went best and worst.

import { factList, h, number, soft, table } from "../dom.js";
import { drawPanels } from "../charts.js";
import { taskRows } from "./task_rows.js";

const ROLES = { teacher: "teacher", student: "student", both: "single agent, teacher and student" };

export const member = {
  api: "member",
  title: "Member",
  render(root, data, page) {
    const { life } = data;
    let curves = root.querySelector(`.curves[data-member="${CSS.escape(life.name)}"]`);
    if (!curves) curves = h("div", { class: "curves", "data-member": life.name });
    const teaches = life.role !== "student";
    const all = page.link("/tasks", teaches ? { teacher: life.name } : { student: life.name });
    root.replaceChildren(
      h("h1", {}, `${life.name}, ${ROLES[life.role]}`),
      facts(data, page),
      h("h2", {}, "Course"),
      curves,
      h("h2", {}, teaches ? "Tasks that paid most" : "Tasks it solved best"),
      rows(data.best, page),
      h("h2", {}, teaches ? "Valid tasks that paid least" : "Tasks it solved least"),
      rows(data.worst, page),
      h(
        "p",
        {},
        h("a", { href: all }, `all tasks of ${life.name}`),
        teaches && [
          " · ",
          h("a", { href: page.link("/tasks", { teacher: life.name, status: "refused" }) }, "refused proposals"),
        ],
      ),
      h("h2", {}, "Games"),
      games(data, page),
    );
    drawPanels(curves, panels(data), {
      linkOf: (step) => page.link("/tasks", { [teaches ? "teacher" : "student"]: life.name, from: step, to: step }),
      go: page.go,
    });
  },
};

function facts({ life, children, successor }, page) {
  const names = (list) => (list.length ? list.map((name, i) => [i ? ", " : "", page.memberLink(name)]) : "none");
  const lines = [
    ["born", life.born ? `step ${life.born}, by ${life.operator}` : "at the start"],
    ["parents", names(life.parents)],
    life.victim && ["took the place of", page.memberLink(life.victim)],
    ["children", names(children)],
    [
      "end",
      life.died === null
        ? "lives"
        : [`replaced after step ${life.died}`, successor && [" by ", page.memberLink(successor)]],
    ],
    ["age", `${life.age} steps, ${life.games} games`],
    ["won-drawn-lost", life.record ? life.record.join("-") : "–"],
    ["rating", life.mu === null ? "–" : `${number(life.mu)} ± ${number(life.sigma)}`],
    ["fitness", number(life.last)],
  ];
  return factList(lines);
}

function panels({ rating, games, life }) {
  const steps = rating.map((each) => each.step);
  const panel = { section: "life", low: null, high: null, steps };
  const scores = new Map(steps.map((step) => [step, []]));
  for (const game of games) if (game.score !== null) scores.get(game.step)?.push(game.score);
  const mean = (list) => (list?.length ? list.reduce((sum, value) => sum + value, 0) / list.length : null);
  // A score above 0 is the student's; a teacher's curve is turned round, so that up is good for the member that is shown.
  const sign = life.role === "teacher" ? -1 : 1;
  const drawn = [
    {
      ...panel,
      key: "rating",
      title: "Rating",
      unit: "rating",
      note: "TrueSkill after each step: mu, and a band of one sigma on both sides.",
      plain: true,
      curves: [
        {
          label: "mu",
          values: rating.map((each) => each.mu),
          low: rating.map((each) => each.mu - each.sigma),
          high: rating.map((each) => each.mu + each.sigma),
        },
      ],
    },
    {
      ...panel,
      key: "fitness",
      plain: true,
      title: "Fitness",
      unit: "",
      note: "What selection ranks by.",
      curves: [{ label: "fitness", values: rating.map((each) => each.fitness) }],
    },
  ];
  if (life.role !== "both") {
    drawn.push({
      ...panel,
      key: "score",
      title: "Score of its games",
      unit: "",
      note: "Mean over its tasks of solve rate less par, with the sign that is good for this member; 0 is even.",
      curves: [
        {
          label: "score",
          values: steps.map((step) => {
            const value = mean(scores.get(step));
            return value === null ? null : value * sign;
          }),
        },
      ],
    });
  }
  return drawn;
}

function rows(tasks, page) {
  return tasks.length ? taskRows(tasks, page) : soft("none yet");
}

function games({ games: played }, page) {
  if (!played.length) return soft("none yet");
  const columns = [["step", "right"], ["teacher", ""], ["student", ""], ["outcome", ""], ["score", "right"]];
  const rows = [...played].reverse().map((game) => ({
    cells: [
      h(
        "a",
        { href: page.link("/tasks", { teacher: game.teacher, student: game.student, from: game.step, to: game.step }) },
        game.step,
      ),
      page.memberLink(game.teacher.split("@")[0], game.teacher),
      page.memberLink(game.student.split("@")[0], game.student),
      { student: "the student won", draw: "drawn", teacher: "the teacher won" }[game.outcome] ?? "no game",
      number(game.score),
    ],
  }));
  return table(columns, rows, "games");
}
