// Tables of which the gateway sends one page, filtered and sorted.

import { count, duration, rate, share, size, time } from "./numbers.js";

const PEERS = [
  { label: "Peer", sort: "name", text: (row) => row.name, isHeader: true },
  { label: "State", sort: "trouble", text: (row) => (row.trouble ? `${row.state}: ${row.trouble}` : row.state),
    isTrouble: (row) => row.state !== "up" || Boolean(row.trouble) },
  { label: "Sent", sort: "sent", text: (row) => rate(row.sent_bps), isNumber: true },
  { label: "Received", sort: "received", text: (row) => rate(row.received_bps), isNumber: true },
  { label: "Lost", sort: "loss", text: (row) => share(row.loss), isNumber: true, isTrouble: (row) => row.loss > 0.05 },
  { label: "Repair", text: (row) => rate(row.repair_bps), isNumber: true },
  { label: "RTT", text: (row) => time(row.rtt_s), isNumber: true },
  { label: "Waiting", text: (row) => size(row.waiting_bytes), isNumber: true },
  { label: "MTU", text: (row) => (row.mtu > 0 ? `${row.mtu} B` : "–"), isNumber: true },
  { label: "Streams", text: (row) => count(row.streams), isNumber: true },
];
const STREAMS = [
  { label: "Client", sort: "name", text: (row) => row.client ?? "–", isHeader: true, isAddress: true },
  { label: "Server", text: (row) => row.server ?? "–", isAddress: true },
  { label: "Peer", text: (row) => `${row.peer} (${row.side})` },
  { label: "Class", text: (row) => row.class ?? "–" },
  { label: "State", text: (row) => row.state },
  { label: "Stalled by", sort: "trouble", text: (row) => (row.stall ? `${row.stall.cause}, ${duration(row.stall.time_s)}` : "–"),
    isTrouble: (row) => row.stall !== null },
  { label: "Age", sort: "age", text: (row) => duration(row.age_s), isNumber: true },
  { label: "From TCP", sort: "sent", text: (row) => rate(row.sent_bps), isNumber: true },
  { label: "To TCP", sort: "received", text: (row) => rate(row.received_bps), isNumber: true },
  { label: "Bytes from", text: (row) => size(row.from_tcp_bytes), isNumber: true },
  { label: "Bytes to", text: (row) => size(row.to_tcp_bytes), isNumber: true },
  { label: "Without, at least", text: (row) => (row.without_s === null ? "–" : duration(row.without_s)), isNumber: true },
];
const PATIENCE = 250;

function element(name, properties = {}, ...children) {
  const made = Object.assign(document.createElement(name), properties);
  made.append(...children);
  return made;
}

export class Table {
  #name;
  #columns;
  #view = { sort: "rate", page: 0, filter: "" };
  #onChange;
  #body = element("tbody");
  #heads = [];
  #status = element("p", { className: "note", textContent: "asking the gateway" });
  // By both directions together: no column shows that.
  #busiest = element("button", { type: "button", textContent: "Busiest first" });
  #previous = element("button", { type: "button", textContent: "Previous" });
  #next = element("button", { type: "button", textContent: "Next" });

  constructor(section, name, onChange) {
    [this.#name, this.#columns, this.#onChange] = [name, name === "peers" ? PEERS : STREAMS, onChange];
    this.#status.setAttribute("role", "status");
    const filter = element("input", { type: "search", autocomplete: "off" });
    let timer;
    filter.addEventListener("input", () => {
      clearTimeout(timer);
      timer = setTimeout(() => this.#change({ filter: filter.value.trim(), page: 0 }), PATIENCE);
    });
    this.#busiest.addEventListener("click", () => this.#change({ sort: "rate", page: 0 }));
    this.#previous.addEventListener("click", () => this.#change({ page: Math.max(0, this.#view.page - 1) }));
    this.#next.addEventListener("click", () => this.#change({ page: this.#view.page + 1 }));
    const label = element("label", { textContent: name === "peers" ? "Name contains " : "Address or peer contains " }, filter);
    section.querySelector(".tools").append(label, this.#busiest, this.#status, this.#previous, this.#next);
    const table = section.querySelector("table");
    table.setAttribute("aria-labelledby", section.querySelector("h2").id);
    table.append(element("thead", {}, element("tr", {}, ...this.#columns.map((column) => this.#head(column)))), this.#body);
    this.#showSort();
  }

  get view() {
    return { table: this.#name, ...this.#view };
  }

  #head({ label, sort, isNumber }) {
    const head = element("th", { scope: "col", className: isNumber ? "number" : "" });
    if (sort) {
      const button = element("button", { type: "button", textContent: label, title: `Sort by ${label.toLowerCase()}` });
      button.addEventListener("click", () => this.#change({ sort, page: 0 }));
      head.append(button);
      this.#heads.push([sort, head]);
    } else {
      head.textContent = label;
      head.classList.add("fixed");
    }
    return head;
  }

  #change(to) {
    Object.assign(this.#view, to);
    this.#showSort();
    this.#onChange();
  }

  #showSort() {
    this.#busiest.setAttribute("aria-pressed", this.#view.sort === "rate");
    for (const [sort, head] of this.#heads) {
      if (sort !== this.#view.sort) head.removeAttribute("aria-sort");
      else head.setAttribute("aria-sort", sort === "name" ? "ascending" : "descending");
    }
  }

  // Rows are kept and filled again, so that what is selected or read aloud stays.
  fill(page) {
    const { rows, matching, total, pages } = page;
    this.#view.page = page.page;
    while (this.#body.rows.length > rows.length) this.#body.deleteRow(-1);
    while (this.#body.rows.length < rows.length) this.#body.append(this.#row());
    rows.forEach((row, at) => this.#write(this.#body.rows[at], row));
    const of = matching === total ? count(total) : `${count(matching)} found, of ${count(total)}`;
    const first = page.page * page.rows_per_page + 1;
    const shown = rows.length === 0 ? "none" : `${count(first)} to ${count(first + rows.length - 1)}`;
    this.#set(this.#status, `${shown} of ${of}`);
    this.#previous.disabled = page.page === 0;
    this.#next.disabled = page.page + 1 >= pages;
  }

  #row() {
    const cells = this.#columns.map(({ label, isHeader, isNumber, isAddress }) => {
      const className = isNumber ? "number" : isAddress ? "address" : "";
      const cell = element(isHeader ? "th" : "td", { className });
      if (isHeader) cell.scope = "row";
      cell.dataset.label = label;
      return cell;
    });
    return element("tr", {}, ...cells);
  }

  #write(line, row) {
    this.#columns.forEach(({ text, isTrouble }, at) => {
      this.#set(line.cells[at], text(row));
      if (isTrouble) line.cells[at].classList.toggle("trouble", isTrouble(row));
    });
  }

  #set(target, text) {
    if (target.textContent !== text) target.textContent = text;
  }
}
