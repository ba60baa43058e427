// The votes whose outcome is not known yet, in localStorage.
//
//   press ─▶ id made, vote stored ─▶ sent ─▶ outcome ─▶ removed
//                                      │ no answer, connection or server gone, page closed
//                                      └───▶ sent again with the same id
//
// Promise: a press counts once. The id is made when the button is pressed and stored before anything is sent, so the
// vote is not lost with the page; the server knows the id, so a vote that is sent again is not counted again.

import { uuid } from "./mqtt.js";

const VOTE = "tidegate.demo.vote."; // and its id; a key each, so that two pages do not overwrite each other's
const RETRY_MS = 1000;
/** Answers that leave the outcome open or ask to come again; 401 is a token that has expired meanwhile. */
const isOpen = ({ outcome, status }) => !outcome && (status >= 500 || [401, 408, 429].includes(status));

export class Outbox {
  #sending = new Set();
  #mqtt;
  #debit;

  /** `settled(vote, answer)` hears each outcome. */
  constructor(settled) { this.settled = settled; }

  /** Stores a vote and sends it if there is a connection; throws if the browser stores nothing. */
  press(debit, credit) {
    const vote = { id: uuid(), debit, credit, amount: 1 };
    localStorage.setItem(VOTE + vote.id, JSON.stringify(vote));
    if (this.#mqtt) this.#send(vote);
  }

  /** Votes of this wallet whose outcome is not known. */
  pending(debit) {
    const keys = Object.keys(localStorage).filter((key) => key.startsWith(VOTE));
    return keys.map((key) => JSON.parse(localStorage.getItem(key))).filter((vote) => vote?.debit === debit);
  }

  /** There is a connection for votes of this wallet: what waits is sent. */
  live(mqtt, debit) {
    this.#mqtt = mqtt;
    this.#debit = debit;
    this.pending(debit).forEach((vote) => this.#send(vote));
  }

  /** There is none. */
  gone() { this.#mqtt = undefined; }

  async #send(vote) {
    if (this.#sending.has(vote.id)) return;
    this.#sending.add(vote.id);
    const answer = await this.#mqtt.request("$ledger/transfers", vote).catch(() => undefined);
    this.#sending.delete(vote.id);
    if (answer && !isOpen(answer.body)) {
      localStorage.removeItem(VOTE + vote.id);
      this.settled(vote, answer.body);
    } else {
      setTimeout(() => { if (this.#mqtt && this.#debit === vote.debit) this.#resend(vote); }, RETRY_MS);
    }
  }

  /** Not if another page has learnt the outcome meanwhile. */
  #resend(vote) { if (localStorage.getItem(VOTE + vote.id)) this.#send(vote); }
}
