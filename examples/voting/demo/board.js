// What the voter's page and the stage share: the log-in form, the rows of candidates, the countdown.

import { Session, readShow, told } from "./session.js";

export const $ = (id) => document.getElementById(id);

/** The rows of candidates and their tallies. */
export class Board {
  rows = new Map(); // account id to {row, name, tally}

  constructor(show) { this.show = show; }

  /** Candidates of the configuration in its order; without any, every collector. A second time adds only new ones.
   *  Returns the ids of all rows. */
  open(accounts) {
    const collectors = accounts.filter(({ kind }) => kind === "collector").map(({ id }) => id);
    const listed = this.show.candidates.filter(({ id }) => collectors.includes(id));
    const plain = (id) => ({ id, name: id.replace(/^candidate:/, "Candidate ") });
    (listed.length ? listed : collectors.map(plain)).forEach((candidate) => this.#add(candidate));
    return [...this.rows.keys()];
  }

  #add({ id, name, picture }) {
    if (this.rows.has(id)) return;
    const row = $("candidate").content.cloneNode(true).firstElementChild;
    row.dataset.id = id;
    row.querySelector(".name").textContent = name;
    row.querySelector(".vote")?.setAttribute("aria-label", `Vote for ${name}`);
    if (picture) Object.assign(row.querySelector(".picture"), { src: picture, hidden: false });
    $("candidates").append(row);
    this.rows.set(id, { row, name, tally: 0 });
  }

  get total() { return [...this.rows.values()].reduce((sum, { tally }) => sum + tally, 0); }

  /** New figures of a candidate; `false` if it is none. */
  take({ id, balance }) {
    const candidate = this.rows.get(id);
    if (!candidate) return false;
    if (candidate.tally !== balance) {
      candidate.row.classList.remove("moved");
      void candidate.row.offsetWidth; // lets the animation begin again
      candidate.row.classList.add("moved");
    }
    candidate.tally = balance;
    candidate.row.querySelector(".tally").textContent = balance;
    const most = Math.max(1, ...[...this.rows.values()].map(({ tally }) => tally));
    for (const { row, tally } of this.rows.values()) {
      row.querySelector(".fill").style.width = `${(100 * tally) / most}%`;
    }
    return true;
  }
}

export function state(word, text) {
  $("link").dataset.state = word;
  $("link").textContent = text;
}

/** The log-in form and a session that hears `events`; `parts` are shown to who is logged in. */
export function open(parts, events) {
  const shown = (isIn) => {
    $("login").hidden = isIn;
    parts.forEach((id) => { $(id).hidden = !isIn; });
  };
  const session = new Session({
    ...events,
    login: (user) => { shown(false); $("user").focus(); events.login?.(user); },
    accounts: (accounts, user) => {
      const wasOut = !$("login").hidden;
      shown(true);
      // What had the focus is hidden now; a screen reader goes on at the title.
      if (wasOut) $("title").focus();
      return events.accounts(accounts, user);
    },
  });
  $("login").addEventListener("submit", async (event) => {
    event.preventDefault();
    const { user, password } = Object.fromEntries(new FormData(event.target));
    try {
      await session.login(user, password);
      $("password").value = "";
    } catch (error) {
      state("off", `not logged in, try again: ${told(error)}`);
    }
  });
  return session;
}

/** What the configuration says of the show, and again until the server answers. */
export async function show() {
  for (;;) {
    try {
      const show = await readShow();
      document.title = $("title").textContent = show.title;
      $("hint").textContent = show.login_hint;
      return show;
    } catch (error) {
      state("off", `connecting: ${told(error)}`);
      await new Promise((later) => setTimeout(later, 1000));
    }
  }
}

/** Shows the time left each second, by the server's clock; `ended` is called once. */
export function countdown({ ends_at_ms, ahead_ms }, ended) {
  if (!ends_at_ms) return;
  $("countdown").hidden = false;
  const tick = () => {
    const left_s = Math.ceil((ends_at_ms - Date.now() - ahead_ms) / 1000);
    const two = (number) => String(number).padStart(2, "0");
    const [hours, minutes] = [Math.floor(left_s / 3600), Math.floor(left_s / 60) % 60];
    const clock = `${hours ? `${hours}:${two(minutes)}` : minutes}:${two(left_s % 60)}`;
    $("countdown").textContent = left_s > 0 ? `${clock} left` : "The vote is over.";
    if (left_s > 0) setTimeout(tick, 250); else ended();
  };
  tick();
}
