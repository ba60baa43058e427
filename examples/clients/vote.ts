import { Client, newId, TidegateError } from "tidegate";

const client = new Client("http://localhost:8080");
await client.logIn("dave", "dave");
console.log(String((await client.account("wallet:dave")).balance));
// prints: 10

const vote = { id: newId(), debit: "wallet:dave", credit: "candidate:3", amount: 6n };
console.log((await client.transfer(vote)).outcome, (await client.transfer(vote)).outcome);
// prints: applied duplicate

const refused = await client.transfer({ ...vote, id: newId() }).catch((error: TidegateError) => error);
console.log(refused.code, String((refused as TidegateError).members.available));
// prints: insufficient_funds 4

for await (const row of client.history("wallet:dave")) {
  console.log(`${row.kind} ${row.amount} ${row.balance_after}`);
}
// prints: transfer 6 4
// prints: transfer 10 10
