//! `[topics]`: the journals of topics, and which accounts are announced on topics.

use tidegate_config::{ConfigError, Count, Document, PerSecond, Texts, config};
use tidegate_doors::auth::Pattern;
use tidegate_ledger::announcer::AnnounceRules;

config! {
    /// `[topics]`
    pub struct TopicsKeys in "topics" {
        shards: Count<u16> = 0, 0..=1_024, restart,
            "journals of sessions and topics in a new data directory; 0 for one per worker";
        announce: Texts = &[], .., restart,
            "accounts whose figures are on $ledger/accounts/ID, as in grants; those with + or # in their ids are not \
             announced, because no topic can name them";
        announcements_per_s: PerSecond = 10, 1..=1_000, restart,
            "announcements per second and account, at most; the last figures always come";
    }
}

/// Topic shards of a new directory for `workers` workers, and what is announced.
pub fn settle(document: &Document, workers: usize) -> Result<(u16, AnnounceRules), ConfigError> {
    let keys: TopicsKeys = document.section()?;
    let shards = if keys.shards == 0 { workers as u16 } else { keys.shards };
    if let Some(text) = keys.announce.iter().find(|text| Pattern::parse(text).is_none()) {
        let message =
            format!("topics.announce: {text:?}: expected \"*\", a beginning such as \"wallet:*\", or one account id");
        return Err(document.error_at("topics.announce", message));
    }
    if let Some(text) = keys.announce.iter().find(|text| text.contains(['+', '#'])) {
        let message = format!(
            "topics.announce: {text:?}: no topic can name an account with + or # in its id, the wildcards of MQTT; \
             such accounts are not announced, take it out"
        );
        return Err(document.error_at("topics.announce", message));
    }
    Ok((shards, AnnounceRules { accounts: keys.announce, interval_ms: 1_000 / keys.announcements_per_s }))
}
