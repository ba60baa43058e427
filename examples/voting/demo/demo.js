// The voter's page: log in, watch, vote. `session.js` keeps the connection, `outbox.js` the votes.

import { $, Board, countdown, open, show, state } from "./board.js";
import { Outbox } from "./outbox.js";

/** How long a button rests when it was pressed: a second press so soon is a double click, not a second vote. */
const REST_MS = 600;

let viewer, wallet, available, isOver = false; // available: credits left; unknown until there is a connection
const settings = await show();
const board = new Board(settings);
const outbox = new Outbox(settled, missed);

const session = open(["show", "thumb"], {
  login(user) {
    const left = user ? outbox.pending(user).length : 0;
    if (left) $("link").textContent += ` Votes kept, and sent when ${user} logs in: ${left}.`;
  },
  accounts(accounts, user) {
    if (viewer !== user) notice("", "");
    viewer = user;
    wallet = accounts.find(({ kind }) => kind === "wallet");
    $("viewer").textContent = user;
    available = undefined;
    const candidates = board.open(accounts);
    accounts.forEach(take);
    offer();
    return wallet ? [wallet.id, ...candidates] : candidates;
  },
  account: take,
  live: (mqtt, user) => outbox.live(mqtt, user),
  state(word, text) {
    state(word, text);
    if (word === "off") outbox.gone();
  },
});

countdown(settings, () => {
  isOver = true;
  offer();
});

$("logout").addEventListener("click", () => session.logout());
$("candidates").addEventListener("click", ({ target }) => {
  const button = target.closest(".vote");
  if (!button || !isOffered() || button.getAttribute("aria-disabled")) return;
  rest(button);
  vote(button.closest("li").dataset.id);
});
session.start();

function take(account) {
  if (account.id !== wallet?.id) return board.take(account);
  available = account.available;
  offer();
}

function isOffered() { return !isOver && !isSpent(); }

function isSpent() { return available < 1; }

/** Shows the credits, and lets nobody press in vain. */
function offer() {
  const left = available === 1 ? "credit left" : "credits left";
  $("balance").textContent = available ?? "–";
  $("credits").textContent = isSpent() ? `${left}, so you cannot vote now` : `${left}; a vote costs one`;
  document.querySelectorAll(".vote").forEach((button) => { button.disabled = !isOffered(); });
}

/** Not disabled: a button that is would lose the focus of a keyboard. */
function rest(button) {
  button.setAttribute("aria-disabled", "true");
  setTimeout(() => button.removeAttribute("aria-disabled"), REST_MS);
}

function vote(candidate) {
  if (!wallet) return notice("refused", "You have no wallet to vote from.");
  const isLive = $("link").dataset.state === "on";
  notice("sent", isLive ? "Sending …" : "Your vote is kept, and sent when the connection is back.");
  try {
    outbox.press(viewer, wallet.id, candidate);
  } catch (error) {
    console.info(error);
    notice("refused", "Not sent, because this browser lets the page keep nothing. A private window may be the reason.");
  }
}

function settled({ user, transfer: { credit } }, answer) {
  if (user !== viewer) return;
  const { outcome, code } = answer, isCounted = outcome === "applied" || outcome === "duplicate";
  if (isCounted) return notice("applied", `Your vote for ${name(credit)} counts.`);
  console.info(answer);
  const why = code === "insufficient_funds" ? "you have no credits left" : "the server refuses it";
  notice("refused", `Your vote for ${name(credit)} was not counted: ${why}.`);
}

/** Another page of this browser, perhaps while this one was asleep, has sent a vote that was pressed here. */
function missed({ user, transfer: { credit } }) {
  if (user === viewer) notice("sent", `Another page of this browser has sent your vote for ${name(credit)}.`);
}

function name(account) { return board.rows.get(account)?.name ?? account; }

function notice(outcome, words) {
  $("notice").dataset.outcome = outcome;
  $("notice").textContent = words;
}
