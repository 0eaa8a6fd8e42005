// Curves as numbers and looks: smoothing, curves that are alike, hues and dashes, values as text. It draws nothing.

// The first four are Okabe and Ito's, as in redqueen/analysis/hues.py. Their amber and sky blue are too pale on white, so
// these two are darker. Beyond them, and for readers who see no colours, dashes differ.
export const HUES = ["#0072B2", "#D55E00", "#009E73", "#CC79A7", "#B07D00", "#3F97CF"];
const DASHES = [[], [7, 5], [2, 4], [11, 4, 2, 4]];
const SHORT = 30; // up to so many steps nothing is smoothed unless a reader asks for it

export function hue(i) {
  return HUES[i % HUES.length];
}

export function dash(i) {
  return DASHES[Math.floor(i / HUES.length + (i % HUES.length)) % DASHES.length];
}

/** How many steps a mean is over if the reader leaves it to the page: an odd number, about a twelfth of a long run. */
export function usualWindow(steps) {
  return steps <= SHORT ? 1 : 2 * Math.round(steps / 24) + 1;
}

/** The mean of the `window` values around each one, of fewer at the ends. A gap stays a gap and counts nowhere. */
export function smooth(values, window) {
  if (window <= 1) return values;
  const half = Math.floor(window / 2);
  const sums = [0];
  const counts = [0];
  for (const value of values) {
    sums.push(sums.at(-1) + (value ?? 0));
    counts.push(counts.at(-1) + (value === null ? 0 : 1));
  }
  return values.map((value, i) => {
    if (value === null) return null;
    const from = Math.max(0, i - half);
    const to = Math.min(values.length, i + half + 1);
    return (sums[to] - sums[from]) / (counts[to] - counts[from]);
  });
}

/** For each curve, the first one before it that it covers from end to end; null where there is none. */
export function covered(curves) {
  return curves.map((curve, i) => {
    const same = (other) => other.values.every((value, at) => near(value, curve.values[at]));
    const first = curves.findIndex(same);
    return first < i ? first : null;
  });
}

function near(one, other) {
  if (one === null || other === null) return one === other;
  return Math.abs(one - other) <= 1e-9 * Math.max(1, Math.abs(one), Math.abs(other));
}

/** Formats a value of a panel; `step` is the distance of two ticks of an axis. */
export function format(value, unit, step = null) {
  if (value === null || value === undefined) return "–";
  if (unit === "share")
    return `${step === null ? (value * 100).toFixed(0) : trim((value * 100).toFixed(step < 0.1 ? 1 : 0))}%`;
  // A tick between two tenths must not be rounded to one of them.
  const digits = step !== null && step < 0.5 && (step * 10) % 1 ? 2 : 1;
  if (unit === "points") return `${value > 0 ? "+" : value < 0 ? "−" : ""}${trim(Math.abs(value).toFixed(digits))}`;
  const size = Math.abs(value);
  if (size >= 1e6) return `${trim((value / 1e6).toFixed(2))}M`;
  if (size >= 1e4) return `${trim((value / 1e3).toFixed(1))}k`;
  if (step !== null) return trim(value.toFixed(step >= 1 ? 1 : step >= 0.1 ? 2 : step >= 0.01 ? 3 : 5));
  return Number.isInteger(value)
    ? String(value)
    : size >= 100
      ? value.toFixed(0)
      : size >= 0.1
        ? value.toFixed(2)
        : value.toPrecision(2);
}

function trim(text) {
  return text.includes(".") ? text.replace(/\.?0+$/, "") : text;
}

/** Says a panel's curves in a sentence each, for readers who do not see them. */
export function inWords(panel) {
  const along = panel.along ?? "step";
  const sentences = panel.curves.map((curve) => {
    const known = curve.values.map((value, i) => [panel.steps[i], value]).filter(([, value]) => value !== null);
    if (!known.length) return `${curve.label}: no value.`;
    const [[first, from], [last, to]] = [known[0], known.at(-1)];
    const values = known.map(([, value]) => value);
    const text = (value) => format(value, panel.unit);
    if (known.length === 1) return `${curve.label}: ${text(from)} at ${along} ${first}.`;
    const range = `lowest ${text(Math.min(...values))}, highest ${text(Math.max(...values))}`;
    return `${curve.label}: ${text(from)} at ${along} ${first}, ${text(to)} at ${along} ${last}; ${range}.`;
  });
  return sentences.join(" ");
}
