// Who is logged in, and the connection, which is opened again by itself.
//
//   POST /v1/login ─▶ token, kept in localStorage ─┬▶ GET /v1/accounts  candidates, and which wallet is mine
//                                                  └▶ MQTT over /mqtt   $ledger/accounts/{id} ─▶ figures, live
//
// Promises: while there is a token, a connection that ends is opened again, and the page says what is so. A page keeps
// the user that it has connected with. It goes back to its log-in when the server does not take the token any more, and
// when another page of this browser has logged out or has logged in somebody else: the next press would otherwise take
// from the wallet of that other user. So it does when the user may not follow the figures, such as a service.
// People are told what happens and what to do; what the server said stands in the console.

import { Mqtt, MqttError } from "./mqtt.js";

const TOKEN = "tidegate.demo.token"; // {user, token}
const ACCOUNTS = "$ledger/accounts/";
const RETRY_MIN_MS = 250, RETRY_MAX_MS = 5000;
const NOT_AUTHORIZED = 0x87;

/** Whether the figures of an account can be subscribed to: in a filter, these two match other names. */
const isFollowable = ({ id }) => !/[+#]/.test(id);

/** A failure, with what a person is told of it. */
const failure = (words, detail, status) => Object.assign(new Error(detail), { words, status });

function refusalWords(status) {
  if (status === 401) return "the name or the password is wrong";
  if (status === 429) return "too many tries came from here, wait a little";
  return status >= 500 ? "the server is not ready yet" : "the server refuses this page";
}

/** What a person is told of a failure. The console gets all of it. */
export function told(error) {
  console.info(error);
  if (error.words) return error.words;
  if (error.isUnopened) {
    return "the server answers, but takes no live connections from here; if it stays so, tell those who run the vote";
  }
  return error instanceof MqttError ? "the connection was lost" : "this page has failed, load it again if it stays so";
}

/** JSON from the API. */
async function call(path, options = {}) {
  const headers = { "content-type": "application/json", ...options.headers };
  const response = await fetch(path, { ...options, headers }).catch(({ message }) => {
    throw failure("the server cannot be reached", `${path}: ${message}`);
  });
  const { ok, status } = response;
  // What stands between may answer with something else than JSON.
  const body = await response.json().catch(({ message }) => ({ detail: message }));
  if (!ok) throw failure(refusalWords(status), `${path}: ${status} ${body.detail}`, status);
  return body;
}

/** What `[demo]` of the configuration says, and what the page adds: how far the server's clock is ahead of ours. */
export async function readShow() {
  const show = await call("/demo/show.json");
  return { ...show, ahead_ms: show.now_ms - Date.now() };
}

export class Session {
  #mine; // {user, token} of this page; localStorage has those of the last log-in in this browser
  #failures = 0;
  #timer;
  #mqtt;
  #number = 0; // of the connection; what an earlier one still says is not heard

  /** `events`: `login(user)`, with who was logged in, `accounts(list, user)`, which returns the ids to follow,
   *  `account(one)`, `live(mqtt, user)`, `state(word, text)`. */
  constructor(events) {
    this.events = events;
    const now = () => { if (this.#timer) this.#connect(); };
    addEventListener("online", now);
    document.addEventListener("visibilitychange", () => { if (!document.hidden) now(); });
    // What another page has stored; without a key, it has stored nothing any more.
    addEventListener("storage", ({ key }) => { if (key === TOKEN || key === null) this.#isStillMine(); });
  }

  get #kept() { return JSON.parse(localStorage.getItem(TOKEN)); }

  /** Connects with the token that is kept, or asks for a log-in. */
  start() {
    this.#mine = this.#kept ?? undefined;
    if (this.#mine) this.#connect(); else this.events.login();
  }

  /** Throws if it is refused. */
  async login(user, password) {
    const { token } = await call("/v1/login", { body: JSON.stringify({ user, password }), method: "POST" });
    this.#mine = { user, token };
    localStorage.setItem(TOKEN, JSON.stringify(this.#mine));
    this.#connect();
  }

  logout(words = "not connected") {
    // A log-in of somebody else is not this page's to end.
    if (this.#kept?.user === this.#mine?.user) localStorage.removeItem(TOKEN);
    this.#leave(words);
  }

  #leave(words) {
    const user = this.#mine?.user;
    this.#mine = undefined;
    this.#number += 1;
    clearTimeout(this.#timer);
    this.#timer = undefined;
    this.#mqtt?.close();
    this.events.state("off", words);
    this.events.login(user);
  }

  /** Whether the user of this page is the one whom this browser keeps; if not, the page goes to its log-in and says
   *  why. A later token of the same user is taken over. */
  #isStillMine() {
    if (!this.#mine) return false;
    const kept = this.#kept, { user } = this.#mine;
    if (kept?.user === user) {
      this.#mine = kept;
      return true;
    }
    this.#leave(kept
      ? `${kept.user} has logged in on another page of this browser, so ${user} is logged out here.`
      : `${user} was logged out on another page of this browser.`);
    return false;
  }

  async #connect() {
    clearTimeout(this.#timer);
    this.#timer = undefined;
    if (!this.#isStillMine()) return;
    const { user, token } = this.#mine;
    const number = this.#number += 1;
    const isOld = () => number !== this.#number;
    try {
      const { accounts } = await call("/v1/accounts?limit=100", { headers: { authorization: `Bearer ${token}` } });
      const url = `${location.protocol.replace("http", "ws")}//${location.host}/mqtt`;
      const mqtt = await Mqtt.connect(url, { userName: user, password: token });
      if (isOld()) return mqtt.close();
      this.#mqtt = mqtt;
      mqtt.onMessage = (_, message) => isOld() || this.events.account(JSON.parse(message));
      mqtt.onClose = (error) => isOld() || this.#again(error);
      const followed = this.events.accounts(accounts.filter(isFollowable), user);
      if (followed.length) await mqtt.subscribe(followed.map((id) => ACCOUNTS + id));
      if (isOld()) return;
      this.#failures = 0;
      this.events.state("on", "live");
      this.events.live(mqtt, user);
    } catch (error) {
      if (isOld()) return;
      // Another page may have got a later token of the same user meanwhile.
      if (error.status === 401 && this.#mine.token === token) return this.logout();
      if (error.status === 403 || error.reason === NOT_AUTHORIZED) return this.#cannotVote(error);
      this.#again(error);
    }
  }

  /** Asking again would bring the same answer. */
  #cannotVote(error) {
    console.info(error);
    this.logout(`${this.#mine.user} cannot vote here. Log in as somebody who can.`);
  }

  /** Later each time, and not all phones at once. */
  #again(error) {
    if (this.#timer) return;
    this.#mqtt?.close();
    this.#number += 1;
    const delay_ms = Math.min(RETRY_MAX_MS, RETRY_MIN_MS * 2 ** this.#failures) * (0.5 + Math.random() / 2);
    this.#failures += 1;
    this.#timer = setTimeout(() => this.#connect(), delay_ms);
    this.events.state("off", `connecting again by itself: ${told(error)}`);
  }
}
