// Against the real server at TIDEGATE_URL, which is started again when it is killed (tests/clients/run.py).

import assert from "node:assert/strict";
import { readFileSync } from "node:fs";
import { test } from "node:test";

import { type AccountRequest, Client, newId, TidegateError } from "../src/index.js";

const URL = process.env.TIDEGATE_URL ?? "";
const PID_FILE = process.env.TIDEGATE_PID_FILE ?? "";
const SERVICE = { token: "dev-service-token" };
const LARGE = 2n ** 62n + 1n; // not a double
const client = new Client(URL, SERVICE);

/** A wallet with credits, and a collector, both new. */
async function openPair(credits: bigint | number): Promise<[string, string]> {
  const name = newId();
  const [source, wallet, collector] = [`source:${name}`, `wallet:${name}`, `candidate:${name}`];
  await client.openAccount({ id: source, asset: name, kind: "source" });
  await client.openAccount({ id: wallet, asset: name, kind: "wallet" });
  await client.openAccount({ id: collector, asset: name, kind: "collector" });
  await client.transfer({ debit: source, credit: wallet, amount: credits });
  return [wallet, collector];
}

async function refused(code: string, status: number | undefined, asked: Promise<unknown>): Promise<TidegateError> {
  const error = await asked.then(
    () => assert.fail(`expected ${code}`),
    (failed: unknown) => failed,
  );
  assert.ok(error instanceof TidegateError, String(error));
  assert.deepEqual([error.code, error.status], [code, status]);
  return error;
}

async function all<T>(from: AsyncIterable<T>): Promise<T[]> {
  const found: T[] = [];
  for await (const one of from) {
    found.push(one);
  }
  return found;
}

test("a viewer votes", async () => {
  const viewer = new Client(URL);
  await viewer.logIn("dave", "dave");
  const before = await viewer.account("wallet:dave");
  const vote = { debit: "wallet:dave", credit: "candidate:3", amount: 2, memo: "bravo" };
  const { id, outcome } = await viewer.transfer(vote);
  assert.deepEqual([outcome, id.length], ["applied", 26]);
  assert.equal((await viewer.account("wallet:dave")).balance, before.balance - 2n);
  const row = (await all(viewer.history("wallet:dave")))[0];
  assert.deepEqual([row?.id, row?.amount, row?.memo, row?.kind], [id, 2n, "bravo", "transfer"]);
  await refused("forbidden", 403, viewer.audit());
});

test("an id is applied once", async () => {
  const [debit, credit] = await openPair(10);
  const vote = { id: newId(), debit, credit, amount: 6 };
  assert.equal((await client.transfer(vote)).outcome, "applied");
  assert.equal((await client.transfer(vote)).outcome, "duplicate");
  await refused("id_reused", 409, client.transfer({ ...vote, amount: 7 }));
  const error = await refused("insufficient_funds", 409, client.transfer({ debit, credit, amount: 5 }));
  assert.equal(error.members.available, 4n);
  assert.match(error.detail, /4/);
  assert.equal(error.isTransient, false);
});

test("lists go on over pages", async () => {
  const tag = newId();
  const ids = Array.from({ length: 25 }, (_, number) => `${tag}:${String(number).padStart(2, "0")}`);
  const wallets = ids.map((id): AccountRequest => ({ id: `wallet:${id}`, asset: tag, kind: "wallet" }));
  const opened = await client.openAccounts(wallets);
  assert.deepEqual(opened, wallets.map(({ id }) => ({ id, outcome: "applied" })));
  const listed = await all(client.accounts(`wallet:${tag}`, 10));
  assert.deepEqual(listed.map(({ id }) => id), wallets.map(({ id }) => id));
  const [debit, credit] = await openPair(25);
  for (const id of ids) {
    await client.transfer({ id, debit, credit, amount: 1 });
  }
  const rows = await all(client.history(credit, { pageRows: 10 }));
  assert.deepEqual(rows.map(({ id }) => id), [...ids].reverse());
  assert.equal((await client.balanceAt(credit, rows[0]!.time_ms)).balance, 25n);
  assert.equal((await client.balanceAt(credit, new Date(978307200000))).balance, 0n);
});

test("batches and linked groups", async () => {
  const [debit, credit] = await openPair(10);
  const votes = [4, 9].map((amount) => ({ debit, credit, amount }));
  const linked = await client.transfers(votes, { linked: true });
  assert.deepEqual(linked.map(({ code }) => code), ["linked_failed", "insufficient_funds"]);
  assert.equal((await client.account(debit)).balance, 10n);
  assert.deepEqual((await client.transfers(votes)).map(({ outcome }) => outcome), ["applied", "refused"]);
  assert.equal((await client.account(debit)).balance, 6n);
});

test("holds", async () => {
  const [debit, credit] = await openPair(10);
  const first = await client.placeHold({ debit, credit, amount: 6, expires_in_ms: 60_000 });
  const second = await client.placeHold({ debit, credit, amount: 3n, expires_in_ms: 60_000 });
  let account = await client.account(debit);
  assert.deepEqual([account.balance, account.held, account.available], [10n, 9n, 1n]);
  assert.equal((await client.postHold(first.id, 5)).outcome, "applied");
  assert.equal((await client.postHold(first.id, 5)).outcome, "duplicate");
  assert.equal((await client.voidHold(second.id)).outcome, "applied");
  await refused("hold_voided", 409, client.postHold(second.id));
  account = await client.account(debit);
  assert.deepEqual([account.balance, account.held, account.available], [5n, 0n, 5n]);
});

test("batches of holds, and what became of them", async () => {
  const [debit, credit] = await openPair(10);
  const terms = { debit, credit, expires_in_ms: 60_000, code: 7, user_data: "seat-12" };
  const [first, second, third] = [newId(), newId(), newId()];
  const tooMany = [9, 9].map((amount) => ({ ...terms, amount }));
  const words = (lines: readonly { outcome: string }[]) => lines.map(({ outcome }) => outcome);
  assert.deepEqual(words(await client.placeHolds(tooMany, { linked: true })), ["refused", "refused"]);
  const holds = [{ id: first, amount: 5 }, { id: second, amount: 3n }, { id: third, amount: 1 }];
  const placed = await client.placeHolds(holds.map((hold) => ({ ...terms, ...hold })));
  assert.deepEqual(words(placed), ["applied", "applied", "applied"]);
  const listed = await all(client.openHolds(debit, 2));
  assert.deepEqual(listed.map(({ id, remaining }) => [id, remaining]), [[first, 5n], [second, 3n], [third, 1n]]);
  assert.ok(listed.every((hold) => hold.code === 7 && hold.user_data === "seat-12"));
  assert.deepEqual(words(await client.postHolds([{ id: first, amount: 4 }, { id: second }])), ["applied", "applied"]);
  assert.deepEqual(words(await client.voidHolds([third])), ["applied"]);
  const { state, posted, code, user_data } = await client.hold(first);
  assert.deepEqual([state, posted, code, user_data], ["posted", 4n, 7, "seat-12"]);
  assert.equal((await client.hold(third)).state, "voided");
  assert.equal((await client.account(credit)).balance, 7n);
});

test("what a viewer made is found in its id space", async () => {
  const carol = new Client(URL);
  await carol.logIn("carol", "carol");
  const terms = { debit: "wallet:carol", credit: "candidate:1", amount: 1, expires_in_ms: 60_000 };
  const [voided, posted, inBatch] = [newId(), newId(), newId()];
  await carol.placeHolds([voided, posted, inBatch].map((id) => ({ ...terms, id })));
  const vote = await carol.transfer({ debit: terms.debit, credit: terms.credit, amount: 1 });
  const idSpace = "carol";
  await refused("transfer_not_found", 404, client.transferState(vote.id));
  await refused("transfer_not_found", 404, client.transferState(vote.id, { idSpace: "" }));
  assert.equal((await client.transferState(vote.id, { idSpace })).id_space, idSpace);
  await refused("hold_not_found", 404, client.voidHold(voided));
  assert.equal((await client.voidHold(voided, { idSpace })).outcome, "applied");
  assert.equal((await client.postHold(posted, undefined, { idSpace })).outcome, "applied");
  assert.equal((await client.hold(posted, { idSpace })).state, "posted");
  assert.equal((await client.voidHolds([inBatch], { idSpace }))[0]?.outcome, "applied");
  assert.equal((await client.postHolds([{ id: inBatch }], { idSpace }))[0]?.code, "hold_voided");
});

test("accounts change, and transfers are found", async () => {
  const [debit, credit] = await openPair(10);
  let account = await client.changeAccount(debit, { status: "frozen", metadata: { seat: "12" }, if_revision: 0 });
  assert.deepEqual([account.status, account.metadata, account.revision], ["frozen", { seat: "12" }, 1n]);
  const vote = { id: newId(), debit, credit, amount: 3 };
  await refused("debit_account_frozen", 409, client.transfer(vote));
  assert.equal((await client.transferState(vote.id)).refusal, "debit_account_frozen");
  account = await client.changeAccount(debit, { status: "open", balance_min: 8, metadata: { seat: null } });
  assert.deepEqual([account.status, account.balance_min, account.metadata], ["open", 8n, undefined]);
  await refused("balance_below_min", 409, client.transfer({ ...vote, id: newId() }));
  assert.equal((await client.changeAccount(debit, { balance_min: null })).balance_min, undefined);
  const again = { ...vote, id: newId(), code: 9 };
  assert.equal((await client.transfer(again)).outcome, "applied");
  const { outcome, amount, code } = await client.transferState(again.id);
  assert.deepEqual([outcome, amount, code], ["applied", 3n, 9]);
  const stale = await refused("revision_stale", 409, client.changeAccount(debit, { status: "frozen", if_revision: 1 }));
  assert.equal(stale.members.revision, 3n);
});

test("assets", async () => {
  const name = newId();
  await client.declareAsset(name, 2);
  await client.declareAsset(name, 2);
  await refused("asset_exists", 409, client.declareAsset(name, 3));
  assert.equal((await client.assets()).find((asset) => asset.name === name)?.decimals, 2);
});

test("large amounts are exact, and rounded ones are not sent", async () => {
  const [debit, credit] = await openPair(LARGE);
  await client.transfer({ debit, credit, amount: LARGE });
  const account = await client.account(credit);
  assert.deepEqual([account.balance, account.credited], [LARGE, LARGE]);
  assert.deepEqual((await all(client.history(credit))).map(({ amount }) => amount), [LARGE]);
  const change = await all(client.changes("start", { accounts: credit, kinds: ["transfer"], following: false }));
  assert.deepEqual(change.map(({ credit_balance_after }) => credit_balance_after), [LARGE]);
  await assert.rejects(client.transfer({ debit, credit, amount: 2 ** 53 }), RangeError);
  for (const wrong of [true, "", " 5", "0x5", null, [7n], 1.5]) {
    const amount = wrong as unknown as number;
    await assert.rejects(async () => client.transfer({ debit, credit, amount }), RangeError, `amount ${String(wrong)}`);
  }
});

test("audit", async () => {
  assert.deepEqual((await client.audit()).shards.map(({ shard }) => shard), [0]);
});

test("errors name what went wrong", async () => {
  await refused("token_invalid", 401, new Client(URL, { token: "wrong" }).audit());
  await refused("account_not_found", 404, client.account("wallet:nobody/at all"));
  const nobody = new Client("http://127.0.0.1:1", { ...SERVICE, retry: { deadlineMs: 300 } });
  assert.ok((await refused("no_answer", undefined, nobody.audit())).isTransient);
});

test("kill in the middle of 200 transfers", async () => {
  const [debit, credit] = await openPair(200);
  const ids = Array.from({ length: 200 }, newId);
  const opened = await all(client.changes("start", { accounts: credit, following: false }));
  const started = opened.at(-1)!.cursor;
  const followed: [string | undefined, bigint | undefined][] = [];
  let begin = () => {};
  const reading = new Promise<void>((resolve) => (begin = resolve));
  const follower = (async () => {
    for await (const change of client.changes(started, { accounts: credit })) {
      begin();
      followed.push([change.id, change.credit_balance_after]);
      if (change.id === ids.at(-1)) {
        return;
      }
    }
  })();
  const killed = Number(readFileSync(PID_FILE, "utf8"));
  for (const [number, id] of ids.entries()) {
    if (number === 100) {
      await reading;
      // While transfers go on: it dies between two requests, or within one.
      setTimeout(() => process.kill(killed, "SIGKILL"), 3);
    }
    await client.transfer({ id, debit, credit, amount: 1 });
  }
  assert.notEqual(Number(readFileSync(PID_FILE, "utf8")), killed);
  assert.equal((await client.account(credit)).balance, 200n);
  assert.equal((await client.account(debit)).balance, 0n);
  await follower;
  assert.deepEqual(followed, ids.map((id, number) => [id, BigInt(number + 1)]));
  assert.deepEqual((await all(client.history(credit))).map(({ id }) => id), [...ids].reverse());
});
