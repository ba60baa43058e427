// The page of the voting demo: log in, watch, vote.
//
//   POST /v1/login ─▶ token ─┬▶ GET /v1/accounts       which candidates there are, and which wallet is mine
//                            └▶ MQTT over /mqtt         $ledger/accounts/{id} ─▶ tallies and balance, live
//                                                       $ledger/transfers     ◀─ votes

import { Mqtt } from "./mqtt.js";

const $ = (id) => document.getElementById(id);
const ACCOUNTS = "$ledger/accounts/";
const candidates = new Map(); // account id to its row and tally
let wallet, mqtt;

$("login").addEventListener("submit", async (event) => {
  event.preventDefault();
  const { user, password } = Object.fromEntries(new FormData(event.target));
  try {
    const { token } = await call("/v1/login", { body: JSON.stringify({ user, password }), method: "POST" });
    await enter(user, token);
  } catch (error) {
    link("off", error.message);
  }
});

/** JSON from the API, or an error with the problem's words. */
async function call(path, options = {}) {
  const headers = { "content-type": "application/json", ...options.headers };
  const response = await fetch(path, { ...options, headers });
  const body = await response.json();
  if (!response.ok) throw new Error(body.detail);
  return body;
}

async function enter(user, token) {
  const headers = { authorization: `Bearer ${token}` };
  const { accounts } = await call("/v1/accounts?limit=100", { headers });
  wallet = accounts.find((account) => account.kind === "wallet");
  accounts.filter((account) => account.kind === "collector").forEach(addCandidate);

  const url = `${location.protocol.replace("http", "ws")}//${location.host}/mqtt`;
  mqtt = await Mqtt.connect(url, { userName: user, password: token });
  mqtt.onMessage = (topic, message) => show(JSON.parse(message));
  mqtt.onClose = (reason) => link("off", reason);
  accounts.forEach(show);
  await mqtt.subscribe([...candidates.keys(), ...(wallet ? [wallet.id] : [])].map((id) => ACCOUNTS + id));

  $("viewer").textContent = user;
  $("login").hidden = true;
  $("show").hidden = false;
  link("on", "live");
}

function addCandidate({ id }) {
  const row = $("candidate").content.cloneNode(true).firstElementChild;
  row.dataset.id = id;
  row.querySelector(".name").textContent = id.replace(/^candidate:/, "Candidate ");
  row.querySelector(".vote").addEventListener("click", () => vote(id));
  $("candidates").append(row);
  candidates.set(id, { row, tally: 0 });
}

/** New figures of an account, wherever they come from. */
function show(account) {
  if (account.id === wallet?.id) {
    $("balance").textContent = account.available;
    return;
  }
  const candidate = candidates.get(account.id);
  if (!candidate) return;
  if (candidate.tally !== account.balance) {
    candidate.row.classList.remove("moved");
    void candidate.row.offsetWidth; // lets the animation begin again
    candidate.row.classList.add("moved");
  }
  candidate.tally = account.balance;
  candidate.row.querySelector(".tally").textContent = account.balance;
  const most = Math.max(1, ...[...candidates.values()].map(({ tally }) => tally));
  for (const { row, tally } of candidates.values()) row.querySelector(".fill").style.width = `${(100 * tally) / most}%`;
}

async function vote(candidate) {
  // The id makes the vote happen once, however often it is sent.
  const transfer = { id: crypto.randomUUID(), debit: wallet.id, credit: candidate, amount: 1 };
  try {
    const { body } = await mqtt.request("$ledger/transfers", transfer);
    const counted = body.outcome === "applied";
    const text = counted ? `Your vote for ${candidate} counts.` : `Not counted: ${body.detail}.`;
    notice(counted ? "applied" : "refused", text);
  } catch (error) {
    notice("refused", error.message);
  }
}

function notice(outcome, words) {
  $("notice").dataset.outcome = outcome;
  $("notice").textContent = words;
}

function link(state, words) {
  $("link").dataset.state = state;
  $("link").textContent = words;
}
