// Safe retries against a server that answers as it is told.

import assert from "node:assert/strict";
import { createServer } from "node:http";
import type { AddressInfo } from "node:net";
import { test } from "node:test";

import { Client, newId, type Retry, TidegateError } from "../src/index.js";

const ALPHABET = "0123456789ABCDEFGHJKMNPQRSTVWXYZ";
const APPLIED = '{"id":"vote-1","outcome":"applied","some_later_field":[1]}';

/** An answer, or null where the connection breaks off. */
type Answer = { status: number; headers?: Record<string, string>; text: string } | null;

/** Votes at a server that answers so; the bodies that it got, and what the client said. */
async function vote(script: Answer[], retry: Partial<Retry> = {}, logsIn = false) {
  const bodies: string[] = [];
  const server = createServer(async (request, response) => {
    let body = "";
    for await (const part of request) {
      body += part;
    }
    bodies.push(body);
    const answer = script.shift() ?? null;
    if (answer === null) {
      request.socket.destroy();
      return;
    }
    response.writeHead(answer.status, answer.headers).end(answer.text);
  });
  await new Promise<void>((resolve) => server.listen(0, "127.0.0.1", resolve));
  const { port } = server.address() as AddressInfo;
  const client = new Client(`http://127.0.0.1:${port}`, { token: "token", retry });
  const begun = performance.now();
  try {
    if (logsIn) {
      await client.logIn("dave", "dave");
    }
    const vote = client.transfer({ debit: "wallet:dave", credit: "candidate:3", amount: 1 });
    const said = await vote.catch((error: unknown) => error);
    return { bodies, said, tookMs: performance.now() - begun };
  } finally {
    server.closeAllConnections();
    server.close();
  }
}

test("the same request until there is an answer", async () => {
  const busy = { status: 429, headers: { "retry-after": "1" }, text: '{"code":"quota_exceeded","detail":"slower"}' };
  const proxy = { status: 500, text: "a proxy's page" };
  const { bodies, said, tookMs } = await vote([null, proxy, busy, { status: 201, text: APPLIED }]);
  assert.equal((said as { outcome: string }).outcome, "applied");
  assert.ok(tookMs >= 990, `${tookMs}`);
  assert.equal(bodies.length, 4);
  assert.equal(new Set(bodies).size, 1);
});

test("a refusal is not asked again", async () => {
  const text = '{"code":"insufficient_funds","detail":"only 4","available":4}';
  const { bodies, said } = await vote([{ status: 409, text }]);
  assert.ok(said instanceof TidegateError);
  assert.deepEqual([said.code, said.members.available, bodies.length], ["insufficient_funds", 4n, 1]);
});

test("the deadline ends it with the last error", async () => {
  const text = '{"code":"busy","detail":"too much is under way"}';
  const busy = { status: 503, headers: { "retry-after": "5" }, text };
  const { bodies, said, tookMs } = await vote([busy, busy], { deadlineMs: 2000 });
  assert.ok(said instanceof TidegateError);
  assert.deepEqual([said.code, said.retryAfter, bodies.length], ["busy", 5, 1]);
  assert.ok(tookMs < 2000);
});

test("an expired token is renewed, and the same request sent", async () => {
  const expired = { status: 401, text: '{"code":"token_expired","detail":"the token has expired"}' };
  const token = { status: 200, text: '{"token":"new","expires_at":"2026-11-21T09:14:49Z"}' };
  const { bodies, said } = await vote([token, expired, token, { status: 201, text: APPLIED }], {}, true);
  assert.equal((said as { outcome: string }).outcome, "applied");
  const [login, asked] = bodies;
  assert.deepEqual(bodies, [login, asked, login, asked]);
});

test("ids grow", () => {
  const ids = Array.from({ length: 10_000 }, newId);
  assert.deepEqual(ids, [...new Set(ids)].sort());
  assert.ok(ids.every((id) => id.length === 26));
  const timeMs = [...ids[0]!.slice(0, 10)].reduce((time, digit) => time * 32 + ALPHABET.indexOf(digit), 0);
  assert.ok(Math.abs(timeMs - Date.now()) < 60_000, `${timeMs}`);
});
