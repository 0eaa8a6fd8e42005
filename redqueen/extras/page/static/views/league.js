// Every member that ever lived, teachers and students apart: their ratings have no common meaning.

import { byRole, h, number, soft, table } from "../dom.js";

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
    const rows = (those) => those.map((member) => row(member, page));
    root.replaceChildren(
      h("h1", {}, "League table"),
      soft(
        "A rating is TrueSkill: mean ± deviation. It is relative to the opponents that a member has met, and a newborn has its parents' until it plays. " +
          "The living come first, the fittest on top; those that were replaced are pale.",
      ),
      ...byRole(members, (those, title) => [table(COLUMNS, rows(those), title)]),
      ...(champions.length ? hall(champions, page) : []),
    );
  },
};

function row(member, page) {
  return {
    className: member.died === null ? "" : "dead",
    cells: [
      page.memberLink(member.name),
      rating(member),
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

function rating({ mu, sigma }) {
  return mu === null ? "–" : `${number(mu, 1)} ± ${number(sigma, 1)}`;
}

function hall(champions, page) {
  const columns = [["champion", ""], ["rating", "right"], ["fitness", "right"], ["entered", ""]];
  const rows = champions.map((each) => ({
    cells: [
      [each.name, " of ", page.memberLink(each.member)],
      rating(each),
      number(each.fitness),
      `step ${each.step}`,
    ],
  }));
  return [
    h("h2", {}, "Hall of fame"),
    soft("Frozen copies of past members, which living members still play against."),
    table(columns, rows, "hall of fame"),
  ];
}
