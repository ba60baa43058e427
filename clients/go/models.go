// Made from the server's /openapi.json by clients/generate.py: DO NOT EDIT.

package tidegate

import "math/big"

// Account: An account's figures, in minor units.
type Account struct {
	// Account id.
	ID string `json:"id"`
	// Unit of measure.
	Asset string `json:"asset"`
	// `balance - held`.
	Available int64 `json:"available"`
	// `credited - debited`.
	Balance int64 `json:"balance"`
	// All that ever came in; may pass 64 bits.
	Credited big.Int `json:"credited"`
	// All that ever went out; may pass 64 bits.
	Debited big.Int `json:"debited"`
	// Reserved by open holds.
	Held int64 `json:"held"`
	// What it may do.
	Kind AccountKind `json:"kind"`
	// A credit that would leave a larger balance is refused, also a hold for one.
	BalanceMax *int64 `json:"balance_max,omitempty"`
	// A debit or hold that would leave less available is refused.
	BalanceMin *int64 `json:"balance_min,omitempty"`
	// Keys and values of the client's; absent if there are none.
	Metadata map[string]string `json:"metadata,omitempty"`
	// How often the account was changed; absent if it never was.
	Revision *int64 `json:"revision,omitempty"`
	// Which movements it takes part in; absent as long as nothing was ever set on the account, which is `open`.
	Status AccountStatus `json:"status,omitempty"`
}

// AccountKind: What an account may do.
type AccountKind string

// The values of AccountKind.
const (
	AccountKindWallet    AccountKind = "wallet"
	AccountKindSource    AccountKind = "source"
	AccountKindCollector AccountKind = "collector"
)

// AccountRequest: An account to open.
type AccountRequest struct {
	// 1 to 128 bytes of visible UTF-8 without '/' and '*', neither "." nor "..".
	ID string `json:"id"`
	// Unit of measure: 1 to 32 bytes of visible UTF-8.
	Asset string `json:"asset"`
	// What it may do.
	Kind AccountKind `json:"kind"`
}

// AccountStatus: Which movements an account takes part in.
type AccountStatus string

// The values of AccountStatus.
const (
	AccountStatusOpen         AccountStatus = "open"
	AccountStatusDebitsFrozen AccountStatus = "debits_frozen"
	AccountStatusFrozen       AccountStatus = "frozen"
	AccountStatusClosed       AccountStatus = "closed"
)

// Asset: An asset, and how much of it there is.
type Asset struct {
	// Digits of an amount behind the point; 0 if nobody declared them.
	Decimals int64 `json:"decimals"`
	// Whether the decimals were declared.
	Declared bool `json:"declared"`
	// Its name.
	Name string `json:"name"`
	// What open holds reserve, minor units; likewise.
	Held *int64 `json:"held,omitempty"`
	// What sources gave out and did not get back, minor units; only for those who may read all accounts.
	Issued *big.Int `json:"issued,omitempty"`
}

// Audit: The last reconciliation of every shard.
type Audit struct {
	// Whether all shards were reconciled, without a difference or damage.
	Agreed bool `json:"agreed"`
	// Whether money was created or lost over all shards, by asset; empty until all were compared.
	Conservation []Conservation `json:"conservation"`
	// One report per shard.
	Shards []ShardAudit `json:"shards"`
	// The worst of the shards' states: `differs`, else `damaged`, else `never_run`, else `agreed`.
	State string `json:"state"`
}

// BalanceAt: What an account had at a time.
type BalanceAt struct {
	// Account id.
	ID string `json:"id"`
	// Unit of measure.
	Asset string `json:"asset"`
	// The time asked for, milliseconds since the epoch.
	AtMS int64 `json:"at_ms"`
	// Its balance then, minor units, with holds not taken off; zero before its first row.
	Balance int64 `json:"balance"`
	// What it may do.
	Kind AccountKind `json:"kind"`
	// `balance - held`; absent likewise.
	Available *int64 `json:"available,omitempty"`
	// True if nothing had moved by then: the account was not open yet, or open and untouched. Else absent.
	BeforeFirstRow bool `json:"before_first_row,omitempty"`
	// What open holds reserved then, minor units; absent if `before` was given by an earlier version of the server.
	Held *int64 `json:"held,omitempty"`
	// Id of the transfer or hold whose row is the last one of that time; absent before its first row.
	LastID string `json:"last_id,omitempty"`
	// Time of that row, milliseconds since the epoch, as it was written: later than `at` if the clock was wrong then,
	// and was mended since.
	LastTimeMS *int64 `json:"last_time_ms,omitempty"`
	// True if that time is still to come by the server's clock, by a minute at most: the balance is that of now, and
	// may be another one then. Else absent.
	ToCome bool `json:"to_come,omitempty"`
}

// Change: One change.
type Change struct {
	// Transfer or hold id.
	ID string `json:"id,omitempty"`
	// Send as `after` to go on behind this change.
	Cursor string `json:"cursor"`
	// `account_opened`, `account_changed`, `asset_declared`, `transfer`, `hold_placed`, `hold_posted`, `hold_voided`,
	// `hold_expired`, `credit_received` (on a server with several shards: the credit of a transfer or post that another
	// shard decided), `refused`, `time_mended` (an operator has set the ledger's clock); in a stream also `heartbeat`
	// and `end`, which have only a cursor.
	Kind string `json:"kind"`
	// Number of its record in that journal.
	Sequence int64 `json:"sequence"`
	// The shard whose journal has it. Changes of one shard come in their order.
	Shard int64 `json:"shard"`
	// When it was decided, milliseconds since the epoch.
	TimeMS int64 `json:"time_ms"`
	// The account that was opened or changed.
	Account string `json:"account,omitempty"`
	// Of `account_opened`: what it may do.
	AccountKind AccountKind `json:"account_kind,omitempty"`
	// Minor units moved or held.
	Amount *int64 `json:"amount,omitempty"`
	// Unit of measure.
	Asset string `json:"asset,omitempty"`
	// Of `insufficient_funds`: what was available then.
	Available *int64 `json:"available,omitempty"`
	// Of `account_changed`: its upper limit after the change; absent if it has none.
	BalanceMax *int64 `json:"balance_max,omitempty"`
	// Of `account_changed`: its lower limit after the change; absent if it has none.
	BalanceMin *int64 `json:"balance_min,omitempty"`
	// The reason, as the client's program numbers its reasons; 0, or absent, for none.
	Code int64 `json:"code,omitempty"`
	// Account that was, or would be, credited.
	Credit string `json:"credit,omitempty"`
	// Its balance after the change (of a collector: of its part on this shard); absent if the change did not credit it
	// here, or the token may not read it.
	CreditBalanceAfter *int64 `json:"credit_balance_after,omitempty"`
	// Account that was, or would be, debited.
	Debit string `json:"debit,omitempty"`
	// Its balance after the change; absent if the token may not read it.
	DebitBalanceAfter *int64 `json:"debit_balance_after,omitempty"`
	// Of `asset_declared`: digits of an amount behind the point.
	Decimals *int64 `json:"decimals,omitempty"`
	// Of `hold_placed`: when it expires, milliseconds since the epoch.
	ExpiresAtMS *int64 `json:"expires_at_ms,omitempty"`
	// Of `hold_posted`: minor units that were held.
	Held *int64 `json:"held,omitempty"`
	// For a service: the id space of that id, if it is not the service's own.
	IDSpace string `json:"id_space,omitempty"`
	// Free text.
	Memo string `json:"memo,omitempty"`
	// Of `account_changed`: keys that were set, with their values, and keys that were removed, with null.
	Metadata map[string]string `json:"metadata,omitempty"`
	// Of `refused`: why, as a problem's code.
	Refusal string `json:"refusal,omitempty"`
	// Of `account_changed`: how often the account has been changed.
	Revision *int64 `json:"revision,omitempty"`
	// Of `account_changed`: its status after the change.
	Status AccountStatus `json:"status,omitempty"`
	// Key of the client's program; absent for none.
	UserData string `json:"user_data,omitempty"`
}

// Conservation: The money of one asset over all shards.
type Conservation struct {
	// Unit of measure.
	Asset string `json:"asset"`
	// Sent by one shard and not taken in by another yet.
	InTransit big.Int `json:"in_transit"`
	// Balances plus sent minus received: zero unless something is wrong.
	Sum big.Int `json:"sum"`
}

// Damage: Stored bytes that cannot be read any more.
type Damage struct {
	// From the data directory on.
	File string `json:"file"`
	// Which records cannot be read, as far as it can be told.
	Lost string `json:"lost"`
	// In that file.
	Offset int64 `json:"offset"`
	// What is wrong there.
	What string `json:"what"`
}

// Difference: One account, hold or shard whose live figure is not what the journal says.
type Difference struct {
	// Account id; `(shard N)` for what was exchanged with another shard, `(all accounts)` for their number.
	Account string `json:"account"`
	// Last sequence at which both agreed.
	AgreedAtSequence int64 `json:"agreed_at_sequence"`
	// `balance`, `held`, `credited`, `debited`, `kind`, `asset` or `present` of an account; `count` of all; `amount`,
	// `expires_at_ms`, `placed_at`, `debit`, `credit` or `present` of a hold; `watermark`, `outbound`, `confirmed`,
	// `sent` or `received` of another shard; `arrived`: what that shard has sent, and this one should have taken in.
	Figure string `json:"figure"`
	// What the journal says.
	Journal int64 `json:"journal"`
	// What the live state says.
	Live int64 `json:"live"`
	// The hold whose figure it is.
	Hold string `json:"hold,omitempty"`
	// What the journal says, for a figure that is no number.
	JournalText string `json:"journal_text,omitempty"`
	// What the live state says, for a figure that is no number.
	LiveText string `json:"live_text,omitempty"`
}

// FirstFold: The fold from the first record on.
type FirstFold struct {
	// Sequence up to which the live state was shown to follow from the first record; zero if it was not yet.
	AgreedAtSequence int64 `json:"agreed_at_sequence"`
	// Sequence that it has reached.
	Sequence int64 `json:"sequence"`
}

// HistoryRow: One row of a history.
type HistoryRow struct {
	// Transfer or hold id.
	ID string `json:"id"`
	// Minor units moved or held.
	Amount int64 `json:"amount"`
	// The account's balance after this row.
	BalanceAfter int64 `json:"balance_after"`
	// Account that was, or would be, credited.
	Credit string `json:"credit"`
	// Account that was, or would be, debited.
	Debit string `json:"debit"`
	// What happened.
	Kind RowKind `json:"kind"`
	// When it was decided, milliseconds since the epoch.
	TimeMS int64 `json:"time_ms"`
	// The reason, as the client's program numbers its reasons; 0, or absent, for none.
	Code int64 `json:"code,omitempty"`
	// In which id space it is unique, for a service if that is not its own; empty for the empty one.
	IDSpace string `json:"id_space,omitempty"`
	// Free text; absent if there is none.
	Memo string `json:"memo,omitempty"`
	// User data; absent if there is none.
	UserData string `json:"user_data,omitempty"`
}

// HoldRequest: Reserve `amount` of `debit` for a later post to `credit`.
type HoldRequest struct {
	// Chosen by the client, unique for ever in its id space: 1 to 64 bytes of visible UTF-8, neither "." nor "..".
	// Empty, a new one is made at each call: give one for what you may send again.
	ID string `json:"id"`
	// Minor units.
	Amount int64 `json:"amount"`
	// 1 to 128 bytes of visible UTF-8 without '/' and '*', neither "." nor "..".
	Credit string `json:"credit"`
	// 1 to 128 bytes of visible UTF-8 without '/' and '*', neither "." nor "..".
	Debit string `json:"debit"`
	// How long the hold lives, in milliseconds; at most one hundred years.
	ExpiresInMS int64 `json:"expires_in_ms"`
	// The reason, as the client's program numbers its reasons; 0, or absent, for none.
	Code int64 `json:"code,omitempty"`
	// Free text for the history: at most 256 bytes of UTF-8.
	Memo string `json:"memo,omitempty"`
	// A key of another system: at most 64 bytes of UTF-8.
	UserData string `json:"user_data,omitempty"`
}

// HoldState: A hold and its state.
type HoldState struct {
	// Its id.
	ID string `json:"id"`
	// Reserved when it was placed, minor units.
	Amount int64 `json:"amount"`
	// Account that a post credits.
	Credit string `json:"credit"`
	// Account that it reserves on.
	Debit string `json:"debit"`
	// Lifetime in milliseconds, as it was asked for.
	ExpiresInMS int64 `json:"expires_in_ms"`
	// What it reserves now, minor units; 0 unless it is open.
	Remaining int64 `json:"remaining"`
	// Where it is in its life.
	State HoldStatus `json:"state"`
	// When it came into this state, milliseconds since the epoch.
	TimeMS int64 `json:"time_ms"`
	// The reason, as the client's program numbers its reasons; 0, or absent, for none.
	Code int64 `json:"code,omitempty"`
	// Of an open hold: milliseconds since the epoch.
	ExpiresAtMS *int64 `json:"expires_at_ms,omitempty"`
	// The id space of that id, for a service if it is not its own.
	IDSpace string `json:"id_space,omitempty"`
	// Free text; absent if there is none.
	Memo string `json:"memo,omitempty"`
	// Of a posted hold: what moved, minor units.
	Posted *int64 `json:"posted,omitempty"`
	// User data; absent if there is none.
	UserData string `json:"user_data,omitempty"`
}

// HoldStatus: Where a hold is in its life.
type HoldStatus string

// The values of HoldStatus.
const (
	HoldStatusOpen    HoldStatus = "open"
	HoldStatusPosted  HoldStatus = "posted"
	HoldStatusVoided  HoldStatus = "voided"
	HoldStatusExpired HoldStatus = "expired"
)

// Outcome: What became of a transfer or hold.
type Outcome struct {
	// Its id.
	ID string `json:"id"`
	// `applied` by this request, `duplicate` of an earlier one with the same content, or `refused`.
	Outcome OutcomeKind `json:"outcome"`
	// With `insufficient_funds`: what was available when it was decided, in minor units.
	Available *int64 `json:"available,omitempty"`
	// Why it was refused.
	Code string `json:"code,omitempty"`
	// With `remembered`: when it was decided, milliseconds since the epoch.
	DecidedAtMS *int64 `json:"decided_at_ms,omitempty"`
	// `true` if it was not decided by this request: the id was refused before, and stays so. Send a new id.
	Remembered bool `json:"remembered,omitempty"`
}

// OutcomeKind: The word for an outcome.
type OutcomeKind string

// The values of OutcomeKind.
const (
	OutcomeKindApplied   OutcomeKind = "applied"
	OutcomeKindDuplicate OutcomeKind = "duplicate"
	OutcomeKindRefused   OutcomeKind = "refused"
)

// RowKind: What happened to the account.
type RowKind string

// The values of RowKind.
const (
	RowKindTransfer RowKind = "transfer"
	RowKindHold     RowKind = "hold"
	RowKindPost     RowKind = "post"
	RowKindVoid     RowKind = "void"
	RowKindExpire   RowKind = "expire"
)

// Scrub: How far all that a shard stored was read again.
type Scrub struct {
	// What cannot be read.
	Damage []Damage `json:"damage"`
	// When the last pass over everything ended, milliseconds since the epoch; zero if none has.
	LastFullAtMS int64 `json:"last_full_at_ms"`
	// Position at which it ends.
	Of int64 `json:"of"`
	// Position in the journal that the pass under way has reached.
	Position int64 `json:"position"`
}

// ShardAudit: What the auditor last found on one shard.
type ShardAudit struct {
	// Accounts compared.
	AccountsCompared int64 `json:"accounts_compared"`
	// What differs; empty when all agree.
	Differences []Difference `json:"differences"`
	// Differences beyond those that are named.
	DifferencesMore int64 `json:"differences_more"`
	// When it ended, milliseconds since the epoch; zero if there was none yet.
	FinishedAtMS int64 `json:"finished_at_ms"`
	// The fold from the first record on, which rests on no snapshot.
	FirstFold FirstFold `json:"first_fold"`
	// Open holds compared.
	HoldsCompared int64 `json:"holds_compared"`
	// How far all that is stored was read again.
	Scrub Scrub `json:"scrub"`
	// Sequence up to which the journal was folded.
	Sequence int64 `json:"sequence"`
	// Shard index.
	Shard int64 `json:"shard"`
	// `never_run`, `agreed`, `differs` or `damaged`.
	State string `json:"state"`
	// Damage in the journal, in words.
	Damage string `json:"damage,omitempty"`
}

// Token: A token.
type Token struct {
	// When it ends, RFC 3339 in UTC.
	ExpiresAt string `json:"expires_at"`
	// To be sent as `Authorization: Bearer TOKEN`.
	Token string `json:"token"`
}

// TransferRequest: Move `amount` from `debit` to `credit`, exactly once for this `id`.
type TransferRequest struct {
	// Chosen by the client, unique for ever in its id space: 1 to 64 bytes of visible UTF-8, neither "." nor "..".
	// Empty, a new one is made at each call: give one for what you may send again.
	ID string `json:"id"`
	// Minor units.
	Amount int64 `json:"amount"`
	// 1 to 128 bytes of visible UTF-8 without '/' and '*', neither "." nor "..".
	Credit string `json:"credit"`
	// 1 to 128 bytes of visible UTF-8 without '/' and '*', neither "." nor "..".
	Debit string `json:"debit"`
	// The reason, as the client's program numbers its reasons; 0, or absent, for none.
	Code int64 `json:"code,omitempty"`
	// Free text for the history: at most 256 bytes of UTF-8.
	Memo string `json:"memo,omitempty"`
	// A key of another system: at most 64 bytes of UTF-8.
	UserData string `json:"user_data,omitempty"`
}

// TransferState: A transfer as it was decided. A refusal keeps only a digest of what was asked, so then the content
// is absent.
type TransferState struct {
	// Its id.
	ID string `json:"id"`
	// `applied` or `refused`.
	Outcome OutcomeKind `json:"outcome"`
	// Where the record stands in the journal of that shard; later records have larger ones.
	Position int64 `json:"position"`
	// The shard that decided it.
	Shard int64 `json:"shard"`
	// When it was decided, milliseconds since the epoch.
	TimeMS int64 `json:"time_ms"`
	// Minor units.
	Amount *int64 `json:"amount,omitempty"`
	// With `insufficient_funds`: what was available then, in minor units.
	Available *int64 `json:"available,omitempty"`
	// The reason, as the client's program numbers its reasons; 0, or absent, for none.
	Code int64 `json:"code,omitempty"`
	// Account that was credited.
	Credit string `json:"credit,omitempty"`
	// `true` as long as the credited account, which is of another shard, may not have the amount yet.
	CreditPending bool `json:"credit_pending,omitempty"`
	// Account that was debited.
	Debit string `json:"debit,omitempty"`
	// The id space of that id, for a service if it is not its own.
	IDSpace string `json:"id_space,omitempty"`
	// Free text; absent if there is none.
	Memo string `json:"memo,omitempty"`
	// Why it was refused; every retry gets this.
	Refusal string `json:"refusal,omitempty"`
	// User data; absent if there is none.
	UserData string `json:"user_data,omitempty"`
}
