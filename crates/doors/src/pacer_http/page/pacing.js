// Campaigns, as many as fit on a page, or one of them; asked for once a second while somebody can see it.
//
//   #            the page: GET /v1/campaigns?curve=true&limit=24&prefix=…&after=…
//   #one=ID      a campaign: GET /v1/campaigns/ID?curve=true

import { large, money, percent, points, small } from "./chart.js";
import { Refused, forget, get, keep, logIn, token } from "./session.js";

const ROWS = 24, POLL_MS = 1000, RETRY_MS = 3000;
const STOPPED = {
  budget_used: "less than a bid is left of the budget", day_used: "less than a bid is left for the day",
  insufficient_funds: "its account has not enough money", ledger_refused: "the ledger refuses its account",
  leases_unreleased: "the ledger holds the rest until more of its bids are known, and settled there",
  leases_too_many: "too many leases are open", unavailable: "the shard does not answer",
};
const REASONS = {
  campaign_unknown: "no such campaign", not_in_flight: "paused, or no flight under way",
  not_targeted: "not what it is aimed at", throttled: "the strategy let them pass",
  frequency_capped: "the user had seen it often enough", no_lease: "no money was leased",
  price_above_cap: "the client's price was above the campaign's",
};

const $ = (id) => document.getElementById(id);
const one = $("one"), all = $("campaigns");
let afters = [""], prefix = "", next, timer, round = 0, asked;
const cards = new Map();

function state(word, text) {
  $("state").dataset.state = word;
  $("state").textContent = text;
}

const chosen = () => new URLSearchParams(location.hash.slice(1)).get("one");

/** Points so far, and the one that is now. */
function curvesOf({ curve, spent_micros, plan, spent_on_day_micros }) {
  const spent = points(curve, curve.spent_micros);
  const now = Math.min(Math.max(Date.now(), spent.at(-1)?.[0] ?? 0), curve.ends_ms);
  // With a cap of the day, the curve is of the day alone.
  if (now >= curve.begins_ms && spent.length) {
    const newest = plan.daily_micros === undefined ? spent_micros : spent_on_day_micros;
    spent.push([now, Math.max(newest, spent.at(-1)[1])]);
  }
  const planned = points(curve, curve.planned_micros);
  const high = Math.max(1, ...planned.map(([, value]) => value), ...spent.map(([, value]) => value));
  return { now, high, curves: planned.length ? { planned, spent } : { spent } };
}

/** How a campaign does, in a few words. */
function words({ ended, plan, pace }) {
  if (ended) return ["stopped", "ended"];
  if (plan.paused) return ["stopped", "paused"];
  const now = Date.now();
  if (!plan.flights.some(({ starts_ms, ends_ms }) => starts_ms <= now && now < ends_ms)) {
    return ["quiet", plan.flights.some(({ starts_ms }) => starts_ms > now) ? "not begun" : "over"];
  }
  if (!pace) return ["quiet", "nobody has asked for it"];
  return pace.stopped ? ["stopped", STOPPED[pace.stopped] ?? pace.stopped] : ["on", `bids ${percent(pace.share)}`];
}

function makeCard(id) {
  const item = document.createElement("li"), card = document.createElement("button");
  item.dataset.id = id;
  card.type = "button";
  card.innerHTML = `<span class="name"><b></b><span class="strategy"></span></span>
    <svg aria-hidden="true"></svg>
    <span class="row"><span class="money"></span><span class="win"></span></span>
    <span class="row"><span class="say"></span><span class="pacing"></span></span>`;
  card.querySelector("b").textContent = id;
  card.addEventListener("click", () => { location.hash = new URLSearchParams({ one: id }); });
  item.append(card);
  return item;
}

function put(element, selector, text) {
  const found = element.querySelector(selector);
  if (found.textContent !== text) found.textContent = text;
  return found;
}

function drawCard(item, campaign) {
  const { plan, pace, spent_micros } = campaign;
  const [kind, said] = words(campaign);
  put(item, ".strategy", plan.strategy.name);
  put(item, ".money", `${money(spent_micros)} of ${money(plan.budget_micros)}`);
  put(item, ".win", pace ? `wins ${percent(pace.win_rate)}` : "");
  put(item, ".say", said).dataset.kind = kind;
  const planned = pace?.planned_micros;
  const spent = plan.daily_micros === undefined ? spent_micros : campaign.spent_on_day_micros;
  put(item, ".pacing", planned ? `${percent(spent / planned)} of plan` : "");
  if (campaign.curve) {
    const { now, high, curves } = curvesOf(campaign);
    small(item.querySelector("svg"), campaign.curve, curves, now, high);
  }
}

function drawAll(campaigns) {
  const shown = new Set(campaigns.map(({ id }) => id));
  for (const [id, item] of cards) if (!shown.has(id)) { item.remove(); cards.delete(id); }
  campaigns.forEach((campaign, at) => {
    let item = cards.get(campaign.id);
    if (!item) cards.set(campaign.id, item = makeCard(campaign.id));
    drawCard(item, campaign);
    if ($("cards").children[at] !== item) $("cards").insertBefore(item, $("cards").children[at] ?? null);
  });
  $("none").hidden = campaigns.length > 0;
  $("page").textContent = afters.length;
  $("back").disabled = afters.length === 1;
  $("more").disabled = !next;
}

function drawOne(campaign) {
  const { id, number, plan, pace, curve } = campaign;
  put(one, "h2", id);
  const [, said] = words(campaign);
  const daily = plan.daily_micros === undefined ? "" : `, ${money(plan.daily_micros)} a day (${plan.zone})`;
  put(one, ".plan", `${plan.strategy.name}, version ${plan.version} of the plan, number ${number}: budget `
    + `${money(plan.budget_micros)}${daily}, up to ${money(plan.price_micros * 1000)} CPM; ${said}.`);
  for (const figure of one.querySelectorAll("figure")) figure.hidden = !curve;
  if (curve) {
    const { now, high, curves } = curvesOf(campaign);
    const fromZero = plan.daily_micros !== undefined;
    large($("curve"), curve, curves, { now, high, height: 320, word: money, fromZero });
    const share = points(curve, curve.share);
    if (share.length) share.push([now, pace?.share ?? share.at(-1)[1]]);
    large($("shares"), curve, { share }, { now, high: 1, height: 120, word: percent });
    $("curve").setAttribute("aria-label", `${id}: spent ${money(campaign.spent_micros)}`);
  }
  const figures = {
    spent: money(campaign.spent_micros),
    planned: pace?.planned_micros === undefined ? "no plan" : money(pace.planned_micros),
    "reserved or leased": money(campaign.exposed_micros),
    "held until bids are known": money(campaign.unreleased_micros),
    "leases open": campaign.leases,
    impressions: campaign.impressions.toLocaleString("en"),
    throttle: pace ? percent(pace.share) : "none yet",
    "price bid": pace ? percent(pace.shade) : "none yet",
    "win rate": pace ? percent(pace.win_rate) : "none yet",
    "requests a second": pace ? pace.requests_per_s.toFixed(1) : "0",
    "bids a second": pace ? pace.bids_per_s.toFixed(1) : "0",
  };
  $("figures").replaceChildren(...Object.entries(figures).map(([name, value]) => {
    const pair = document.createElement("div");
    for (const [kind, text] of [["dt", name], ["dd", value]]) {
      const part = document.createElement(kind);
      part.textContent = text;
      pair.append(part);
    }
    return pair;
  }));
  drawReasons(pace);
}

function drawReasons(pace) {
  const noBids = () => Object.entries(pace.no_bids).map(([why, count]) => [REASONS[why] ?? why, count]);
  const rows = pace ? [["bid on", pace.bids], ...noBids()] : [];
  const sum = rows.reduce((sum, [, count]) => sum + count, 0) || 1;
  $("reasons").tBodies[0].replaceChildren(...rows.map(([name, count]) => {
    const row = document.createElement("tr");
    for (const text of [name, count.toLocaleString("en"), percent(count / sum)]) row.insertCell().textContent = text;
    return row;
  }));
}

/** Asks once, draws, and comes again. An answer that was overtaken by a click is not drawn. */
async function poll() {
  clearTimeout(timer);
  asked?.abort();
  asked = new AbortController();
  const mine = round += 1, id = chosen();
  if (!token() || document.hidden) return;
  let wait = POLL_MS;
  try {
    const query = new URLSearchParams({ curve: true });
    if (id !== null) {
      const campaign = await get(`/v1/campaigns/${encodeURIComponent(id)}?${query}`, asked.signal);
      if (mine !== round) return;
      [one.hidden, all.hidden] = [false, true];
      drawOne(campaign);
    } else {
      query.set("limit", ROWS);
      if (prefix) query.set("prefix", prefix);
      if (afters.at(-1)) query.set("after", afters.at(-1));
      const page = await get(`/v1/campaigns?${query}`, asked.signal);
      if (mine !== round) return;
      next = page.next;
      [one.hidden, all.hidden] = [true, false];
      drawAll(page.campaigns);
    }
    state("on", "live");
  } catch (error) {
    if (mine !== round) return;
    if (!(error instanceof Refused)) throw error;
    if (error.status === 401) return leave("the server does not take this token or password");
    state("off", `asking again: ${error.message}`);
    wait = RETRY_MS;
  }
  timer = setTimeout(poll, wait);
}

function leave(why) {
  round += 1;
  clearTimeout(timer);
  forget();
  [one.hidden, all.hidden, $("login").hidden, $("logout").hidden] = [true, true, false, true];
  state("off", why);
}

function begin() {
  [$("login").hidden, $("logout").hidden] = [true, false];
  poll();
}

function turn(change) {
  change();
  poll();
}

$("login").addEventListener("submit", async (event) => {
  event.preventDefault();
  const password = $("password").value.trim();
  try {
    await logIn($("user").value.trim(), password);
    $("password").value = "";
    begin();
  } catch (error) {
    state("off", error.message);
  }
});
$("logout").addEventListener("click", () => leave("not connected"));
$("search").addEventListener("submit", (event) => event.preventDefault());
$("prefix").addEventListener("input", () => turn(() => { prefix = $("prefix").value.trim(); afters = [""]; }));
$("more").addEventListener("click", () => turn(() => { if (next) afters.push(next); next = undefined; }));
$("back").addEventListener("click", () => turn(() => { if (afters.length > 1) afters.pop(); }));
$("close").addEventListener("click", () => { location.hash = ""; });
addEventListener("hashchange", () => { if (!takeToken()) poll(); });
document.addEventListener("visibilitychange", poll);

// A link may bring a token, also to a page that is open: what is behind the # is sent to nobody. The address does not
// keep it.
function takeToken() {
  const brought = new URLSearchParams(location.hash.slice(1)).get("token");
  if (!brought) return false;
  keep(brought);
  history.replaceState(null, "", location.pathname);
  begin();
  return true;
}
if (!takeToken()) {
  if (token()) begin(); else leave("not connected");
}
