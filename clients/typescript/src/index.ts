// Client of the Tidegate ledger: transfers that are applied exactly once, also when an answer was lost.

export { Client } from "./client.js";
export type { AccountChange, ClientOptions, NewHold, NewTransfer, Post, Time, Whole } from "./client.js";
export { type Members, TidegateError } from "./errors.js";
export { newId } from "./ids.js";
export type * from "./models.js";
export type { Retry } from "./retry.js";
