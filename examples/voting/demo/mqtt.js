// As much of MQTT 5 as a page needs: connect with a token, subscribe, hear, ask and be answered. Over a WebSocket, in
// one file, so that the demo loads nothing from elsewhere; a real page would take mqtt.js from npm.
//
//   connect ──▶ CONNACK        subscribe ──▶ SUBACK, then onMessage(topic, text)
//   request ──▶ PUBLISH with a response topic and correlation data ──▶ the answer with the same correlation data

const CONNECT = 1, CONNACK = 2, PUBLISH = 3, SUBSCRIBE = 8, SUBACK = 9, PINGREQ = 12, PINGRESP = 13;
const DISCONNECT = 14;
const RESPONSE_TOPIC = 0x08, CORRELATION_DATA = 0x09, REASON_STRING = 0x1f, USER_PROPERTY = 0x26;
/** How each property is laid out: bytes of a number, "text" (also binary data), "pair", or "varint". */
const LAYOUT = {
  0x01: 1, 0x02: 4, 0x03: "text", 0x08: "text", 0x09: "text", 0x0b: "varint", 0x11: 4, 0x12: "text", 0x13: 2,
  0x15: "text", 0x16: "text", 0x1a: "text", 0x1c: "text", 0x1f: "text", 0x21: 2, 0x22: 2, 0x23: 2, 0x24: 1, 0x25: 1,
  0x26: "pair", 0x27: 4, 0x28: 1, 0x29: 1, 0x2a: 1,
};
const KEEP_ALIVE_S = 30;
/** How long a packet may stay unanswered. */
const ANSWER_MS_MAX = 10_000;

const utf8 = new TextEncoder();
const fromUtf8 = new TextDecoder();

const u16 = (number) => [number >> 8, number & 0xff];
const text = (string) => { const bytes = utf8.encode(string); return [...u16(bytes.length), ...bytes]; };
const varint = (number) => {
  const bytes = [];
  do { bytes.push((number & 0x7f) | (number > 0x7f ? 0x80 : 0)); number >>= 7; } while (number > 0);
  return bytes;
};
const sized = (bytes) => [...varint(bytes.length), ...bytes];
const packet = (type, flags, body) => Uint8Array.from([(type << 4) | flags, ...sized(body)]);

/** A UUID of version 4. crypto.randomUUID is missing where a page has come over plain HTTP from another machine. */
export function uuid() {
  const bytes = crypto.getRandomValues(new Uint8Array(16));
  bytes[6] = (bytes[6] & 0x0f) | 0x40;
  bytes[8] = (bytes[8] & 0x3f) | 0x80;
  const hex = [...bytes].map((byte) => byte.toString(16).padStart(2, "0")).join("");
  return hex.replace(/^(.{8})(.{4})(.{4})(.{4})(.{12})$/, "$1-$2-$3-$4-$5");
}

/** Reads the fields of one packet from its bytes. */
class Fields {
  constructor(bytes) { this.bytes = bytes; this.at = 0; }
  u8() { return this.bytes[this.at++]; }
  number(width) { let value = 0; while (width-- > 0) value = value * 256 + this.u8(); return value; }
  varint() {
    let value = 0, scale = 1, byte;
    do { byte = this.u8(); value += (byte & 0x7f) * scale; scale *= 128; } while (byte & 0x80);
    return value;
  }
  take(length) { return this.bytes.subarray(this.at, this.at += length); }
  text() { return fromUtf8.decode(this.take(this.number(2))); }
  rest() { return this.take(this.bytes.length - this.at); }
  /** The properties: a value each, and user properties together by name. */
  properties() {
    const end = this.varint() + this.at, found = { user: {} };
    while (this.at < end) {
      const id = this.u8(), layout = LAYOUT[id];
      if (layout === "pair") { const name = this.text(); found.user[name] = this.text(); }
      else if (layout === "text") found[id] = this.text();
      else if (layout === "varint") found[id] = this.varint();
      else if (layout) found[id] = this.number(layout);
      else throw new Error(`unknown property ${id}`);
    }
    return found;
  }
}

/** What ended a connection or a request: `isUnopened`, if there was no WebSocket; `reason`, if the server refused. */
export class MqttError extends Error {
  constructor(message, { isUnopened = false, reason } = {}) {
    super(message);
    Object.assign(this, { isUnopened, reason });
  }
}

const refused = (what, reason, words) =>
  new MqttError(words || `${what} refused with reason 0x${reason.toString(16)}`, { reason });

/** A connection. `onMessage(topic, text)` hears what was subscribed to, `onClose(error)` the end. */
export class Mqtt {
  onMessage = () => {};
  onClose = () => {};
  #socket;
  #input = new Uint8Array();
  #packetId = 0;
  #waiting = new Map(); // "connack", "suback ID" or "answer CORRELATION" to whoever waits for it
  #replies = `reply/${uuid()}`;

  /** Resolves when the server has let us in. */
  static async connect(url, { userName, password }) {
    const mqtt = new Mqtt();
    const socket = mqtt.#socket = new WebSocket(url, "mqtt");
    socket.binaryType = "arraybuffer";
    socket.onmessage = (event) => mqtt.#take(new Uint8Array(event.data));
    socket.onclose = (event) => mqtt.#end(new MqttError(`closed: ${event.code} ${event.reason}`));
    const late = setTimeout(() => socket.close(), ANSWER_MS_MAX);
    await new Promise((opened, failed) => {
      socket.onopen = opened;
      socket.onerror = () => failed(new MqttError("no WebSocket", { isUnopened: true }));
    }).finally(() => clearTimeout(late));
    const flags = 0x80 | 0x40 | 0x02; // user name, password, clean start
    const header = [...text("MQTT"), 5, flags, ...u16(KEEP_ALIVE_S), 0];
    socket.send(packet(CONNECT, 0, [...header, ...text(""), ...text(userName), ...text(password)]));
    try {
      await mqtt.#wait("connack");
      mqtt.ping = setInterval(() => mqtt.#ping(), KEEP_ALIVE_S * 500);
      await mqtt.subscribe([mqtt.#replies]);
    } catch (error) {
      mqtt.close();
      throw error;
    }
    return mqtt;
  }

  /** Resolves when the server has granted all filters. */
  async subscribe(filters) {
    const id = this.#packetId = this.#packetId % 65535 + 1;
    this.#socket.send(packet(SUBSCRIBE, 2, [...u16(id), 0, ...filters.flatMap((filter) => [...text(filter), 0])]));
    await this.#wait(`suback ${id}`);
  }

  /** Publishes `body` as JSON and resolves with the answer: its user properties and its JSON. */
  async request(topic, body) {
    const correlation = uuid();
    const properties = [RESPONSE_TOPIC, ...text(this.#replies), CORRELATION_DATA, ...text(correlation)];
    this.#socket.send(packet(PUBLISH, 0, [...text(topic), ...sized(properties), ...utf8.encode(JSON.stringify(body))]));
    return this.#wait(`answer ${correlation}`);
  }

  close() { this.#socket.close(1000); }

  /** A network that has gone without a word is noticed by the PINGRESP that does not come. */
  #ping() {
    this.#socket.send(packet(PINGREQ, 0, []));
    this.#wait("pingresp").catch((error) => { this.close(); this.#end(error); });
  }

  #wait(name) {
    return new Promise((resolve, reject) => {
      const late = setTimeout(() => this.#settle(name, new MqttError(`${name}: too late`)), ANSWER_MS_MAX);
      this.#waiting.set(name, { resolve, reject, late });
    });
  }

  #settle(name, error, value) {
    const waiter = this.#waiting.get(name);
    this.#waiting.delete(name);
    clearTimeout(waiter?.late);
    if (error) waiter?.reject(error); else waiter?.resolve(value);
  }

  #end(error) {
    if (this.isEnded) return;
    this.isEnded = true;
    clearInterval(this.ping);
    for (const name of [...this.#waiting.keys()]) this.#settle(name, error);
    this.onClose(error);
  }

  /** A packet may come in several WebSocket messages, and several packets in one. */
  #take(bytes) {
    const joined = new Uint8Array(this.#input.length + bytes.length);
    joined.set(this.#input);
    joined.set(bytes, this.#input.length);
    this.#input = joined;
    for (;;) {
      const head = new Fields(this.#input);
      const first = head.u8(), length = head.varint();
      if (!(head.at + length <= this.#input.length)) return;
      const body = head.take(length);
      this.#input = head.rest();
      this.#packet(first >> 4, first & 0x0f, new Fields(body));
    }
  }

  #packet(type, flags, fields) {
    if (type === CONNACK) {
      fields.u8();
      const reason = fields.u8(), properties = fields.properties();
      this.#settle("connack", reason && refused("connection", reason, properties[REASON_STRING]));
    } else if (type === SUBACK) {
      const id = fields.number(2);
      fields.properties();
      const reason = fields.rest().find((reason) => reason >= 0x80);
      this.#settle(`suback ${id}`, reason && refused("subscription", reason));
    } else if (type === PUBLISH) {
      const topic = fields.text();
      if (flags & 0x06) fields.number(2);
      const properties = fields.properties(), payload = fromUtf8.decode(fields.rest());
      if (topic === this.#replies) {
        this.#settle(`answer ${properties[CORRELATION_DATA]}`, null, { ...properties.user, body: JSON.parse(payload) });
      } else {
        this.onMessage(topic, payload);
      }
    } else if (type === PINGRESP) {
      this.#settle("pingresp");
    } else if (type === DISCONNECT) {
      const reason = fields.bytes.length ? fields.u8() : 0;
      this.#end(new MqttError(`the server ended the connection, reason 0x${reason.toString(16)}`));
    }
  }
}
