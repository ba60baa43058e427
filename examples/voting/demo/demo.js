// The voter's page: log in, watch, vote. `session.js` keeps the connection, `outbox.js` the votes.

import { $, Board, countdown, open, show, state } from "./board.js";
import { Outbox } from "./outbox.js";

let viewer, wallet, isOver = false;
const settings = await show();
const board = new Board(settings);
const outbox = new Outbox(settled);

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
    $("balance").textContent = "–";
    board.open(accounts);
    accounts.forEach(take);
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
  document.querySelectorAll(".vote").forEach((button) => { button.disabled = true; });
});

$("logout").addEventListener("click", () => session.logout());
$("candidates").addEventListener("click", ({ target }) => {
  const row = target.closest(".vote") && target.closest("li");
  if (row && !isOver) vote(row.dataset.id);
});
session.start();

function take(account) {
  if (account.id === wallet?.id) $("balance").textContent = account.available;
  else board.take(account);
  if (isOver) document.querySelectorAll(".vote").forEach((button) => { button.disabled = true; });
}

function vote(candidate) {
  if (!wallet) return notice("refused", "You have no wallet to vote from.");
  const isLive = $("link").dataset.state === "on";
  notice("sent", isLive ? "Sending …" : "Your vote is kept, and sent when the connection is back.");
  try {
    outbox.press(viewer, wallet.id, candidate);
  } catch (error) {
    notice("refused", `Not sent, because this browser keeps nothing: ${error.message}`);
  }
}

function settled({ user, transfer: { credit } }, { outcome, detail }) {
  if (user !== viewer) return;
  const name = board.rows.get(credit)?.name ?? credit;
  const isCounted = outcome === "applied" || outcome === "duplicate";
  notice(isCounted ? "applied" : "refused", isCounted ? `Your vote for ${name} counts.` : `Not counted: ${detail}.`);
}

function notice(outcome, words) {
  $("notice").dataset.outcome = outcome;
  $("notice").textContent = words;
}
