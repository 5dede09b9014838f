// The connection to the gateway: a document each second, for the view that is shown. Connects again by itself. A page that nobody sees
// has none: browsers allow a few to one gateway, among all tabs, and a gateway has few places.

const SILENCE = 5000;
const RETRY = 2000;

// The address of what lies beside the page, without the user and the token that the page's own may have: browsers fetch none that
// has them.
export const address = (path) => new URL(path, location.href).href;

export class Stream {
  #source = null;
  #timer = null;
  #query = "";
  #onDocument;
  #onState;

  constructor(onDocument, onState) {
    this.#onDocument = onDocument;
    this.#onState = onState;
    document.addEventListener("visibilitychange", () => this.#connect());
  }

  // Shows another view from now on.
  show(view) {
    this.#query = new URLSearchParams(view).toString();
    this.#connect();
  }

  // Connects again, or ends the connection of a page that is hidden.
  #connect() {
    clearTimeout(this.#timer);
    this.#source?.close();
    this.#source = null;
    if (document.hidden) return;
    const events = address(`./events?${this.#query}`);
    const source = new EventSource(events);
    this.#source = source;
    let isFirst = true;
    source.onmessage = (message) => {
      this.#expect(SILENCE);
      if (isFirst) this.#onState(true);
      this.#onDocument(JSON.parse(message.data), isFirst);
      isFirst = false;
    };
    source.onerror = () => {
      source.close();
      this.#lost(RETRY);
      this.#ask(events, source);
    };
    this.#expect(SILENCE);
  }

  // Why the gateway refuses, which an EventSource does not say.
  async #ask(events, source) {
    const abort = new AbortController();
    try {
      const answer = await fetch(events, { signal: abort.signal });
      const isPlain = answer.headers.get("content-type")?.startsWith("text/plain");
      const text = answer.ok || !isPlain ? null : (await answer.text()).trim().split("\n")[0].slice(0, 100);
      if (text && this.#source === source) this.#onState(false, text);
    } catch {
      // The gateway is gone.
    } finally {
      abort.abort();
    }
  }

  // Without a document for so long, the connection counts as lost.
  #expect(milliseconds) {
    clearTimeout(this.#timer);
    this.#timer = setTimeout(() => this.#lost(0), milliseconds);
  }

  #lost(delay) {
    this.#onState(false);
    clearTimeout(this.#timer);
    this.#timer = setTimeout(() => this.#connect(), delay);
  }
}
