// The votes whose outcome is not known yet, in localStorage.
//
//   press ─▶ id made, vote stored ─▶ sent ─▶ outcome ─▶ removed
//                                      │ no answer, connection or server gone, page closed
//                                      └───▶ sent again with the same id
//
// Promise: a press counts once. The id is made when the button is pressed and stored before anything is sent, so the
// vote is not lost with the page; the server knows the id, so a vote that is sent again is not counted again. It is
// sent only as the user who has pressed it: under another one the id would be new, and another might pay.

import { uuid } from "./mqtt.js";

const VOTE = "tidegate.demo.vote."; // and its id; a key each, so that two pages do not overwrite each other's
const RETRY_MS = 1000;
/** Answers that leave the outcome open or ask to come again; 401 is a token that has expired meanwhile. */
const isOpen = ({ outcome, status }) => !outcome && (status >= 500 || [401, 408, 429].includes(status));

export class Outbox {
  #sending = new Set();
  #mqtt;
  #user;

  /** `settled(vote, answer)` hears each outcome. */
  constructor(settled) { this.settled = settled; }

  /** Stores a vote and sends it if there is a connection; throws if the browser stores nothing. */
  press(user, debit, credit) {
    const vote = { user, transfer: { id: uuid(), debit, credit, amount: 1 } };
    localStorage.setItem(VOTE + vote.transfer.id, JSON.stringify(vote));
    if (this.#mqtt && this.#user === user) this.#send(vote);
  }

  /** Votes of this user whose outcome is not known. */
  pending(user) {
    const keys = Object.keys(localStorage).filter((key) => key.startsWith(VOTE));
    return keys.map((key) => JSON.parse(localStorage.getItem(key))).filter((vote) => vote?.user === user);
  }

  /** There is a connection of this user: what waits is sent. */
  live(mqtt, user) {
    this.#mqtt = mqtt;
    this.#user = user;
    this.pending(user).forEach((vote) => this.#send(vote));
  }

  /** There is none. */
  gone() { this.#mqtt = undefined; }

  async #send(vote) {
    const { user, transfer } = vote, { id } = transfer;
    if (this.#sending.has(id)) return;
    this.#sending.add(id);
    const answer = await this.#mqtt.request("$ledger/transfers", transfer).catch(() => undefined);
    this.#sending.delete(id);
    if (answer && !isOpen(answer.body)) {
      localStorage.removeItem(VOTE + id);
      this.settled(vote, answer.body);
    } else {
      setTimeout(() => { if (this.#mqtt && this.#user === user) this.#resend(vote); }, RETRY_MS);
    }
  }

  /** Not if another page has learnt the outcome meanwhile. */
  #resend(vote) { if (localStorage.getItem(VOTE + vote.transfer.id)) this.#send(vote); }
}
