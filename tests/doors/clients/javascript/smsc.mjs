// An SMSC, with the server of `smpp`, that does as it is told:  smsc.mjs [PORT]
//
// It prints a line of JSON for each thing that happens, and reads lines of JSON; each is answered by the event "told":
//
//   {"answers": [88, 0]}       statuses of the next submissions; then 0
//   {"silent": true}           answers nothing
//   {"poison": "text"}         closes the connection at a submission of this text
//   {"refuse": 13}             status of binds
//   {"receipts": "text"}       sends a receipt for each message that wants one: "text", "tlv", "decimal"
//   {"deliver": {...}}         sends a deliver_sm with these fields
//   {"ask": true}              sends enquire_link
//   {"unbind": true}           unbinds
//   {"drop": true}             closes all connections
//   {"raw": "hex"}             sends bytes
import readline from "node:readline";
import smpp from "smpp";

const wanted = { answers: [], silent: false, poison: "", refuse: 0, receipts: "" };
const sessions = new Set();
let next = 0xa0;

const say = (event, more = {}) => console.log(JSON.stringify({ event, ...more }));

const fieldsOf = (pdu) => ({
  to: pdu.destination_addr, to_ton: pdu.dest_addr_ton, to_npi: pdu.dest_addr_npi,
  from: pdu.source_addr, from_ton: pdu.source_addr_ton, from_npi: pdu.source_addr_npi,
  text: String(pdu.short_message?.message ?? ""), udh: pdu.short_message?.udh?.map((part) => part.toString("hex")),
  coding: pdu.data_coding, esm_class: pdu.esm_class, receipt: pdu.registered_delivery,
  validity: String(pdu.validity_period ?? ""), service_type: pdu.service_type,
  sar: pdu.sar_msg_ref_num === undefined ? null : [pdu.sar_msg_ref_num, pdu.sar_total_segments, pdu.sar_segment_seqnum],
});

function receipt(session, pdu, id) {
  const named = wanted.receipts === "decimal" ? String(parseInt(id, 16)) : id;
  const text = `id:${named} sub:001 dlvrd:001 submit date:2611270101 done date:2611270102 stat:DELIVRD err:000 text:`;
  const fields = {
    source_addr: pdu.destination_addr, source_addr_ton: 1, source_addr_npi: 1, destination_addr: pdu.source_addr,
    esm_class: 4, short_message: wanted.receipts === "tlv" ? "" : text,
    ...(wanted.receipts === "tlv" ? { receipted_message_id: id, message_state: 2 } : {}),
  };
  session.deliver_sm(fields, (answer) => say("receipt answered", { status: answer.command_status, id }));
}

const server = smpp.createServer((session) => {
  sessions.add(session);
  session.on("close", () => sessions.delete(session) && say("closed"));
  session.on("error", () => session.destroy());
  session.on("bind_transceiver", (pdu) => {
    const { system_id, password, system_type, interface_version: version } = pdu;
    say("bind", { system_id, password, system_type, version });
    session.send(pdu.response({ command_status: wanted.refuse, system_id: "SMSC" }));
  });
  session.on("submit_sm", (pdu) => {
    const status = wanted.answers.shift() ?? 0;
    const id = (next++).toString(16).padStart(8, "0").toUpperCase();
    say("submit", { ...fieldsOf(pdu), id, status });
    if (wanted.silent) return;
    if (wanted.poison && String(pdu.short_message?.message) === wanted.poison) return session.destroy();
    session.send(pdu.response({ command_status: status, message_id: status ? "" : id }));
    if (status === 0 && pdu.registered_delivery && wanted.receipts) receipt(session, pdu, id);
  });
  session.on("enquire_link", (pdu) => {
    say("enquire_link");
    if (!wanted.silent) session.send(pdu.response());
  });
  session.on("unbind", (pdu) => {
    say("unbind");
    session.send(pdu.response());
    session.close();
  });
});

readline.createInterface({ input: process.stdin }).on("line", (line) => {
  const told = JSON.parse(line);
  for (const key of Object.keys(wanted)) if (key in told) wanted[key] = told[key];
  for (const session of sessions) {
    const answered = (what) => (pdu) => say(`${what} answered`, { status: pdu.command_status });
    if (told.deliver) session.deliver_sm(told.deliver, answered("delivery"));
    if (told.ask) session.enquire_link(answered("enquire_link"));
    if (told.unbind) session.unbind(answered("unbind"));
    if (told.raw) session.socket.write(Buffer.from(told.raw, "hex"));
    if (told.drop) session.destroy();
  }
  say("told");
}).on("close", () => process.exit(0));

server.listen(Number(process.argv[2] ?? 0), "127.0.0.1", () => say("listening", { port: server.address().port }));
