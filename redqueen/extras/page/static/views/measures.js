// What a valid task is like; docs/reference/METRICS.md defines each measure.

import { factList, h, number, percent, table } from "../dom.js";

const SIZES = [
  ["nodes", "AST nodes"],
  ["depth", "AST depth"],
  ["node_types", "distinct node types"],
  ["cyclomatic", "cyclomatic complexity"],
  ["lines", "lines"],
  ["variables", "variables"],
];

export function measuresSection(found) {
  if (!found) return [];
  const rows = SIZES.map(([key, name]) => ({ cells: [name, found[`written_${key}`], found[`reached_${key}`]] }));
  const columns = [["", ""], ["as written", "right"], ["reached", "right"]];
  return [h("h2", {}, "Measures"), table(columns, rows, "measures of the program"), factList(facts(found))];
}

function facts(found) {
  return [
    ["types", h("code", {}, found.signature)],
    ["size of the inputs", number(found.input_size, 1)],
    ["size of the outputs", number(found.output_size, 1)],
    ["functions used", h("code", {}, found.functions || "none")],
    ["up to names and constants", found.new_shape ? "new in this run" : "seen before"],
    ["new paths in the tree", found.new_paths],
    ["repeated", found.repeated ? "yes: an earlier task of the run is the same" : "no"],
    ["called on fixed inputs", behaviour(found)],
  ];
}

function behaviour(found) {
  if (found.typed_inputs === null) return "no";
  const echo = found.echo ? ", and its output as an input gives the output again" : "";
  return (
    `${found.typed_inputs}: ${found.distinct_outputs} distinct outputs, ` +
    `${percent(found.same_output_rate)} give the task's own${echo}`
  );
}
