// Ids with the time in them: ULIDs (https://github.com/ulid/spec), each larger than the one before of this process.
// The ledger looks for an id only at its time, so it stays fast after a billion of them.

// Node 18 has no global `crypto`.
import { randomBytes } from "node:crypto";

const ALPHABET = "0123456789ABCDEFGHJKMNPQRSTVWXYZ";
const CHANCE_BITS = 80n;
let last = 0n;

/** A new id of 26 characters: 48 bits of milliseconds since the epoch, 80 bits of chance. */
export function newId(): string {
  const chance = BigInt(`0x${randomBytes(10).toString("hex")}`);
  const value = (BigInt(Date.now()) << CHANCE_BITS) | chance;
  // In the same millisecond, or when the clock went back, it counts on.
  last = value >> CHANCE_BITS > last >> CHANCE_BITS ? value : last + 1n;
  let text = "";
  for (let shift = 125n; shift >= 0n; shift -= 5n) {
    text += ALPHABET[Number((last >> shift) & 31n)];
  }
  return text;
}
