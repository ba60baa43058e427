// The votes whose outcome is not known yet, in localStorage.
//
//   press ─▶ id made, vote stored ─▶ sent ─▶ outcome ─▶ removed
//                                      │ no answer, connection or server gone, page closed
//                                      └───▶ sent again with the same id
//
// Promise: a press counts once. The id is made when the button is pressed and stored before anything is sent, so the
// vote is not lost with the page; the server knows the id, so a vote that is sent again is not counted again. It is
// sent only as the user who has pressed it: under another one the id would be new, and another might pay.
//
// All pages of a browser send what it keeps. Whichever learns an outcome says it to the others. One that was asleep
// then sees, when it is connected again, that its vote is not kept any more.

import { uuid } from "./mqtt.js";

const VOTE = "tidegate.demo.vote."; // and its id; a key each, so that two pages do not overwrite each other's
const RETRY_MS = 1000;
/** Answers that leave the outcome open or ask to come again; 401 is a token that has expired meanwhile. */
const isOpen = ({ outcome, status }) => !outcome && (status >= 500 || [401, 408, 429].includes(status));

export class Outbox {
  #sending = new Set();
  #own = new Map(); // id to vote: pressed on this page, which does not know how it ended
  #others = new BroadcastChannel("tidegate.demo.outcomes");
  #mqtt;
  #user;

  /** `settled(vote, answer)` hears each outcome, `missed(vote)` that another page knows one. */
  constructor(settled, missed) {
    this.settled = settled;
    this.missed = missed;
    this.#others.onmessage = ({ data: { vote, answer } }) => this.#settle(vote, answer);
  }

  /** Stores a vote and sends it if there is a connection; throws if the browser stores nothing. */
  press(user, debit, credit) {
    const vote = { user, transfer: { id: uuid(), debit, credit, amount: 1 } };
    localStorage.setItem(VOTE + vote.transfer.id, JSON.stringify(vote));
    this.#own.set(vote.transfer.id, vote);
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
    this.#own.forEach((vote) => this.#look(vote));
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
      this.#others.postMessage({ vote, answer: answer.body });
      this.#settle(vote, answer.body);
    } else {
      setTimeout(() => { if (this.#mqtt && this.#user === user) this.#resend(vote); }, RETRY_MS);
    }
  }

  /** Not if another page has learnt the outcome meanwhile. */
  #resend(vote) { if (this.#look(vote)) this.#send(vote); }

  #settle(vote, answer) {
    this.#own.delete(vote.transfer.id);
    this.settled(vote, answer);
  }

  /** Whether a vote is still kept. If not, another page has sent it. */
  #look(vote) {
    const { id } = vote.transfer;
    const isKept = localStorage.getItem(VOTE + id) !== null;
    if (!isKept && this.#own.delete(id)) this.missed(vote);
    return isKept;
  }
}
