//! The names of the topics that the ledger, the pacer and the queues own. Rules about topics and their answers are
//! written with them.

/// What all topics of the ledger begin with: only it publishes there.
pub const PREFIX: &str = "$ledger/";
/// Where transfers are asked for.
pub const TRANSFERS: &str = "$ledger/transfers";
/// Where holds are placed.
pub const HOLDS: &str = "$ledger/holds";
/// Where holds are posted.
pub const HOLDS_POST: &str = "$ledger/holds/post";
/// Where holds are voided.
pub const HOLDS_VOID: &str = "$ledger/holds/void";
/// Where accounts are opened.
pub const OPENINGS: &str = "$ledger/accounts";
/// Where something is asked of the ledger: whoever it knows may ask, and each request is checked.
pub const REQUESTS: [&str; 5] = [TRANSFERS, HOLDS, HOLDS_POST, HOLDS_VOID, OPENINGS];
/// Where figures are announced, followed by the account's id.
pub const ACCOUNTS: &str = "$ledger/accounts/";
/// Where changes are followed, behind it which accounts' (`*`, a beginning with `*`, or one id).
pub const CHANGES: &str = "$ledger/changes/";
/// The filter of all figures.
pub const ALL_ACCOUNTS: &str = "$ledger/accounts/#";
/// What all topics of the pacer begin with.
pub const PACER_PREFIX: &str = "$pacer/";
/// Where a campaign is made or changed.
pub const CAMPAIGN_PUT: &str = "$pacer/campaigns/put";
/// Where a campaign is ended.
pub const CAMPAIGN_END: &str = "$pacer/campaigns/end";
/// Where something is asked of the pacer: whoever it knows may ask, and each request is checked.
pub const CAMPAIGN_REQUESTS: [&str; 2] = [CAMPAIGN_PUT, CAMPAIGN_END];
/// Behind it the name of a queue: what is published there is sent to it.
pub const QUEUE_IN: &str = "$queue-in/";
/// Behind it the name of a queue: who subscribes there receives from it.
pub const QUEUE_OUT: &str = "$queue-out/";
