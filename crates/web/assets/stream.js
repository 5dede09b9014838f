// The connection to the gateway: a document each second, for the view that is shown. Connects again by itself.

const SILENCE = 5000;
const RETRY = 2000;

export class Stream {
  #source = null;
  #timer = null;
  #query = "";
  #onDocument;
  #onState;

  constructor(onDocument, onState) {
    this.#onDocument = onDocument;
    this.#onState = onState;
  }

  // Shows another view from now on.
  show(view) {
    this.#query = new URLSearchParams(view).toString();
    this.#connect();
  }

  #connect() {
    clearTimeout(this.#timer);
    this.#source?.close();
    const source = new EventSource(`./events?${this.#query}`);
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
    };
    this.#expect(SILENCE);
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
