// The paper's table: what the base, the single agent and the population solve of problems on which no member was trained.

import { command, h, percent, signed, soft, table } from "../dom.js";

export const evaluation = {
  api: "evaluation",
  title: "Evaluation",
  render(root, { evaluation: found, own, command: how }) {
    const head = h("h1", {}, "Held-out evaluation");
    if (!found) {
      const words = `There is no separate evaluation yet. It compares the students with the bare base, on ${own ? "more" : "held-out"} problems:`;
      root.replaceChildren(head, ...inTraining(own), h("p", {}, words), command(how));
      return;
    }
    const columns = [["", "stay"], ...found.columns.map((column) => [headOf(column), "right"])];
    root.replaceChildren(
      head,
      soft(
        "Right answers and texts cut off by the token limit, in per cent; below them 95 % intervals. No member is trained or selected by these problems.",
      ),
      table(columns, rowsOf(found), "held-out evaluation"),
      ...inTraining(own),
      h("ul", { class: "said" }, found.sentences.map((sentence) => h("li", {}, sentence))),
      h("details", {}, h("summary", {}, "How it was measured"), found.notes.map((note) => soft(note))),
    );
  },
};

/** What the run itself measured last. */
function inTraining(own) {
  if (!own) return [];
  const { step, problems, start, students } = own;
  const points = (share) => (share === null ? "–" : signed(100 * share, 1));
  const interval = ({ gain, low, high }) => {
    if (low !== null) return `${points(low)} to ${points(high)}`;
    return gain === 0 ? "none: no problem changed" : "none";
  };
  const rows = students.map((student) => {
    const { name, rate, gain, newborn } = student;
    return { cells: [newborn ? [name, h("small", {}, " born in that step")] : name, percent(rate), points(gain), interval(student)] };
  });
  const columns = [["student", ""], ["right", "right"], ["points from the start", "right"], ["95 % interval", "right"]];
  return [
    h("h2", {}, "While it trained"),
    soft(`After step ${step}, on ${problems} held-out problems, attempted as in the game. The start solved ${percent(start)}.`),
    table(columns, rows, "held-out scores while it trained"),
  ];
}

/** What a column is; below it the run that it belongs to. */
function headOf({ kind, title, target }) {
  if (kind === "base" || kind === "adapter") return title;
  return [kind === "single agent" ? kind : title, h("small", {}, target)];
}

function rowsOf({ columns, rows, cut_off: shares, tokens }) {
  const scores = rows.map(({ title, average, cells }) => ({
    className: average ? "average" : "",
    cells: [title, ...cells.map(score)],
  }));
  const costs = [
    { className: "soft", cells: ["cut off", ...shares.map((share) => hundredfold(share))] },
    { className: "soft", cells: ["tokens", ...tokens.map((count) => count.toLocaleString("en"))] },
  ];
  return columns.length ? [...scores, ...costs] : scores;
}

function score(found) {
  if (!found) return "–";
  const ends = found.low === null ? null : `${hundredfold(found.low)} to ${hundredfold(found.high)}`;
  return [hundredfold(found.mean), ends && h("small", {}, ends)];
}

function hundredfold(share) {
  return share === null ? "–" : (100 * share).toFixed(1);
}
