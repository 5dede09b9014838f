// One chart of several lines: its frame, axes and legend, in the colours of the style sheet.

// uPlot draws on a canvas: colours are read when a chart is made.
export const colour = (name) => getComputedStyle(document.documentElement).getPropertyValue(name).trim();

// Adds a chart with its caption to `parent`. `lines` have a label, a colour of the style sheet and, if dashed, their dash;
// `x` has the values of the axis as text (short on the axis, whole in the legend), and may have a range and steps of its own.
// `steps` are the distances of the values beside the other axis, or `splits` these values, if not those that fit. `marks` draws below
// the lines, `over` above them; `pointed` hears of each move of the pointer.
export function plot(parent, { title, lines, format, least, splits, steps, height, key, x, marks, over, pointed }) {
  const figure = document.createElement("figure");
  const caption = document.createElement("figcaption");
  caption.textContent = title;
  figure.append(caption);
  parent.append(figure);
  const grid = { stroke: colour("--line"), width: 1 };
  const axis = { stroke: colour("--quiet"), font: "12px system-ui, sans-serif", grid, ticks: grid };
  const made = new uPlot({
    // Slopes without stairs.
    width: width(parent), height, pxAlign: 0,
    cursor: { sync: { key }, drag: { x: false, y: false } },
    legend: { live: true },
    scales: {
      x: { time: false, range: x.range },
      y: { range: (_, low, high) => [0, splits ? least : Math.max(1.1 * (high ?? 0), least)] },
    },
    axes: [
      { ...axis, size: 32, space: 70, ...(x.steps && { incrs: x.steps }), values: (_, splits) => splits.map(x.short) },
      { ...axis, size: 84, ...(splits && { splits: () => splits }), ...(steps && { incrs: steps }), values: (_, splits) => splits.map(format) },
    ],
    series: [
      { label: "time", value: (_, value) => (typeof value === "number" ? x.whole(value) : "–") },
      ...lines.map(({ label, stroke, dash }) => ({
        label, dash, stroke: colour(stroke), width: 1.75, pxAlign: 0, points: { show: false },
        value: (_, value) => format(value),
      })),
    ],
    hooks: { ...(marks && { drawClear: [marks] }), ...(over && { draw: [over] }), ...(pointed && { setCursor: [pointed] }) },
  }, [[], ...lines.map(() => [])], figure);
  made.root.querySelector("canvas").setAttribute("aria-hidden", "true");
  return made;
}

// The width of a chart in the grid of `parent`.
export function width(parent) {
  const style = getComputedStyle(parent);
  const columns = style.gridTemplateColumns.split(" ").length;
  const gap = parseFloat(style.columnGap) || 0;
  return Math.max(240, Math.floor((parent.clientWidth - gap * (columns - 1)) / columns) - 2);
}
