// The runs of a folder. Some of them can be chosen and compared.

import { ago, clock, h, percent, table } from "../dom.js";

const COLUMNS = [
  ["run", ""],
  ["compare", ""],
  ["state", ""],
  ["step", "right"],
  ["left", "right"],
  ["better than the start", ""],
  ["verdict", ""],
  ["solved", "right"],
  ["last step", ""],
  ["seed", "right"],
  ["base", ""],
  ["recipe", "wrap"],
];

export const runs = {
  api: "runs",
  title: "Runs",
  render(root, { folder, runs: found }, page) {
    const rows = found.map(row);
    const compare = (event) => {
      event.preventDefault();
      page.go(page.compareLink(new FormData(event.target).getAll("with")));
    };
    const before = new Set([...root.querySelectorAll("input[name=with]:checked")].map((box) => box.value));
    root.replaceChildren(
      h("h1", {}, `Runs in ${folder}`),
      h(
        "form",
        { submit: compare },
        table(COLUMNS, rows, "runs"),
        found.length > 1 && h("p", {}, h("button", {}, "compare the chosen runs")),
      ),
    );
    for (const box of root.querySelectorAll("input[name=with]")) box.checked = before.has(box.value);
  },
};

function row(run) {
  const address = run.name ? `/?${new URLSearchParams({ run: run.name })}` : "/";
  const link = h("a", { href: address, "data-row": true }, run.title);
  if (run.error) return { cells: [link, "", h("span", { class: "error" }, "cannot be read"), ...Array(8).fill(""), run.error] };
  const box = h("input", { type: "checkbox", name: "with", value: run.name, "aria-label": `compare ${run.title}` });
  return {
    cells: [
      link,
      box,
      h("span", { class: `badge ${run.course}` }, run.course),
      `${run.step} of ${run.steps}`,
      run.seconds_left === null ? "" : clock(run.seconds_left),
      run.better,
      run.verdict,
      percent(run.solve_rate),
      run.written === null ? "" : ago(run.written),
      run.seed,
      run.base,
      `${run.recipe}, ${run.members}`,
    ],
  };
}
