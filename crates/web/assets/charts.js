// The curves of the link and its events over one time axis.

import { clock, count, rate, share, size, time } from "./numbers.js";
import { colour, plot, width } from "./plot.js";

const LENGTHS = { minutes: 300, hour: 3600, day: 86400 };
// There is no half of a connection.
const WHOLE = [1, 2, 5].flatMap((digit) => [0, 1, 2, 3, 4, 5].map((power) => digit * 10 ** power)).sort((a, b) => a - b);
const CHARTS = [
  { title: "Rates", format: rate, least: 1e3, lines: [
    ["configured_bps", "capacity, configured", "--capacity", [6, 4]],
    ["estimated_bps", "capacity, estimated", "--violet", [6, 4]],
    ["reported_bps", "capacity, reported", "--ink", [6, 4]],
    ["sent_bps", "sent", "--sent"],
    ["received_bps", "received", "--received"], ["cross_traffic_bps", "cross traffic", "--cross"]] },
  { title: "Round-trip time", format: time, least: 0.01, lines: [
    ["rtt_s", "measured (median of peers)", "--sent"], ["link_rtt_s", "link", "--capacity", [6, 4]],
    [queueing, "queueing", "--cross"]] },
  { title: "Loss and repair", format: share, least: 0.01, lines: [
    ["loss", "packets lost", "--trouble"], ["retransmitted", "bytes retransmitted", "--cross"],
    ["repair", "FEC repair bytes", "--sent"]] },
  { title: "Data waiting for ACK", format: size, least: 10e3, lines: [["waiting_bytes", "waiting", "--sent"]] },
  { title: "Relayed connections", format: count, least: 5, steps: WHOLE, lines: [["streams", "connections", "--received"]] },
];
const HEIGHT = 180;
// Kinds of events, each a lane; the first is the lowest.
const LANES = ["gateway", "clock", "mtu", "bypass", "link", "peer"];
// A pointer as near as this is at an event, in pixels.
const NEAR = 8;

// What round trips take longer than the link needs.
function queueing(column) {
  const link = column("link_rtt_s");
  return column("rtt_s").map((rtt, at) => (rtt === null || link[at] === null ? null : Math.max(0, rtt - link[at])));
}

export class Charts {
  #parent;
  #plots = [];
  #note = null;
  #history = null;
  #events = [];

  constructor(parent) {
    this.#parent = parent;
    matchMedia("(prefers-color-scheme: dark)").addEventListener("change", () => this.#make());
    new ResizeObserver(() => this.#fit()).observe(parent);
  }

  get span() {
    return this.#history?.span;
  }

  get step() {
    return this.#history?.step_s;
  }

  // Replaces all points by those of `history`.
  load(history) {
    this.#history = history;
    if (this.#plots.length === 0) this.#make();
    this.#draw();
  }

  // Adds the point of one second.
  add(when, point) {
    const { times, columns, fields, step_s } = this.#history ?? {};
    if (step_s !== 1 || when <= (times.at(-1) ?? 0)) return;
    times.push(when);
    columns.forEach((column, at) => column.push(point[fields[at]]));
    while (times.length > LENGTHS.minutes) {
      times.shift();
      columns.forEach((column) => column.shift());
    }
    this.#draw();
  }

  mark(events) {
    this.#events = events;
    this.#tell();
  }

  #make() {
    if (!this.#history) return;
    this.#plots.forEach(({ plot }) => plot.destroy());
    this.#parent.replaceChildren();
    this.#plots = [...CHARTS.map((chart) => this.#chart(chart)), this.#timeline()];
    this.#draw();
  }

  // Time as all charts show it.
  #time() {
    return {
      range: () => this.#range(), short: (value) => clock(value, false), whole: (value) => clock(value),
      steps: [30, 60, 120, 300, 600, 900, 1800, 3600, 7200, 10800, 21600, 43200, 86400],
    };
  }

  // Events in a lane for each kind, on the same axis; the one at the pointer, or the latest, is told below.
  #timeline() {
    const format = (lane) => LANES[lane - 0.5] ?? "";
    const splits = LANES.map((_, lane) => lane + 0.5);
    const made = plot(this.#parent, {
      title: "Events", lines: [], format, least: LANES.length, splits, height: HEIGHT, key: "link", x: this.#time(),
      over: (timeline) => this.#dots(timeline), pointed: (timeline) => this.#tell(timeline.cursor.left),
    });
    this.#note = document.createElement("p");
    this.#note.className = "note told";
    made.root.parentElement.append(this.#note);
    this.#tell();
    return { plot: made, lines: [] };
  }

  #dots(plot) {
    const { ctx } = plot;
    ctx.save();
    for (const event of this.#shown()) {
      const lane = LANES.indexOf(event.kind) + 0.5;
      const [x, y] = [plot.valToPos(event.time, "x", true), plot.valToPos(lane, "y", true)];
      const size = 4 * devicePixelRatio;
      ctx.fillStyle = colour(event.is_trouble ? "--trouble" : "--sent");
      ctx.beginPath();
      // Trouble is told apart by its shape, too.
      if (event.is_trouble) ctx.rect(x - size, y - size, 2 * size, 2 * size);
      else ctx.arc(x, y, size, 0, 2 * Math.PI);
      ctx.fill();
    }
    ctx.restore();
  }

  // The events in the time shown, the latest first.
  #shown() {
    const [start, end] = this.#range();
    return this.#events.filter((event) => event.time >= start && event.time <= end);
  }

  #tell(left = -1) {
    if (!this.#note) return;
    const timeline = this.#plots.at(-1)?.plot;
    const isNear = (event) => Math.abs(timeline.valToPos(event.time, "x") - left) <= NEAR;
    const shown = this.#shown();
    const told = (timeline && left >= 0 && shown.find(isNear)) || shown[0];
    const text = told ? `${clock(told.time)} ${told.kind}: ${told.text}` : "none in the time shown";
    if (this.#note.textContent !== text) this.#note.textContent = text;
  }

  #chart({ title, format, least, steps, lines }) {
    const x = this.#time();
    const marks = (made) => this.#marks(made);
    const shown = lines.map(([, label, stroke, dash]) => ({ label, stroke, dash }));
    const made = plot(this.#parent, { title, lines: shown, format, least, steps, height: HEIGHT, key: "link", x, marks });
    return { plot: made, lines };
  }

  // A line at each event; those of trouble stand out.
  #marks(plot) {
    const { ctx, bbox } = plot;
    ctx.save();
    ctx.lineWidth = devicePixelRatio;
    for (const event of this.#shown()) {
      const x = Math.round(plot.valToPos(event.time, "x", true)) + 0.5;
      ctx.strokeStyle = colour(event.is_trouble ? "--trouble" : "--mark");
      ctx.setLineDash(event.is_trouble ? [] : [2, 3]);
      ctx.beginPath();
      ctx.moveTo(x, bbox.top);
      ctx.lineTo(x, bbox.top + bbox.height);
      ctx.stroke();
    }
    ctx.restore();
  }

  #range() {
    const end = this.#history?.times.at(-1) ?? Date.now() / 1000;
    return [end - LENGTHS[this.#history?.span ?? "minutes"], end];
  }

  #draw() {
    if (!this.#history || this.#parent.offsetWidth === 0) return;
    const { times, columns, fields } = this.#history;
    const column = (field) => (typeof field === "function" ? field(column) : columns[fields.indexOf(field)]);
    for (const { plot, lines } of this.#plots) {
      const values = lines.map(([field]) => column(field));
      plot.setData([times, ...values]);
      // A source of capacity that was never in use has no place in the legend.
      const entries = plot.root.querySelectorAll(".u-legend .u-series");
      values.forEach((shown, at) => {
        const isKnown = times.length === 0 || shown.some((value) => value !== null);
        entries[at + 1].style.display = isKnown ? "" : "none";
      });
      // Without a pointer, the legend shows the latest values.
      if (times.length > 0 && plot.cursor.left < 0) plot.setLegend({ idx: times.length - 1 });
    }
    this.#tell(this.#plots.at(-1)?.plot.cursor.left);
  }

  #fit() {
    if (this.#parent.offsetWidth === 0) return;
    const size = { width: width(this.#parent), height: HEIGHT };
    for (const { plot } of this.#plots) if (plot.width !== size.width) plot.setSize(size);
    this.#draw();
  }
}
