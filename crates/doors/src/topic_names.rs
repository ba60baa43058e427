//! The names of the topics that the ledger owns. Rules about topics and the ledger's own answers are written with them.

/// What all topics of the ledger begin with: only it publishes there.
pub const PREFIX: &str = "$ledger/";
/// Where transfers are asked for.
pub const TRANSFERS: &str = "$ledger/transfers";
/// Where figures are announced, followed by the account's id.
pub const ACCOUNTS: &str = "$ledger/accounts/";
/// Where changes are followed, behind it which accounts' (`*`, a beginning with `*`, or one id).
pub const CHANGES: &str = "$ledger/changes/";
/// The filter of all figures.
pub const ALL_ACCOUNTS: &str = "$ledger/accounts/#";
