"""Made from the server's /openapi.json by clients/generate.py: do not edit."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Literal, Optional

from .ids import new_id

__all__ = ["Account", "AccountKind", "AccountRequest", "AccountStatus", "Asset", "Audit", "BalanceAt", "Change",
    "Conservation", "Damage", "Difference", "FirstFold", "HistoryRow", "HoldRequest", "HoldState", "HoldStatus",
    "Outcome", "OutcomeKind", "RowKind", "Scrub", "ShardAudit", "Token", "TransferRequest", "TransferState"]

# What an account may do.
AccountKind = Literal["wallet", "source", "collector"]

# Which movements an account takes part in.
AccountStatus = Literal["open", "debits_frozen", "frozen", "closed"]

# Where a hold is in its life.
HoldStatus = Literal["open", "posted", "voided", "expired"]

# The word for an outcome.
OutcomeKind = Literal["applied", "duplicate", "refused"]

# What happened to the account.
RowKind = Literal["transfer", "hold", "post", "void", "expire"]


@dataclass(frozen=True, kw_only=True)
class Account:
    """An account's figures, in minor units."""

    # Account id.
    id: str

    # Unit of measure.
    asset: str

    # `balance - held`.
    available: int

    # `credited - debited`.
    balance: int

    # All that ever came in; may pass 64 bits.
    credited: int

    # All that ever went out; may pass 64 bits.
    debited: int

    # Reserved by open holds.
    held: int

    # What it may do.
    kind: AccountKind

    # A credit that would leave a larger balance is refused, also a hold for one.
    balance_max: Optional[int] = None

    # A debit or hold that would leave less available is refused.
    balance_min: Optional[int] = None

    # Keys and values of the client's; absent if there are none.
    metadata: Optional[dict[str, str]] = None

    # How often the account was changed; absent if it never was.
    revision: Optional[int] = None

    # Which movements it takes part in; absent as long as nothing was ever set on the account, which is `open`.
    status: Optional[AccountStatus] = None


@dataclass(frozen=True, kw_only=True)
class AccountRequest:
    """An account to open."""

    # 1 to 128 bytes of visible UTF-8 without '/' and '*', neither "." nor "..".
    id: str

    # Unit of measure: 1 to 32 bytes of visible UTF-8.
    asset: str

    # What it may do.
    kind: AccountKind


@dataclass(frozen=True, kw_only=True)
class Asset:
    """An asset, and how much of it there is."""

    # Digits of an amount behind the point; 0 if nobody declared them.
    decimals: int

    # Whether the decimals were declared.
    declared: bool

    # Its name.
    name: str

    # What open holds reserve, minor units; likewise.
    held: Optional[int] = None

    # What sources gave out and did not get back, minor units; only for those who may read all accounts.
    issued: Optional[int] = None


@dataclass(frozen=True, kw_only=True)
class Audit:
    """The last reconciliation of every shard."""

    # Whether all shards were reconciled, without a difference or damage.
    agreed: bool

    # Whether money was created or lost over all shards, by asset; empty until all were compared.
    conservation: list[Conservation]

    # One report per shard.
    shards: list[ShardAudit]

    # The worst of the shards' states: `differs`, else `damaged`, else `never_run`, else `agreed`.
    state: str


@dataclass(frozen=True, kw_only=True)
class BalanceAt:
    """What an account had at a time."""

    # Account id.
    id: str

    # Unit of measure.
    asset: str

    # The time asked for, milliseconds since the epoch.
    at_ms: int

    # Its balance then, minor units, with holds not taken off; zero before its first row.
    balance: int

    # What it may do.
    kind: AccountKind

    # `balance - held`; absent likewise.
    available: Optional[int] = None

    # True if nothing had moved by then: the account was not open yet, or open and untouched. Else absent.
    before_first_row: Optional[bool] = None

    # What open holds reserved then, minor units; absent if `before` was given by an earlier version of the server.
    held: Optional[int] = None

    # Id of the transfer or hold whose row is the last one of that time; absent before its first row.
    last_id: Optional[str] = None

    # Time of that row, milliseconds since the epoch, as it was written: later than `at` if the clock was wrong
    # then, and was mended since.
    last_time_ms: Optional[int] = None

    # True if that time is still to come by the server's clock, by a minute at most: the balance is that of now, and
    # may be another one then. Else absent.
    to_come: Optional[bool] = None


@dataclass(frozen=True, kw_only=True)
class Change:
    """One change."""

    # Transfer or hold id.
    id: Optional[str] = None

    # Send as `after` to go on behind this change.
    cursor: str

    # `account_opened`, `account_changed`, `asset_declared`, `transfer`, `hold_placed`, `hold_posted`,
    # `hold_voided`, `hold_expired`, `credit_received` (on a server with several shards: the credit of a transfer or
    # post that another shard decided), `refused`, `time_mended` (an operator has set the ledger's clock); in a
    # stream also `heartbeat` and `end`, which have only a cursor.
    kind: str

    # Number of its record in that journal.
    sequence: int

    # The shard whose journal has it. Changes of one shard come in their order.
    shard: int

    # When it was decided, milliseconds since the epoch.
    time_ms: int

    # The account that was opened or changed.
    account: Optional[str] = None

    # Of `account_opened`: what it may do.
    account_kind: Optional[AccountKind] = None

    # Minor units moved or held.
    amount: Optional[int] = None

    # Unit of measure.
    asset: Optional[str] = None

    # Of `insufficient_funds`: what was available then.
    available: Optional[int] = None

    # Of `account_changed`: its upper limit after the change; absent if it has none.
    balance_max: Optional[int] = None

    # Of `account_changed`: its lower limit after the change; absent if it has none.
    balance_min: Optional[int] = None

    # The reason, as the client's program numbers its reasons; 0, or absent, for none.
    code: Optional[int] = None

    # Account that was, or would be, credited.
    credit: Optional[str] = None

    # Its balance after the change (of a collector: of its part on this shard); absent if the change did not credit
    # it here, or the token may not read it.
    credit_balance_after: Optional[int] = None

    # Account that was, or would be, debited.
    debit: Optional[str] = None

    # Its balance after the change; absent if the token may not read it.
    debit_balance_after: Optional[int] = None

    # Of `asset_declared`: digits of an amount behind the point.
    decimals: Optional[int] = None

    # Of `hold_placed`: when it expires, milliseconds since the epoch.
    expires_at_ms: Optional[int] = None

    # Of `hold_posted`: minor units that were held.
    held: Optional[int] = None

    # For a service: the id space of that id, if it is not the service's own.
    id_space: Optional[str] = None

    # Free text.
    memo: Optional[str] = None

    # Of `account_changed`: keys that were set, with their values, and keys that were removed, with null.
    metadata: Optional[dict[str, str]] = None

    # Of `refused`: why, as a problem's code.
    refusal: Optional[str] = None

    # Of `account_changed`: how often the account has been changed.
    revision: Optional[int] = None

    # Of `account_changed`: its status after the change.
    status: Optional[AccountStatus] = None

    # Key of the client's program; absent for none.
    user_data: Optional[str] = None


@dataclass(frozen=True, kw_only=True)
class Conservation:
    """The money of one asset over all shards."""

    # Unit of measure.
    asset: str

    # Sent by one shard and not taken in by another yet.
    in_transit: int

    # Balances plus sent minus received: zero unless something is wrong.
    sum: int


@dataclass(frozen=True, kw_only=True)
class Damage:
    """Stored bytes that cannot be read any more."""

    # From the data directory on.
    file: str

    # Which records cannot be read, as far as it can be told.
    lost: str

    # In that file.
    offset: int

    # What is wrong there.
    what: str


@dataclass(frozen=True, kw_only=True)
class Difference:
    """One account, hold or shard whose live figure is not what the journal says."""

    # Account id; `(shard N)` for what was exchanged with another shard, `(all accounts)` for their number.
    account: str

    # Last sequence at which both agreed.
    agreed_at_sequence: int

    # `balance`, `held`, `credited`, `debited`, `kind`, `asset` or `present` of an account; `count` of all;
    # `amount`, `expires_at_ms`, `placed_at`, `debit`, `credit` or `present` of a hold; `watermark`, `outbound`,
    # `confirmed`, `sent` or `received` of another shard; `arrived`: what that shard has sent, and this one should
    # have taken in.
    figure: str

    # What the journal says.
    journal: int

    # What the live state says.
    live: int

    # The hold whose figure it is.
    hold: Optional[str] = None

    # What the journal says, for a figure that is no number.
    journal_text: Optional[str] = None

    # What the live state says, for a figure that is no number.
    live_text: Optional[str] = None


@dataclass(frozen=True, kw_only=True)
class FirstFold:
    """The fold from the first record on."""

    # Sequence up to which the live state was shown to follow from the first record; zero if it was not yet.
    agreed_at_sequence: int

    # Sequence that it has reached.
    sequence: int


@dataclass(frozen=True, kw_only=True)
class HistoryRow:
    """One row of a history."""

    # Transfer or hold id.
    id: str

    # Minor units moved or held.
    amount: int

    # The account's balance after this row.
    balance_after: int

    # Account that was, or would be, credited.
    credit: str

    # Account that was, or would be, debited.
    debit: str

    # What happened.
    kind: RowKind

    # When it was decided, milliseconds since the epoch.
    time_ms: int

    # The reason, as the client's program numbers its reasons; 0, or absent, for none.
    code: Optional[int] = None

    # In which id space it is unique, for a service if that is not its own; empty for the empty one.
    id_space: Optional[str] = None

    # Free text; absent if there is none.
    memo: Optional[str] = None

    # User data; absent if there is none.
    user_data: Optional[str] = None


@dataclass(frozen=True, kw_only=True)
class HoldRequest:
    """Reserve `amount` of `debit` for a later post to `credit`."""

    # Chosen by the client, unique for ever in its id space: 1 to 64 bytes of visible UTF-8, neither "." nor "..".
    id: str = field(default_factory=new_id)

    # Minor units.
    amount: int

    # 1 to 128 bytes of visible UTF-8 without '/' and '*', neither "." nor "..".
    credit: str

    # 1 to 128 bytes of visible UTF-8 without '/' and '*', neither "." nor "..".
    debit: str

    # How long the hold lives, in milliseconds; at most one hundred years.
    expires_in_ms: int

    # The reason, as the client's program numbers its reasons; 0, or absent, for none.
    code: Optional[int] = None

    # Free text for the history: at most 256 bytes of UTF-8.
    memo: Optional[str] = None

    # A key of another system: at most 64 bytes of UTF-8.
    user_data: Optional[str] = None


@dataclass(frozen=True, kw_only=True)
class HoldState:
    """A hold and its state."""

    # Its id.
    id: str

    # Reserved when it was placed, minor units.
    amount: int

    # Account that a post credits.
    credit: str

    # Account that it reserves on.
    debit: str

    # Lifetime in milliseconds, as it was asked for.
    expires_in_ms: int

    # What it reserves now, minor units; 0 unless it is open.
    remaining: int

    # Where it is in its life.
    state: HoldStatus

    # When it came into this state, milliseconds since the epoch.
    time_ms: int

    # The reason, as the client's program numbers its reasons; 0, or absent, for none.
    code: Optional[int] = None

    # Of an open hold: milliseconds since the epoch.
    expires_at_ms: Optional[int] = None

    # The id space of that id, for a service if it is not its own.
    id_space: Optional[str] = None

    # Free text; absent if there is none.
    memo: Optional[str] = None

    # Of a posted hold: what moved, minor units.
    posted: Optional[int] = None

    # User data; absent if there is none.
    user_data: Optional[str] = None


@dataclass(frozen=True, kw_only=True)
class Outcome:
    """What became of a transfer or hold."""

    # Its id.
    id: str

    # `applied` by this request, `duplicate` of an earlier one with the same content, or `refused`.
    outcome: OutcomeKind

    # With `insufficient_funds`: what was available when it was decided, in minor units.
    available: Optional[int] = None

    # Why it was refused.
    code: Optional[str] = None

    # With `remembered`: when it was decided, milliseconds since the epoch.
    decided_at_ms: Optional[int] = None

    # `true` if it was not decided by this request: the id was refused before, and stays so. Send a new id.
    remembered: Optional[bool] = None


@dataclass(frozen=True, kw_only=True)
class Scrub:
    """How far all that a shard stored was read again."""

    # What cannot be read.
    damage: list[Damage]

    # When the last pass over everything ended, milliseconds since the epoch; zero if none has.
    last_full_at_ms: int

    # Position at which it ends.
    of: int

    # Position in the journal that the pass under way has reached.
    position: int


@dataclass(frozen=True, kw_only=True)
class ShardAudit:
    """What the auditor last found on one shard."""

    # Accounts compared.
    accounts_compared: int

    # What differs; empty when all agree.
    differences: list[Difference]

    # Differences beyond those that are named.
    differences_more: int

    # When it ended, milliseconds since the epoch; zero if there was none yet.
    finished_at_ms: int

    # The fold from the first record on, which rests on no snapshot.
    first_fold: FirstFold

    # Open holds compared.
    holds_compared: int

    # How far all that is stored was read again.
    scrub: Scrub

    # Sequence up to which the journal was folded.
    sequence: int

    # Shard index.
    shard: int

    # `never_run`, `agreed`, `differs` or `damaged`.
    state: str

    # Damage in the journal, in words.
    damage: Optional[str] = None


@dataclass(frozen=True, kw_only=True)
class Token:
    """A token."""

    # When it ends, RFC 3339 in UTC.
    expires_at: str

    # To be sent as `Authorization: Bearer TOKEN`.
    token: str


@dataclass(frozen=True, kw_only=True)
class TransferRequest:
    """Move `amount` from `debit` to `credit`, exactly once for this `id`."""

    # Chosen by the client, unique for ever in its id space: 1 to 64 bytes of visible UTF-8, neither "." nor "..".
    id: str = field(default_factory=new_id)

    # Minor units.
    amount: int

    # 1 to 128 bytes of visible UTF-8 without '/' and '*', neither "." nor "..".
    credit: str

    # 1 to 128 bytes of visible UTF-8 without '/' and '*', neither "." nor "..".
    debit: str

    # The reason, as the client's program numbers its reasons; 0, or absent, for none.
    code: Optional[int] = None

    # Free text for the history: at most 256 bytes of UTF-8.
    memo: Optional[str] = None

    # A key of another system: at most 64 bytes of UTF-8.
    user_data: Optional[str] = None


@dataclass(frozen=True, kw_only=True)
class TransferState:
    """A transfer as it was decided. A refusal keeps only a digest of what was asked, so then the content is
    absent."""

    # Its id.
    id: str

    # `applied` or `refused`.
    outcome: OutcomeKind

    # Where the record stands in the journal of that shard; later records have larger ones.
    position: int

    # The shard that decided it.
    shard: int

    # When it was decided, milliseconds since the epoch.
    time_ms: int

    # Minor units.
    amount: Optional[int] = None

    # With `insufficient_funds`: what was available then, in minor units.
    available: Optional[int] = None

    # The reason, as the client's program numbers its reasons; 0, or absent, for none.
    code: Optional[int] = None

    # Account that was credited.
    credit: Optional[str] = None

    # `true` as long as the credited account, which is of another shard, may not have the amount yet.
    credit_pending: Optional[bool] = None

    # Account that was debited.
    debit: Optional[str] = None

    # The id space of that id, for a service if it is not its own.
    id_space: Optional[str] = None

    # Free text; absent if there is none.
    memo: Optional[str] = None

    # Why it was refused; every retry gets this.
    refusal: Optional[str] = None

    # User data; absent if there is none.
    user_data: Optional[str] = None
