// mqtt.js over TCP and over WebSocket, versions 3.1.1 and 5:  clients.mjs MQTT-HOST:PORT HTTP-HOST:PORT
//
// Every wait is for a message or an acknowledgement; a case that does not end in time fails with its name.

import assert from "node:assert/strict";
import { randomUUID } from "node:crypto";
import mqtt from "mqtt";

const [tcp, http] = process.argv.slice(2);
const DOORS = { tcp: `mqtt://${tcp}`, websocket: `ws://${http}/mqtt` };
const SERVICE = { username: "dev", password: "dev-service-token" };
const VERSIONS = { "3.1.1": 4, 5: 5 };
const SECONDS_MAX = 20;

/** A client with a queue of what it heard. */
async function client(url, protocolVersion, options = {}) {
  const made = mqtt.connect(url, { protocolVersion, reconnectPeriod: 0, ...options });
  const heard = [], waiting = [];
  made.on("message", (topic, payload, packet) => {
    const message = { topic, text: payload.toString(), payload, packet };
    waiting.length ? waiting.shift()(message) : heard.push(message);
  });
  // Listens before it is connected: what waited for a session comes at once.
  await new Promise((resolve, reject) => made.once("connect", resolve).once("error", reject));
  made.next = () => (heard.length ? Promise.resolve(heard.shift()) : new Promise((resolve) => waiting.push(resolve)));
  return made;
}

const CASES = {
  async "each quality of service"(url, version) {
    const topic = `js/${randomUUID()}`;
    const [sender, receiver] = [await client(url, version), await client(url, version)];
    await receiver.subscribeAsync(`${topic}/#`, { qos: 2 });
    for (const qos of [0, 1, 2]) {
      await sender.publishAsync(`${topic}/${qos}`, `quality ${qos}`, { qos });
      const { text, packet } = await receiver.next();
      assert.deepEqual([text, packet.qos, packet.retain], [`quality ${qos}`, qos, false]);
    }
    await Promise.all([sender.endAsync(), receiver.endAsync()]);
  },

  async "a large message, and many small ones in order"(url, version) {
    const topic = `js/${randomUUID()}`;
    const one = await client(url, version);
    await one.subscribeAsync(topic, { qos: 1 });
    const large = Buffer.alloc(200_000, "tide");
    await one.publishAsync(topic, large, { qos: 1 });
    assert.ok(large.equals((await one.next()).payload));
    const texts = Array.from({ length: 500 }, (_, number) => `${number}`);
    await Promise.all(texts.map((text) => one.publishAsync(topic, text, { qos: 1 })));
    for (const text of texts) assert.equal((await one.next()).text, text);
    await one.endAsync();
  },

  async "a retained message and its end"(url, version) {
    const topic = `js/${randomUUID()}`;
    const one = await client(url, version);
    await one.publishAsync(topic, "kept", { qos: 1, retain: true });
    await one.subscribeAsync(topic);
    const { text, packet } = await one.next();
    assert.deepEqual([text, packet.retain], ["kept", true]);
    await one.publishAsync(topic, "", { qos: 1, retain: true });
    await one.endAsync();
  },

  async "a session that sleeps"(url, version) {
    const topic = `js/${randomUUID()}`;
    const asleep = { clientId: `js-${randomUUID()}`, clean: false, properties: { sessionExpiryInterval: 3600 } };
    if (version === 4) delete asleep.properties;
    const first = await client(url, version, asleep);
    await first.subscribeAsync(topic, { qos: 1 });
    await first.endAsync();
    const sender = await client(url, version);
    await sender.publishAsync(topic, "while you slept", { qos: 1 });
    const again = await client(url, version, asleep);
    assert.equal((await again.next()).text, "while you slept");
    await Promise.all([sender.endAsync(), again.endAsync()]);
    await (await client(url, version, { clientId: asleep.clientId, clean: true })).endAsync();
  },

  async "a will of a client that vanishes"(url, version) {
    const topic = `js/${randomUUID()}`;
    const watcher = await client(url, version);
    await watcher.subscribeAsync(topic);
    const mortal = await client(url, version, { will: { topic, payload: Buffer.from("gone"), qos: 1, retain: false } });
    mortal.stream.destroy();
    assert.equal((await watcher.next()).text, "gone");
    await watcher.endAsync();
  },

  async "a queue is received from, rejected and acknowledged"(url, version) {
    const name = `js-${randomUUID()}`;
    const headers = { authorization: `Bearer ${SERVICE.password}`, "content-type": "application/json" };
    const queue = `http://${http}/v1/queues/${name}`;
    assert.ok((await fetch(queue, { method: "PUT", headers, body: JSON.stringify({ retry_ms: 1 }) })).ok);
    const sender = await client(url, version, SERVICE);
    await sender.publishAsync(`$queue-in/${name}`, "job", { qos: 1, properties: { userProperties: { lang: "en" } } });
    // The first delivery is rejected, where the version has a word for it.
    const reasons = version === 5 ? [0x83, 0] : [0];
    const customHandleAcks = (topic, payload, packet, done) => done(null, reasons.shift());
    const receiver = await client(url, version, { ...SERVICE, ...(version === 5 && { customHandleAcks }) });
    await receiver.subscribeAsync(`$queue-out/${name}`, { qos: 1 });
    const { text, packet } = await receiver.next();
    assert.deepEqual([text, packet.qos], ["job", 1]);
    if (version === 5) {
      const { attempts, lang } = packet.properties.userProperties;
      assert.deepEqual([attempts, lang], ["2", "en"]);
    }
    const isDone = async () => (await (await fetch(queue, { headers })).json()).totals.acknowledged === 1;
    while (!(await isDone())) await new Promise((resolve) => setTimeout(resolve, 20));
    const { rejected } = (await (await fetch(queue, { headers })).json()).totals;
    assert.equal(rejected, version === 5 ? 1 : 0);
    await Promise.all([sender.endAsync(), receiver.endAsync()]);
  },

  async "pings while nothing else happens"(url, version) {
    const one = await client(url, version, { keepalive: 1 });
    await new Promise((resolve) => one.on("packetreceive", ({ cmd }) => cmd === "pingresp" && resolve()));
    await one.endAsync();
  },
};

let failed = 0;
for (const [door, url] of Object.entries(DOORS)) {
  if (!url) continue;
  for (const [version, level] of Object.entries(VERSIONS)) {
    for (const [name, run] of Object.entries(CASES)) {
      const label = `mqtt.js over ${door}, ${version}: ${name}`;
      let timer;
      const late = new Promise((_, reject) => {
        timer = setTimeout(() => reject(new Error(`not done in ${SECONDS_MAX} s`)), SECONDS_MAX * 1000);
      });
      try {
        await Promise.race([run(url, level), late]);
        console.log(`${label}: ok`);
      } catch (error) {
        failed += 1;
        console.log(`${label}: FAILED: ${error.stack}`);
      }
      clearTimeout(timer);
    }
  }
}
process.exit(failed ? 1 : 0);
