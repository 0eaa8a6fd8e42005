// The runs of a folder.

import { h, table, clock } from "../dom.js";

export const runs = {
  api: "runs",
  title: "Runs",
  render(root, { folder, runs: found }) {
    const rows = found.map((run) => {
      const link = h(
        "a",
        { href: run.name ? `/?${new URLSearchParams({ run: run.name })}` : "/", "data-row": true },
        run.title,
      );
      if (run.error) return { cells: [link, h("span", { class: "error" }, "cannot be read"), "", "", "", run.error] };
      const left = run.seconds_left === null ? "" : clock(run.seconds_left);
      return {
        cells: [
          link,
          h("span", { class: `badge ${run.course}` }, run.course),
          `${run.step} of ${run.steps}`,
          left,
          run.seed,
          `${run.recipe}, ${run.members}`,
        ],
      };
    });
    const columns = [
      ["run", ""],
      ["state", ""],
      ["step", "right"],
      ["left", "right"],
      ["seed", "right"],
      ["recipe", "wrap"],
    ];
    root.replaceChildren(h("h1", {}, `Runs in ${folder}`), table(columns, rows, "runs"));
  },
};
