// Tasks as rows of a list: the browser's, and a member's best and worst.

import { h, percent, signed } from "../dom.js";

export function taskRows(tasks, page) {
  const rows = tasks.map((task) => {
    const facts = [
      h("strong", {}, task.id),
      h("span", {}, `step ${task.step}`),
      h("span", {}, task.kind),
      h("span", {}, `${task.author} → ${task.student}`),
      task.status === "valid" ? h("span", {}, `solved ${percent(task.rho)}`) : h("span", { class: "bad" }, task.status),
      h("span", {}, `paid ${signed(task.reward)}`),
      task.nodes !== null && task.nodes !== undefined && h("span", {}, `${task.nodes} nodes`),
      task.novel && h("span", { class: "good" }, "new"),
    ];
    const text = task.message ? `# ${task.message}\n${task.text}` : task.text;
    const link = { href: page.link("/task", { id: task.id }), "data-row": true, id: `row-${task.id}` };
    return h("li", {}, h("a", link, h("span", { class: "what" }, facts), h("pre", {}, text.trim())));
  });
  return h("ol", { class: "rows" }, rows);
}
