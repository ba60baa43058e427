// The stage, for a big screen: who leads, percentages, votes per second, the time left, and where to vote.

import { $, Board, countdown, open, show, state } from "./board.js";

const SECONDS = 60, HEIGHT = 20; // of the timeline, as its viewBox says
const settings = await show();
const board = new Board(settings);
const rates = new Array(SECONDS).fill(0);
let counted; // votes at the last second; unknown until there is a connection

const session = open(["show"], {
  accounts(accounts) {
    const ids = board.open(accounts);
    accounts.forEach((account) => board.take(account));
    draw();
    // What was voted while there was no connection is not a rate of this second.
    counted = board.total;
    return ids;
  },
  account(account) { if (board.take(account)) draw(); },
  live() {},
  state,
});

const url = settings.url ?? `${location.origin}/demo`;
$("url").textContent = url;
$("qr").src = `/demo/qr.svg?url=${encodeURIComponent(url)}`;

const bars = rates.map((_, second) => {
  const bar = document.createElementNS("http://www.w3.org/2000/svg", "rect");
  for (const [name, value] of Object.entries({ x: second + 0.1, width: 0.8, y: HEIGHT, height: 0 })) {
    bar.setAttribute(name, value);
  }
  $("timeline").append(bar);
  return bar;
});
setInterval(tick, 1000);
countdown(settings, () => {});
session.start();

function draw() {
  const all = [...board.rows.values()], total = board.total, most = Math.max(...all.map(({ tally }) => tally));
  const leaders = total ? all.filter(({ tally }) => tally === most) : [];
  for (const { row, tally } of all) {
    row.classList.toggle("leads", total > 0 && tally === most);
    row.querySelector(".percent").textContent = `${total ? ((100 * tally) / total).toFixed(1) : 0} %`;
  }
  $("total").textContent = total;
  $("votes").textContent = total === 1 ? "vote" : "votes";
  // Only when it changes, because it is read out.
  const names = leaders.map(({ name }) => name);
  const level = `${names.join(" and ")} are level`, leads = `${names[0]} leads`;
  const words = names.length > 1 ? level : names.length ? leads : "No votes yet";
  if ($("leader").textContent !== words) $("leader").textContent = words;
}

function tick() {
  if (counted === undefined) return;
  const rate = Math.max(0, board.total - counted);
  counted = board.total;
  rates.push(rate);
  rates.shift();
  $("rate").textContent = rate;
  const most = Math.max(1, ...rates);
  rates.forEach((value, second) => {
    bars[second].setAttribute("height", (HEIGHT * value) / most);
    bars[second].setAttribute("y", HEIGHT - (HEIGHT * value) / most);
  });
}
