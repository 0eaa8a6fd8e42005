// Every member that ever lived, teachers and students apart: their ratings have no common meaning.

import { h, table, number } from "../dom.js";

const ROLES = { teacher: "Teachers", student: "Students", both: "The single agent" };
const COLUMNS = [
  ["member", ""],
  ["rating", "right"],
  ["fitness", "right"],
  ["won-drawn-lost", "right"],
  ["games", "right"],
  ["age", "right"],
  ["born", ""],
  ["parents", ""],
  ["operator", ""],
  ["end", ""],
];

export const league = {
  api: "league",
  title: "League",
  render(root, { members, champions }, page) {
    const parts = Object.entries(ROLES).map(([role, title]) => {
      const rows = members.filter((member) => member.role === role).map((member) => row(member, page));
      return rows.length ? [h("h2", {}, title), table(COLUMNS, rows, title)] : [];
    });
    if (champions.length) parts.push(hall(champions, page));
    root.replaceChildren(
      h("h1", {}, "League table"),
      h(
        "p",
        { class: "soft" },
        "A rating is TrueSkill: mean ± deviation. It is relative to the opponents of the day. " +
          "The living come first, the fittest on top; those that were replaced are pale.",
      ),
      ...parts.flat(),
    );
  },
};

function row(member, page) {
  const rating = member.mu === null ? "–" : `${number(member.mu, 1)} ± ${number(member.sigma, 1)}`;
  return {
    className: member.died === null ? "" : "dead",
    cells: [
      page.memberLink(member.name),
      rating,
      number(member.last),
      member.record ? member.record.join("-") : "–",
      member.games,
      `${member.age} steps`,
      member.born ? `step ${member.born}` : "start",
      member.parents.length ? member.parents.map((name, i) => [i ? " + " : "", page.memberLink(name)]) : "–",
      member.parents.length ? member.operator : "–",
      member.died === null ? "lives" : `replaced after step ${member.died}`,
    ],
  };
}

function hall(champions, page) {
  const columns = [
    ["champion", ""],
    ["rating", "right"],
    ["fitness", "right"],
    ["entered", ""],
  ];
  const rows = champions.map((each) => ({
    cells: [
      [each.name, " of ", page.memberLink(each.member)],
      `${number(each.mu, 1)} ± ${number(each.sigma, 1)}`,
      number(each.fitness),
      `step ${each.step}`,
    ],
  }));
  return [
    h("h2", {}, "Hall of fame"),
    h("p", { class: "soft" }, "Frozen copies of members, whom the living still meet."),
    table(columns, rows, "hall of fame"),
  ];
}
