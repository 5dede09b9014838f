// A finished run with replayed time: curves up to a moment, and what each path has received by then.

import { colour, plot, width } from "./plot.js";
import { moment, rate, share, size } from "./numbers.js";

const COLOURS = ["--sent", "--cross", "--received", "--trouble", "--violet", "--capacity"];
const HEIGHT = 300;
// Longer runs are replayed in so many seconds, shorter ones as fast as they were.
const LONGEST = 15;

const get = (id) => document.getElementById(id);
const run = JSON.parse(get("run").textContent);
const last = run.times.length - 1;
const lines = run.courses.map(({ name, is_limit }, at) => ({
  label: name,
  stroke: is_limit ? "--capacity" : COLOURS[at % COLOURS.length],
  dash: is_limit ? [6, 4] : at >= COLOURS.length ? [2, 3] : undefined,
}));
const panels = [
  { title: "Received", format: size, least: 1e3, values: run.courses.map((course) => course.received) },
  { title: "Throughput", format: rate, least: 1e3, values: run.courses.map((course) => course.rates) },
];
let plots = [];
let shown = last;

function make() {
  plots.forEach((made) => made.destroy());
  get("charts").replaceChildren();
  const x = { range: () => [0, run.times[last]], short: moment, whole: moment };
  plots = panels.map(({ title, format, least }) =>
    plot(get("charts"), { title, lines, format, least, height: HEIGHT, key: "run", x }));
  show(shown);
}

// Shows the run up to point `at`. The limit is known from the start; axes are those of the whole run.
function show(at) {
  shown = at;
  const past = (values, { is_limit }) => (is_limit ? values : values.map((value, point) => (point <= at ? value : null)));
  plots.forEach((made, panel) => {
    const { values, least } = panels[panel];
    const highest = Math.max(least, ...values.flat());
    made.setData([run.times, ...values.map((column, course) => past(column, run.courses[course]))], false);
    made.batch(() => {
      made.setScale("x", { min: 0, max: run.times[last] });
      made.setScale("y", { min: 0, max: 1.1 * highest });
    });
    if (made.cursor.left < 0) made.setLegend({ idx: at });
  });
  get("moment").value = at;
  get("moment").setAttribute("aria-valuetext", moment(run.times[at]));
  get("when").textContent = moment(run.times[at]);
  run.courses.forEach(({ received, rates, whole, end_s, is_complete, is_limit }, course) => {
    const cells = get("now").rows[course].cells;
    const over = at === last || run.times[at] >= end_s;
    const bytes = over ? whole : received[at];
    cells[1].textContent = size(bytes);
    cells[2].textContent = is_complete ? share(whole > 0 ? bytes / whole : 0) : "–";
    cells[3].textContent = over ? "–" : rate(rates[at]);
    cells[4].textContent = over ? `${end(is_complete, is_limit, whole)} ${moment(end_s)}` : "";
  });
}

// What was reached at the end of a course. One that is not complete may have been stopped, or may have had no end.
function end(is_complete, is_limit, whole) {
  if (is_limit) return "possible after";
  if (is_complete) return "over after";
  return whole > 0 ? "last byte after" : "nothing after";
}

function table() {
  run.courses.forEach(({ name }, at) => {
    const row = get("now").insertRow();
    const head = document.createElement("th");
    head.scope = "row";
    const swatch = document.createElement("i");
    swatch.className = "swatch";
    swatch.dataset.colour = lines[at].stroke;
    head.append(swatch, name);
    row.append(head);
    for (let cell = 0; cell < 4; cell += 1) row.insertCell().className = "number";
  });
}

// The colours of the swatches are those of the curves.
function paint() {
  for (const swatch of document.querySelectorAll("[data-colour]")) swatch.style.background = colour(swatch.dataset.colour);
}

let frame = null;

function stop() {
  cancelAnimationFrame(frame);
  frame = null;
  get("play").textContent = "Replay";
}

function play() {
  if (frame !== null) return stop();
  get("play").textContent = "Stop";
  const from = shown === last ? 0 : shown;
  const speed = Math.max(1, run.times[last] / LONGEST);
  let began = null;
  const step = (now) => {
    began ??= now;
    const time = run.times[from] + ((now - began) / 1000) * speed;
    const next = run.times.findIndex((value) => value >= time);
    show(next < 0 ? last : next);
    if (next < 0 || next === last) stop();
    else frame = requestAnimationFrame(step);
  };
  frame = requestAnimationFrame(step);
}

get("moment").max = last;
get("moment").addEventListener("input", () => {
  stop();
  show(Number(get("moment").value));
});
get("play").addEventListener("click", play);
matchMedia("(prefers-color-scheme: dark)").addEventListener("change", () => {
  make();
  paint();
});
new ResizeObserver(() => {
  const size = { width: width(get("charts")), height: HEIGHT };
  plots.filter((made) => made.width !== size.width).forEach((made) => made.setSize(size));
}).observe(get("charts"));
table();
make();
paint();
document.body.dataset.ready = "yes";
