// The page: which view is shown, and where the numbers of each document go.

import { Charts } from "./charts.js";
import { count, duration, rate, share, size, time, when } from "./numbers.js";
import { Stream, address } from "./stream.js";
import { Table } from "./tables.js";

const VIEWS = ["link", "peers", "streams", "events"];
const LATEST = 8;
const KEPT = 500;
// A clock that drifts is not set.
const CLOCK_STEP = 0.5;
const SOURCES = {
  configured: "(configured)", estimated: "(estimated from arrivals)", api: "(reported by a program)",
  dlep: "(reported by the modem, DLEP)", last_reported: "(last reported)",
};

const get = (id) => document.getElementById(id);
const say = (id, text) => {
  if (get(id).textContent !== text) get(id).textContent = text;
};

const charts = new Charts(get("charts"));
const tables = Object.fromEntries(["peers", "streams"].map((name) => [name, new Table(get(`view-${name}`), name, show)]));
const stream = new Stream(onDocument, onState);
const events = new Map();
let shown = null;

function current() {
  const named = location.hash.slice(1);
  return VIEWS.includes(named) ? named : "link";
}

// Shows the view of the address; the gateway is asked for its table.
function show() {
  const view = current();
  for (const name of VIEWS) {
    get(`view-${name}`).hidden = name !== view;
    const link = document.querySelector(`nav a[href="#${name}"]`);
    if (name === view) link.setAttribute("aria-current", "page");
    else link.removeAttribute("aria-current");
  }
  shown = view;
  if (view === "events") list(get("all"), latest());
  stream.show(tables[view]?.view ?? { table: "none" });
}

function onState(isLive, refusal) {
  const badge = get("connection");
  badge.classList.toggle("trouble", !isLive);
  say("connection", isLive ? "live" : `${refusal ?? "connection lost"}, trying again`);
  document.body.classList.toggle("stale", !isLive);
}

function onDocument(status, isFirst) {
  const isSet = Math.abs(status.clock_lead_s - (clockLead ?? status.clock_lead_s)) >= CLOCK_STEP;
  [clockLead, gatewayTime] = [status.clock_lead_s, status.time];
  if (isFirst || isSet) loadHistory(true);
  // For those who measure.
  if (isFirst) performance.mark("live");
  head(status);
  link(status);
  take(status.events, !isFirst);
  if (status.point && !isSet) charts.add(status.time, status.point);
  if (tables[shown] && status.table) tables[shown].fill(status.table);
  const isDue = charts.span !== chosenSpan() || (charts.step > 1 && status.time - loaded >= charts.step);
  if (isDue && !request) loadHistory();
}

let loaded = 0;
// The request for the history whose answer is awaited.
let request = null;
// The events that go when the next history has come, with their numbers.
let former = [];
// The gateway's clock: by how much it has been set since the gateway started, and the time of the latest document.
let clockLead = null;
let gatewayTime = 0;

function chosenSpan() {
  return document.querySelector("input[name=span]:checked").value;
}

// Loads the curves and the events, in place of a request that is under way. Events that are known count no more if the gateway may have
// started again, so that its numbers begin at 1, or if its clock has been set.
async function loadHistory(isOther = false) {
  request?.abort();
  const own = new AbortController();
  request = own;
  if (isOther) former = [...events];
  try {
    const response = await fetch(address(`./history?span=${chosenSpan()}`), { signal: own.signal });
    if (!response.ok) return;
    const history = await response.json();
    loaded = history.times.at(-1) ?? gatewayTime;
    // Those that came while the history was under way stay, also in the places of former ones.
    for (const [number, event] of former.splice(0)) if (events.get(number) === event) events.delete(number);
    take(history.events, false);
    charts.load(history);
  } catch {
    // The stream notices that the gateway is gone, and says so.
  } finally {
    if (request === own) request = null;
  }
}

function head({ gateway, peers, peers_up, streams }) {
  document.title = `${gateway.name}: bentpipe`;
  say("name", gateway.name);
  const draining = gateway.is_draining ? ", draining" : "";
  say("about", `transport ${gateway.transport}, up for ${duration(gateway.uptime_s)}${draining}`);
  say("peer-count", `${count(peers_up)}/${count(peers)}`);
  say("stream-count", count(streams));
}

function link(status) {
  const value = (name) => status.point?.[name] ?? null;
  const [sent, cross] = [value("sent_bps"), status.cross_traffic_bps];
  // What others send is not measured everywhere.
  const free = cross === null ? null : Math.max(0, status.capacity_bps - (sent ?? 0) - cross);
  say("capacity", rate(status.capacity_bps));
  say("source", SOURCES[status.capacity_source] ?? "");
  say("sent", rate(sent));
  say("cross", rate(cross));
  say("free", rate(free));
  bar(status.capacity_bps, sent ?? 0, cross ?? 0);
  say("received", rate(value("received_bps")));
  say("rtt", time(value("rtt_s")));
  const rtt = value("rtt_s");
  say("queueing", rtt === null ? "–" : time(Math.max(0, rtt - status.link.rtt_s)));
  say("waiting", size(value("waiting_bytes")));
  for (const name of ["loss", "retransmitted", "repair"]) say(name, share(value(name)));
  say("up", `${count(status.peers_up)} of ${count(status.peers)}`);
  get("up").classList.toggle("trouble", status.peers_up < status.peers);
  say("link-state", linkState(status));
  say("without", status.without ? rate(status.without.throughput_bps) : "–");
  const missing = status.gateway.transport === "tcp"
    ? "Without gateways: not estimated with the tcp transport, which counts no packets."
    : "Without gateways: estimated when the RTT of the link is known and 1000 packets have been sent in 5 minutes, outages not counted.";
  say("estimate", status.without
    ? `Without gateways: an estimate for one connection with CUBIC, end to end and alone on a link of ${time(status.without.rtt_s)} RTT that loses ${share(status.without.loss)} of its packets, as this one in the last 5 minutes without outages.`
    : missing);
}

// The state of the link by modem, programs and configuration.
function linkState({ link, link_updates, modem }) {
  const rates = `${rate(link.rate_bps)} transmit, ${rate(link.receive_rate_bps)} receive, RTT ${time(link.rtt_s)}`;
  const since = link.source === "configured" ? "" : `, for ${duration(link.age_s)}`;
  const sentences = [`Link state (${link.source}${since}): ${rates}.`];
  for (const { source, accepted, rejected } of link_updates) {
    if (accepted + rejected > 0) sentences.push(`Updates by ${source}: ${count(accepted)} accepted, ${count(rejected)} rejected.`);
  }
  if (modem) {
    const figures = [["quality", "%"], ["resources", "%"], ["mtu", "B"]];
    const known = figures.filter(([name]) => modem[name] !== null).map(([name, unit]) => `${name === "mtu" ? "MTU" : name} ${modem[name]} ${unit}`);
    const state = [modem.link_is_up ? "link up" : "link down", ...known].join(", ");
    sentences.push(modem.has_session ? `Modem${modem.name ? ` ${modem.name}` : ""}: ${state}.` : `No session with the modem: ${modem.last_end ?? "not found yet"}.`);
  }
  return sentences.join(" ");
}

function bar(capacity, sent, cross) {
  const total = Math.max(capacity, sent + cross, 1);
  const [first, second] = get("bar").children;
  first.style.width = `${(100 * sent) / total}%`;
  second.style.width = `${(100 * cross) / total}%`;
  get("bar").setAttribute("aria-label", `Use of the link: ${share((sent + cross) / total)}`);
}

// Takes events in; new trouble is read aloud.
function take(found, isNew) {
  if (found.length === 0 && events.size > 0) return;
  for (const event of found) events.set(event.number, event);
  const all = latest();
  for (const event of all.splice(KEPT)) events.delete(event.number);
  charts.mark(all);
  list(get("latest"), all.slice(0, LATEST));
  if (shown === "events") list(get("all"), all);
  const trouble = found.filter((event) => event.is_trouble).at(-1);
  if (isNew && trouble) say("announcement", trouble.text);
}

function latest() {
  return [...events.values()].sort((one, other) => other.number - one.number);
}

function list(target, shown) {
  target.replaceChildren(...shown.map((event) => {
    const item = document.createElement("li");
    const moment = document.createElement("time");
    moment.dateTime = new Date(event.time * 1000).toISOString();
    moment.textContent = when(event.time);
    const kind = document.createElement("span");
    kind.className = event.is_trouble ? "kind trouble" : "kind";
    kind.textContent = event.kind;
    item.append(moment, " ", kind, " ", event.text);
    return item;
  }));
  if (shown.length === 0) target.replaceChildren(Object.assign(document.createElement("li"), { textContent: "none yet" }));
}

for (const input of document.querySelectorAll("input[name=span]")) input.addEventListener("change", () => loadHistory());
addEventListener("hashchange", show);
// The address stays that of the view, to which the browser goes back.
document.querySelector(".skip").addEventListener("click", (event) => {
  event.preventDefault();
  get("main").focus();
});
show();
