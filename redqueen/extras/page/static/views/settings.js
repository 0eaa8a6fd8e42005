// What a run was told, and where it ran.

import { factList, h, settingName, table } from "../dom.js";

export const settings = {
  api: "settings",
  title: "Settings",
  fixed: true, // what a reader searched for stays while the run goes on
  render(root, { recipe, settings: rows, sessions }) {
    const chosen = rows.filter((row) => row.chosen);
    const search = h("input", { type: "search", id: "find-setting", "data-filter": true, placeholder: "a name, such as lr" });
    const list = h("div");
    const more = h("details", {}, h("summary", {}, `all ${rows.length} settings`), list);
    const draw = () => {
      const words = search.value.toLowerCase().split(/\s+/).filter(Boolean);
      const found = rows.filter((row) => words.every((word) => `${row.key} ${row.text}`.toLowerCase().includes(word)));
      more.open = more.open || words.length > 0;
      list.replaceChildren(found.length ? all(found, "all settings") : h("p", {}, "No setting matches."));
    };
    search.addEventListener("input", draw);
    draw();
    root.replaceChildren(
      h("h1", {}, "Settings and environment"),
      h("h2", {}, `Changed from the recipe ${recipe}`),
      chosen.length ? all(chosen, "settings chosen for this run") : h("p", {}, "Nothing: every setting is the recipe's."),
      ...sessions.flatMap((session, i) => [
        h("h2", {}, i ? `Session ${i + 1}: resumed` : "Where it ran"),
        factList(session.map(([name, value]) => [name, h("code", {}, value)])),
      ]),
      h("h2", {}, "All settings"),
      h("label", { class: "choices" }, "find a setting ", search),
      more,
    );
  },
};

function all(rows, caption) {
  const columns = [["setting", ""], ["value", "short"], ["recipe", "short"], ["default", "short"], ["meaning", "wrap"]];
  const code = (value) => h("code", {}, value || "(empty)");
  const unless = (row, value) => (value === row.value ? "the same" : code(value));
  const lines = rows.map((row) => ({
    cells: [
      settingName(row.key),
      code(row.value),
      row.recipe === null ? "–" : unless(row, row.recipe),
      unless(row, row.default),
      row.text,
    ],
  }));
  return table(columns, lines, caption);
}
