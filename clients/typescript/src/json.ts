// JSON without loss: JSON.parse rounds integers beyond 2^53, and amounts go to 2^63.

import { parse, stringify } from "lossless-json";

import { BIGINT_FIELDS } from "./models.js";

/** A number of JSON that waits for the name of its field. */
class Digits {
  constructor(readonly text: string) {}
}

/** The value of a JSON text. Amounts and the like are bigint by their name; other numbers if they are too large. */
export function decode(text: string): unknown {
  return parse(text, named, (digits) => new Digits(digits));
}

/** JSON of a value, which may have bigint in it. */
export function encode(value: unknown): string {
  return stringify(value) ?? "null";
}

function named(name: string, value: unknown): unknown {
  if (!(value instanceof Digits)) {
    return value;
  }
  const whole = /^-?\d+$/.test(value.text);
  const small = Number(value.text);
  return whole && (BIGINT_FIELDS.has(name) || !Number.isSafeInteger(small)) ? BigInt(value.text) : small;
}
