// Made from the server's /openapi.json by clients/generate.py: do not edit.

/** Integers of these names are decoded as bigint, whatever their size. */
export const BIGINT_FIELDS: ReadonlySet<string> = new Set([
  "accounts_compared",
  "agreed_at_sequence",
  "amount",
  "available",
  "balance",
  "balance_after",
  "balance_max",
  "balance_min",
  "credit_balance_after",
  "credited",
  "debit_balance_after",
  "debited",
  "differences_more",
  "held",
  "holds_compared",
  "in_transit",
  "issued",
  "journal",
  "live",
  "of",
  "offset",
  "position",
  "posted",
  "remaining",
  "revision",
  "sequence",
  "sum",
]);

/** An account's figures, in minor units. */
export interface Account {
  /** Account id. */
  id: string;
  /** Unit of measure. */
  asset: string;
  /** `balance - held`. */
  available: bigint;
  /** `credited - debited`. */
  balance: bigint;
  /** All that ever came in; may pass 64 bits. */
  credited: bigint;
  /** All that ever went out; may pass 64 bits. */
  debited: bigint;
  /** Reserved by open holds. */
  held: bigint;
  /** What it may do. */
  kind: AccountKind;
  /** A credit that would leave a larger balance is refused, also a hold for one. */
  balance_max?: bigint;
  /** A debit or hold that would leave less available is refused. */
  balance_min?: bigint;
  /** Keys and values of the client's; absent if there are none. */
  metadata?: Record<string, string>;
  /** How often the account was changed; absent if it never was. */
  revision?: bigint;
  /** Which movements it takes part in; absent as long as nothing was ever set on the account, which is `open`. */
  status?: AccountStatus;
}

/** What an account may do. */
export type AccountKind = "wallet" | "source" | "collector";

/** An account to open. */
export interface AccountRequest {
  /** 1 to 128 bytes of visible UTF-8 without '/' and '*', neither "." nor "..". */
  id: string;
  /** Unit of measure: 1 to 32 bytes of visible UTF-8. */
  asset: string;
  /** What it may do. */
  kind: AccountKind;
}

/** Which movements an account takes part in. */
export type AccountStatus = "open" | "debits_frozen" | "frozen" | "closed";

/** An asset, and how much of it there is. */
export interface Asset {
  /** Digits of an amount behind the point; 0 if nobody declared them. */
  decimals: number;
  /** Whether the decimals were declared. */
  declared: boolean;
  /** Its name. */
  name: string;
  /** What open holds reserve, minor units; likewise. */
  held?: bigint;
  /** What sources gave out and did not get back, minor units; only for those who may read all accounts. */
  issued?: bigint;
}

/** The last reconciliation of every shard. */
export interface Audit {
  /** Whether all shards were reconciled, without a difference or damage. */
  agreed: boolean;
  /** Whether money was created or lost over all shards, by asset; empty until all were compared. */
  conservation: Conservation[];
  /** One report per shard. */
  shards: ShardAudit[];
  /** The worst of the shards' states: `differs`, else `damaged`, else `never_run`, else `agreed`. */
  state: string;
}

/** What an account had at a time. */
export interface BalanceAt {
  /** Account id. */
  id: string;
  /** Unit of measure. */
  asset: string;
  /** The time asked for, milliseconds since the epoch. */
  at_ms: number;
  /** Its balance then, minor units, with holds not taken off; zero before its first row. */
  balance: bigint;
  /** What it may do. */
  kind: AccountKind;
  /** `balance - held`; absent likewise. */
  available?: bigint;
  /** True if nothing had moved by then: the account was not open yet, or open and untouched. Else absent. */
  before_first_row?: boolean;
  /** What open holds reserved then, minor units; absent if `before` was given by an earlier version of the server.
   * */
  held?: bigint;
  /** Id of the transfer or hold whose row is the last one of that time; absent before its first row. */
  last_id?: string;
  /** Time of that row, milliseconds since the epoch, as it was written: later than `at` if the clock was wrong
   * then, and was mended since. */
  last_time_ms?: number;
  /** True if that time is still to come by the server's clock, by a minute at most: the balance is that of now, and
   * may be another one then. Else absent. */
  to_come?: boolean;
}

/** One change. */
export interface Change {
  /** Transfer or hold id. */
  id?: string;
  /** Send as `after` to go on behind this change. */
  cursor: string;
  /** `account_opened`, `account_changed`, `asset_declared`, `transfer`, `hold_placed`, `hold_posted`,
   * `hold_voided`, `hold_expired`, `credit_received` (on a server with several shards: the credit of a transfer or
   * post that another shard decided), `refused`, `time_mended` (an operator has set the ledger's clock); in a
   * stream also `heartbeat` and `end`, which have only a cursor. */
  kind: string;
  /** Number of its record in that journal. */
  sequence: bigint;
  /** The shard whose journal has it. Changes of one shard come in their order. */
  shard: number;
  /** When it was decided, milliseconds since the epoch. */
  time_ms: number;
  /** The account that was opened or changed. */
  account?: string;
  /** Of `account_opened`: what it may do. */
  account_kind?: AccountKind;
  /** Minor units moved or held. */
  amount?: bigint;
  /** Unit of measure. */
  asset?: string;
  /** Of `insufficient_funds`: what was available then. */
  available?: bigint;
  /** Of `account_changed`: its upper limit after the change; absent if it has none. */
  balance_max?: bigint;
  /** Of `account_changed`: its lower limit after the change; absent if it has none. */
  balance_min?: bigint;
  /** The reason, as the client's program numbers its reasons; 0, or absent, for none. */
  code?: number;
  /** Account that was, or would be, credited. */
  credit?: string;
  /** Its balance after the change (of a collector: of its part on this shard); absent if the change did not credit
   * it here, or the token may not read it. */
  credit_balance_after?: bigint;
  /** Account that was, or would be, debited. */
  debit?: string;
  /** Its balance after the change; absent if the token may not read it. */
  debit_balance_after?: bigint;
  /** Of `asset_declared`: digits of an amount behind the point. */
  decimals?: number;
  /** Of `hold_placed`: when it expires, milliseconds since the epoch. */
  expires_at_ms?: number;
  /** Of `hold_posted`: minor units that were held. */
  held?: bigint;
  /** For a service: the id space of that id, if it is not the service's own. */
  id_space?: string;
  /** Free text. */
  memo?: string;
  /** Of `account_changed`: keys that were set, with their values, and keys that were removed, with null. */
  metadata?: Record<string, string>;
  /** Of `refused`: why, as a problem's code. */
  refusal?: string;
  /** Of `account_changed`: how often the account has been changed. */
  revision?: bigint;
  /** Of `account_changed`: its status after the change. */
  status?: AccountStatus;
  /** Key of the client's program; absent for none. */
  user_data?: string;
}

/** The money of one asset over all shards. */
export interface Conservation {
  /** Unit of measure. */
  asset: string;
  /** Sent by one shard and not taken in by another yet. */
  in_transit: bigint;
  /** Balances plus sent minus received: zero unless something is wrong. */
  sum: bigint;
}

/** Stored bytes that cannot be read any more. */
export interface Damage {
  /** From the data directory on. */
  file: string;
  /** Which records cannot be read, as far as it can be told. */
  lost: string;
  /** In that file. */
  offset: bigint;
  /** What is wrong there. */
  what: string;
}

/** One account, hold or shard whose live figure is not what the journal says. */
export interface Difference {
  /** Account id; `(shard N)` for what was exchanged with another shard, `(all accounts)` for their number. */
  account: string;
  /** Last sequence at which both agreed. */
  agreed_at_sequence: bigint;
  /** `balance`, `held`, `credited`, `debited`, `kind`, `asset` or `present` of an account; `count` of all;
   * `amount`, `expires_at_ms`, `placed_at`, `debit`, `credit` or `present` of a hold; `watermark`, `outbound`,
   * `confirmed`, `sent` or `received` of another shard; `arrived`: what that shard has sent, and this one should
   * have taken in. */
  figure: string;
  /** What the journal says. */
  journal: bigint;
  /** What the live state says. */
  live: bigint;
  /** The hold whose figure it is. */
  hold?: string;
  /** What the journal says, for a figure that is no number. */
  journal_text?: string;
  /** What the live state says, for a figure that is no number. */
  live_text?: string;
}

/** The fold from the first record on. */
export interface FirstFold {
  /** Sequence up to which the live state was shown to follow from the first record; zero if it was not yet. */
  agreed_at_sequence: bigint;
  /** Sequence that it has reached. */
  sequence: bigint;
}

/** One row of a history. */
export interface HistoryRow {
  /** Transfer or hold id. */
  id: string;
  /** Minor units moved or held. */
  amount: bigint;
  /** The account's balance after this row. */
  balance_after: bigint;
  /** Account that was, or would be, credited. */
  credit: string;
  /** Account that was, or would be, debited. */
  debit: string;
  /** What happened. */
  kind: RowKind;
  /** When it was decided, milliseconds since the epoch. */
  time_ms: number;
  /** The reason, as the client's program numbers its reasons; 0, or absent, for none. */
  code?: number;
  /** In which id space it is unique, for a service if that is not its own; empty for the empty one. */
  id_space?: string;
  /** Free text; absent if there is none. */
  memo?: string;
  /** User data; absent if there is none. */
  user_data?: string;
}

/** Reserve `amount` of `debit` for a later post to `credit`. */
export interface HoldRequest {
  /** Chosen by the client, unique for ever in its id space: 1 to 64 bytes of visible UTF-8, neither "." nor "..".
   * */
  id: string;
  /** Minor units. */
  amount: bigint;
  /** 1 to 128 bytes of visible UTF-8 without '/' and '*', neither "." nor "..". */
  credit: string;
  /** 1 to 128 bytes of visible UTF-8 without '/' and '*', neither "." nor "..". */
  debit: string;
  /** How long the hold lives, in milliseconds; at most one hundred years. */
  expires_in_ms: number;
  /** The reason, as the client's program numbers its reasons; 0, or absent, for none. */
  code?: number;
  /** Free text for the history: at most 256 bytes of UTF-8. */
  memo?: string;
  /** A key of another system: at most 64 bytes of UTF-8. */
  user_data?: string;
}

/** A hold and its state. */
export interface HoldState {
  /** Its id. */
  id: string;
  /** Reserved when it was placed, minor units. */
  amount: bigint;
  /** Account that a post credits. */
  credit: string;
  /** Account that it reserves on. */
  debit: string;
  /** Lifetime in milliseconds, as it was asked for. */
  expires_in_ms: number;
  /** What it reserves now, minor units; 0 unless it is open. */
  remaining: bigint;
  /** Where it is in its life. */
  state: HoldStatus;
  /** When it came into this state, milliseconds since the epoch. */
  time_ms: number;
  /** The reason, as the client's program numbers its reasons; 0, or absent, for none. */
  code?: number;
  /** Of an open hold: milliseconds since the epoch. */
  expires_at_ms?: number;
  /** The id space of that id, for a service if it is not its own. */
  id_space?: string;
  /** Free text; absent if there is none. */
  memo?: string;
  /** Of a posted hold: what moved, minor units. */
  posted?: bigint;
  /** User data; absent if there is none. */
  user_data?: string;
}

/** Where a hold is in its life. */
export type HoldStatus = "open" | "posted" | "voided" | "expired";

/** What became of a transfer or hold. */
export interface Outcome {
  /** Its id. */
  id: string;
  /** `applied` by this request, `duplicate` of an earlier one with the same content, or `refused`. */
  outcome: OutcomeKind;
  /** With `insufficient_funds`: what was available when it was decided, in minor units. */
  available?: bigint;
  /** Why it was refused. */
  code?: string;
  /** With `remembered`: when it was decided, milliseconds since the epoch. */
  decided_at_ms?: number;
  /** `true` if it was not decided by this request: the id was refused before, and stays so. Send a new id. */
  remembered?: boolean;
}

/** The word for an outcome. */
export type OutcomeKind = "applied" | "duplicate" | "refused";

/** What happened to the account. */
export type RowKind = "transfer" | "hold" | "post" | "void" | "expire";

/** How far all that a shard stored was read again. */
export interface Scrub {
  /** What cannot be read. */
  damage: Damage[];
  /** When the last pass over everything ended, milliseconds since the epoch; zero if none has. */
  last_full_at_ms: number;
  /** Position at which it ends. */
  of: bigint;
  /** Position in the journal that the pass under way has reached. */
  position: bigint;
}

/** What the auditor last found on one shard. */
export interface ShardAudit {
  /** Accounts compared. */
  accounts_compared: bigint;
  /** What differs; empty when all agree. */
  differences: Difference[];
  /** Differences beyond those that are named. */
  differences_more: bigint;
  /** When it ended, milliseconds since the epoch; zero if there was none yet. */
  finished_at_ms: number;
  /** The fold from the first record on, which rests on no snapshot. */
  first_fold: FirstFold;
  /** Open holds compared. */
  holds_compared: bigint;
  /** How far all that is stored was read again. */
  scrub: Scrub;
  /** Sequence up to which the journal was folded. */
  sequence: bigint;
  /** Shard index. */
  shard: number;
  /** `never_run`, `agreed`, `differs` or `damaged`. */
  state: string;
  /** Damage in the journal, in words. */
  damage?: string;
}

/** A token. */
export interface Token {
  /** When it ends, RFC 3339 in UTC. */
  expires_at: string;
  /** To be sent as `Authorization: Bearer TOKEN`. */
  token: string;
}

/** Move `amount` from `debit` to `credit`, exactly once for this `id`. */
export interface TransferRequest {
  /** Chosen by the client, unique for ever in its id space: 1 to 64 bytes of visible UTF-8, neither "." nor "..".
   * */
  id: string;
  /** Minor units. */
  amount: bigint;
  /** 1 to 128 bytes of visible UTF-8 without '/' and '*', neither "." nor "..". */
  credit: string;
  /** 1 to 128 bytes of visible UTF-8 without '/' and '*', neither "." nor "..". */
  debit: string;
  /** The reason, as the client's program numbers its reasons; 0, or absent, for none. */
  code?: number;
  /** Free text for the history: at most 256 bytes of UTF-8. */
  memo?: string;
  /** A key of another system: at most 64 bytes of UTF-8. */
  user_data?: string;
}

/** A transfer as it was decided. A refusal keeps only a digest of what was asked, so then the content is absent. */
export interface TransferState {
  /** Its id. */
  id: string;
  /** `applied` or `refused`. */
  outcome: OutcomeKind;
  /** Where the record stands in the journal of that shard; later records have larger ones. */
  position: bigint;
  /** The shard that decided it. */
  shard: number;
  /** When it was decided, milliseconds since the epoch. */
  time_ms: number;
  /** Minor units. */
  amount?: bigint;
  /** With `insufficient_funds`: what was available then, in minor units. */
  available?: bigint;
  /** The reason, as the client's program numbers its reasons; 0, or absent, for none. */
  code?: number;
  /** Account that was credited. */
  credit?: string;
  /** `true` as long as the credited account, which is of another shard, may not have the amount yet. */
  credit_pending?: boolean;
  /** Account that was debited. */
  debit?: string;
  /** The id space of that id, for a service if it is not its own. */
  id_space?: string;
  /** Free text; absent if there is none. */
  memo?: string;
  /** Why it was refused; every retry gets this. */
  refusal?: string;
  /** User data; absent if there is none. */
  user_data?: string;
}
