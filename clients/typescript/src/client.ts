// The ledger's HTTP API as methods.
//
// Promise: a request whose outcome is unknown is sent again, with the same ids and content, until it has an answer or
// its deadline passes. The ledger applies an id once, so nothing is done twice.

import { follow } from "./changes.js";
import { ask, type Asked } from "./connection.js";
import { TidegateError } from "./errors.js";
import { newId } from "./ids.js";
import { encode } from "./json.js";
import type {
  Account,
  AccountRequest,
  AccountStatus,
  Asset,
  Audit,
  BalanceAt,
  Change,
  HistoryRow,
  HoldRequest,
  HoldState,
  Outcome,
  Token,
  TransferRequest,
  TransferState,
} from "./models.js";
import { Attempts, RETRY, type Retry } from "./retry.js";

/** Without an id a new one is made. Amounts are bigint, or numbers up to 2^53. */
export type Whole = bigint | number;
export type NewTransfer = Omit<TransferRequest, "id" | "amount"> & { id?: string; amount: Whole };
export type NewHold = Omit<HoldRequest, "id" | "amount"> & { id?: string; amount: Whole };

/** What to change on an account; what is absent stays as it is. A limit of null is taken away, a key removed. */
export interface AccountChange {
  status?: AccountStatus;
  balance_min?: Whole | null;
  balance_max?: Whole | null;
  metadata?: Readonly<Record<string, string | null>>;
  /** Refused (`revision_stale`) unless the account is at this revision. */
  if_revision?: Whole;
}

/** Whose id it is: the user name of the viewer who chose it, or the `id_space` of a service; if absent, the token's. */
export interface InSpace {
  idSpace?: string;
}

/** A hold to post: all of it, or an amount. */
export interface Post {
  id: string;
  amount?: Whole;
}

export interface ClientOptions {
  /** A service's token; or call `logIn`. */
  token?: string;
  /** For one attempt; 15,000 if absent. */
  timeoutMs?: number;
  /** For a request with all its attempts; 30 s in all if absent. */
  retry?: Partial<Retry>;
}

/** RFC 3339 in a text, milliseconds since the epoch in a number. */
export type Time = string | number | Date;

type Query = Record<string, unknown>;

/**
 * A client of one server, such as `http://localhost:8080`. What the server refuses is thrown as TidegateError; in a
 * batch it stands in the line of its outcome.
 */
export class Client {
  #token: string | undefined;
  #password: [string, string] | undefined;
  readonly #base: string;
  readonly #timeoutMs: number;
  readonly #retry: Retry;

  constructor(url: string, options: ClientOptions = {}) {
    this.#base = new URL(url).href.replace(/\/$/, "");
    this.#token = options.token;
    this.#timeoutMs = options.timeoutMs ?? 15_000;
    this.#retry = { ...RETRY, ...options.retry };
  }

  /** Logs in. When the token expires, the client does it again by itself. */
  async logIn(user: string, password: string): Promise<Token> {
    const given = await this.#ask<Token>("POST", "/v1/login", { body: { user, password }, guarded: false });
    this.#token = given.token;
    this.#password = [user, password];
    return given;
  }

  // ---------------------------------------------------------------------------------------------------- accounts

  /** Opens an account; one that is open already with the same asset and kind is returned. */
  openAccount(account: AccountRequest): Promise<Account> {
    return this.#ask("POST", "/v1/accounts", { body: account });
  }

  /** Opens up to 8,190 accounts; an outcome for each, in this order. */
  openAccounts(accounts: readonly AccountRequest[]): Promise<Outcome[]> {
    return this.#outcomes("/v1/accounts", { accounts });
  }

  /** An account's figures. */
  account(id: string): Promise<Account> {
    return this.#ask("GET", `/v1/accounts/${encodeURIComponent(id)}`);
  }

  /** An account's balance at a time. */
  async balanceAt(id: string, at: Time): Promise<BalanceAt> {
    const query: Query = { at };
    for (;;) {
      try {
        return await this.#ask<BalanceAt>("GET", `/v1/accounts/${encodeURIComponent(id)}`, { query });
      } catch (error) {
        // The server looks at a bounded number of rows in one request.
        const tooLong = error instanceof TidegateError && error.code === "history_too_long";
        if (!tooLong || error.members.next === undefined) {
          throw error;
        }
        query.before = error.members.next;
      }
    }
  }

  /** All accounts that this token may see whose ids begin with `prefix`, by id, page by page. */
  accounts(prefix = "", pageRows = 1000): AsyncGenerator<Account, void, void> {
    return this.#pages("/v1/accounts", { prefix, limit: pageRows }, "accounts", "after");
  }

  /** An account's history, newest first, page by page. */
  history(
    id: string,
    { fromTime, toTime, pageRows = 1000 }: { fromTime?: Time; toTime?: Time; pageRows?: number } = {},
  ): AsyncGenerator<HistoryRow, void, void> {
    const query = { from_time: fromTime, to_time: toTime, limit: pageRows };
    return this.#pages(`/v1/accounts/${encodeURIComponent(id)}/transfers`, query, "transfers", "before");
  }

  /**
   * Freezes, closes, limits or describes an account. With `if_revision`, a request whose first answer was lost may be
   * refused although it was done: read the account.
   */
  async changeAccount(id: string, change: AccountChange): Promise<Account> {
    const given = Object.entries(change).filter(([, value]) => value !== undefined);
    const whole = (value: unknown) => (typeof value === "number" ? exact(value) : value);
    const body = Object.fromEntries(given.map(([name, value]) => [name, whole(value)]));
    return this.#ask("PATCH", `/v1/accounts/${encodeURIComponent(id)}`, { body });
  }

  /** The open holds on an account, in the order of their placement, page by page. */
  openHolds(id: string, pageRows = 1000): AsyncGenerator<HoldState, void, void> {
    return this.#pages(`/v1/accounts/${encodeURIComponent(id)}/holds`, { limit: pageRows }, "holds", "after");
  }

  /** Says once how many digits of an amount stand behind the point. Amounts stay integers. */
  async declareAsset(name: string, decimals: number): Promise<void> {
    await this.#ask("POST", "/v1/assets", { body: { name, decimals } });
  }

  /** All assets, and for those who may read all accounts, how much of each there is. */
  async assets(): Promise<Asset[]> {
    return (await this.#ask<{ assets: Asset[] }>("GET", "/v1/assets")).assets;
  }

  // ----------------------------------------------------------------------------------------- transfers and holds

  /**
   * Moves minor units, once for this id. Without an id a new one is made, which the outcome has; to be safe over a
   * crash of your program, make the id with `newId` and store it first.
   */
  async transfer(transfer: NewTransfer): Promise<Outcome> {
    return this.#ask("POST", "/v1/transfers", { body: withId(transfer) });
  }

  /** Up to 8,190 transfers; an outcome for each, in this order. If they are linked, all are applied or none. */
  async transfers(transfers: readonly NewTransfer[], { linked = false } = {}): Promise<Outcome[]> {
    return this.#outcomes("/v1/transfers", { transfers: transfers.map(withId), ...(linked ? { linked } : {}) });
  }

  /** What became of a transfer. */
  transferState(id: string, space: InSpace = {}): Promise<TransferState> {
    return this.#ask("GET", `/v1/transfers/${encodeURIComponent(id)}`, { query: inSpace(space) });
  }

  /** Reserves an amount of `debit` for a later post to `credit`. */
  async placeHold(hold: NewHold): Promise<Outcome> {
    return this.#ask("POST", "/v1/holds", { body: withId(hold) });
  }

  /** Moves what is held, or a part; the rest is available again. */
  async postHold(id: string, amount?: Whole, space: InSpace = {}): Promise<Outcome> {
    const body = amount === undefined ? {} : { amount: exact(amount) };
    return this.#ask("POST", `/v1/holds/${encodeURIComponent(id)}/post`, { body, query: inSpace(space) });
  }

  /** Makes what is held available again. */
  voidHold(id: string, space: InSpace = {}): Promise<Outcome> {
    return this.#ask("POST", `/v1/holds/${encodeURIComponent(id)}/void`, { body: {}, query: inSpace(space) });
  }

  /** Up to 8,190 holds; an outcome for each, in this order. If they are linked, all are placed or none. */
  async placeHolds(holds: readonly NewHold[], { linked = false } = {}): Promise<Outcome[]> {
    return this.#outcomes("/v1/holds", { holds: holds.map(withId), ...(linked ? { linked } : {}) });
  }

  /** Posts up to 8,190 holds. */
  async postHolds(posts: readonly Post[], space: InSpace = {}): Promise<Outcome[]> {
    const sent = posts.map(({ id, amount }) => (amount === undefined ? { id } : { id, amount: exact(amount) }));
    return this.#outcomes("/v1/holds/post", { posts: sent }, inSpace(space));
  }

  /** Voids up to 8,190 holds. */
  voidHolds(ids: readonly string[], space: InSpace = {}): Promise<Outcome[]> {
    return this.#outcomes("/v1/holds/void", { ids }, inSpace(space));
  }

  /** A hold and where it is in its life. */
  hold(id: string, space: InSpace = {}): Promise<HoldState> {
    return this.#ask("GET", `/v1/holds/${encodeURIComponent(id)}`, { query: inSpace(space) });
  }

  // ---------------------------------------------------------------------------------------------- changes, audit

  /**
   * What happened behind a cursor (or `start`, `now`), and what happens later unless `following` is false. After a
   * broken connection it goes on by itself, for ever unless `retry` says otherwise. Keep the cursor of the last change
   * that you have worked with.
   */
  changes(
    after = "start",
    options: { accounts?: string; kinds?: readonly string[]; following?: boolean; retry?: Partial<Retry> } = {},
  ): AsyncGenerator<Change, void, void> {
    const { accounts, kinds = [], following = true, retry } = options;
    const query: Query = { after, accounts, kinds: kinds.join(",") || undefined, follow: following };
    const source = {
      url: (path: string, asked: Query) => this.#url(path, asked),
      headers: () => this.#headers(),
      logInAgain: () => this.#logInAgain(),
    };
    return follow(source, query, { ...RETRY, deadlineMs: Infinity, ...retry });
  }

  /** The last reconciliation of every shard. */
  audit(): Promise<Audit> {
    return this.#ask("GET", "/v1/audit");
  }

  // ------------------------------------------------------------------------------------------------------ asking

  /** The answer to a request, which is sent as often as it needs, with the same text. */
  async #ask<T>(
    method: Asked["method"],
    path: string,
    { body, query = {}, guarded = true }: { body?: unknown; query?: Query; guarded?: boolean } = {},
  ): Promise<T> {
    const url = this.#url(path, query);
    const sent = body === undefined ? {} : { body: encode(body) };
    const attempts = new Attempts(this.#retry);
    let hasLoggedIn = !guarded;
    for (;;) {
      const kind: Record<string, string> = body === undefined ? {} : { "content-type": "application/json" };
      const headers = guarded ? { ...kind, ...this.#headers() } : kind;
      const leftMs = attempts.leftMs > 0 ? attempts.leftMs : Infinity;
      try {
        return (await ask({ method, url, headers, ...sent }, Math.min(this.#timeoutMs, leftMs))) as T;
      } catch (error) {
        const expired = error instanceof TidegateError && error.code === "token_expired";
        if (!expired || hasLoggedIn || !(await this.#logInAgain())) {
          await attempts.failed(error);
        }
        hasLoggedIn ||= expired;
      }
    }
  }

  async #outcomes(path: string, body: unknown, query: Query = {}): Promise<Outcome[]> {
    return (await this.#ask<{ outcomes: Outcome[] }>("POST", path, { body, query })).outcomes;
  }

  async *#pages<T>(path: string, query: Query, rows: string, cursor: string): AsyncGenerator<T, void, void> {
    for (let asked = query; ; ) {
      const page = await this.#ask<Record<string, unknown>>("GET", path, { query: asked });
      yield* page[rows] as T[];
      if (page.next === undefined) {
        return;
      }
      asked = { ...asked, [cursor]: page.next };
    }
  }

  #url(path: string, query: Query): string {
    const sent = Object.entries(query).filter(([, value]) => value !== undefined);
    const text = (value: unknown) => (value instanceof Date ? value.toISOString() : String(value));
    const words = new URLSearchParams(sent.map(([name, value]) => [name, text(value)]));
    return `${this.#base}${path}${sent.length > 0 ? `?${words}` : ""}`;
  }

  #headers(): Record<string, string> {
    return this.#token === undefined ? {} : { authorization: `Bearer ${this.#token}` };
  }

  /** Gets a new token; false if there is no password for it. */
  async #logInAgain(): Promise<boolean> {
    if (this.#password === undefined) {
      return false;
    }
    await this.logIn(...this.#password);
    return true;
  }
}

function inSpace({ idSpace }: InSpace): Query {
  return { id_space: idSpace };
}

function withId<T extends { id?: string; amount: Whole }>(asked: T): T & { id: string; amount: bigint } {
  return { ...asked, id: asked.id ?? newId(), amount: exact(asked.amount) };
}

/**
 * The amount, if it is what the program meant: a number beyond 2^53 has been rounded already, and BigInt makes 1 of
 * true and 0 of an empty text. Programs without types give texts, too.
 */
function exact(amount: Whole): bigint {
  const given: unknown = amount;
  const isExact = typeof given === "bigint" || Number.isSafeInteger(given);
  if (!isExact && !(typeof given === "string" && /^-?[0-9]+$/.test(given))) {
    throw new RangeError(`amount ${String(given)}: expected a whole number up to 2^53, a bigint, or digits`);
  }
  return BigInt(amount);
}
