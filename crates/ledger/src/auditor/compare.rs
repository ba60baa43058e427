//! Compares what is live with what the journal says, as of the same record.
//!
//! Invariant: only values here. Whoever asks has both sides stand at the same sequence.

use std::collections::BTreeMap;

use tidegate_machines::ledger::{
    AccountSettings, AccountView, AssetView, HoldFigures, Ledger, Mend, Mends, PeerFigures,
};
use tidegate_machines::{RecordPosition, TimeMs};

use crate::limits::AUDIT_DIFFERENCES_MAX;
use crate::message::AuditDifference;
use crate::operation::Figures;

/// What differs: the first of it, and how many more there are.
#[derive(Clone, Debug, Default)]
pub(super) struct Differences {
    pub named: Vec<AuditDifference>,
    pub more: u64,
}

impl Differences {
    pub fn count(&self) -> u64 {
        self.named.len() as u64 + self.more
    }

    pub fn push(&mut self, difference: AuditDifference) {
        match self.named.len() < AUDIT_DIFFERENCES_MAX {
            true => self.named.push(difference),
            false => self.more += 1,
        }
    }

    fn figure(&mut self, subject: &Subject<'_>, figure: &'static str, live: i128, journal: i128) {
        if live != journal {
            self.push(subject.difference(figure, live, journal));
        }
    }

    fn settings(&mut self, subject: &Subject<'_>, live: Option<&AccountSettings>, journal: Option<&AccountSettings>) {
        // Few accounts have any; the words are for those that differ.
        if live != journal {
            self.text(subject, "settings", &words(live), &words(journal));
        }
    }

    fn text(&mut self, subject: &Subject<'_>, figure: &'static str, live: &str, journal: &str) {
        if live != journal {
            let texts = Some((live.into(), journal.into()));
            self.push(AuditDifference { texts, ..subject.difference(figure, 0, 0) });
        }
    }
}

/// What was set on an account, in words.
fn words(settings: Option<&AccountSettings>) -> String {
    let Some(settings) = settings else { return "nothing was set".to_owned() };
    let AccountSettings { revision, rules, metadata } = settings;
    let limit = |limit: Option<i64>| limit.map_or_else(|| "none".to_owned(), |limit| limit.to_string());
    let (min, max) = (limit(rules.balance_min), limit(rules.balance_max));
    format!("revision {revision}: {:?}, balance_min {min}, balance_max {max}, {metadata:?}", rules.status)
}

/// What a figure is about, and when it was last right.
struct Subject<'a> {
    account: &'a str,
    hold: Option<&'a str>,
    agreed_at: u64,
}

impl Subject<'_> {
    fn difference(&self, figure: &'static str, live: i128, journal: i128) -> AuditDifference {
        let (account, hold) = (self.account.into(), self.hold.map(Into::into));
        AuditDifference { account, figure, live, journal, agreed_at_sequence: self.agreed_at, hold, texts: None }
    }
}

/// Compares accounts: `live` are those in the slots that `journal` gives, too.
pub(super) fn accounts(
    live: &[Figures],
    journal: impl Iterator<Item = AccountView>,
    agreed_at: u64,
    found: &mut Differences,
) {
    let mut journal: BTreeMap<Box<str>, AccountView> = journal.map(|view| (view.id.clone(), view)).collect();
    for live in live {
        let subject = Subject { account: &live.id, hold: None, agreed_at };
        let Some(journal) = journal.remove(&live.id) else {
            found.push(subject.difference("present", 1, 0));
            continue;
        };
        found.figure(&subject, "balance", live.balance.into(), journal.balance.into());
        found.figure(&subject, "held", live.held.into(), journal.held.into());
        found.figure(&subject, "credited", live.credited as i128, journal.credited as i128);
        found.figure(&subject, "debited", live.debited as i128, journal.debited as i128);
        found.text(&subject, "kind", live.kind.name(), journal.kind.name());
        found.text(&subject, "asset", &live.asset, &journal.asset);
        found.settings(&subject, live.settings.as_deref(), journal.settings.as_deref());
    }
    for account in journal.keys() {
        found.push(Subject { account, hold: None, agreed_at }.difference("present", 0, 1));
    }
}

/// Compares open holds: `live` are all behind `after` in the order of expiry, up to the last of them if there are
/// `more`.
pub(super) fn holds(
    live: &[HoldFigures],
    (after, more): (Option<(TimeMs, RecordPosition)>, bool),
    journal: &Ledger,
    agreed_at: u64,
    found: &mut Differences,
) {
    let until = live.last().filter(|_| more).map(HoldFigures::key);
    let in_range = |hold: &HoldFigures| until.is_none_or(|until| hold.key() <= until);
    let of_range = journal.holds_after(after).take_while(in_range);
    let mut journal: BTreeMap<Box<str>, HoldFigures> = of_range.map(|hold| (hold.id.clone(), hold)).collect();
    for live in live {
        let subject = Subject { account: &live.debit, hold: Some(&live.id), agreed_at };
        let Some(journal) = journal.remove(&live.id) else {
            found.push(subject.difference("present", 1, 0));
            continue;
        };
        found.figure(&subject, "amount", live.amount.into(), journal.amount.into());
        found.figure(&subject, "expires_at_ms", live.expires_at.0.into(), journal.expires_at.0.into());
        found.figure(&subject, "placed_at", live.placed.0.into(), journal.placed.0.into());
        found.text(&subject, "debit", &live.debit, &journal.debit);
        found.text(&subject, "credit", &live.credit, &journal.credit);
    }
    for hold in journal.values() {
        let subject = Subject { account: &hold.debit, hold: Some(&hold.id), agreed_at };
        found.push(subject.difference("present", 0, 1));
    }
}

/// Compares assets: decimals, what was issued and what is held.
pub(super) fn assets(live: &[AssetView], journal: &[AssetView], agreed_at: u64, found: &mut Differences) {
    let words = |asset: Option<&AssetView>| match asset {
        None => "absent".to_owned(),
        Some(AssetView { name, decimals: Some(decimals), issued, held }) => {
            format!("{name}: {decimals} decimals, issued {issued}, held {held}")
        }
        Some(AssetView { name, decimals: None, issued, held }) => format!("{name}: issued {issued}, held {held}"),
    };
    let subject = Subject { account: "(assets)", hold: None, agreed_at };
    for index in 0..live.len().max(journal.len()) {
        found.text(&subject, "asset", &words(live.get(index)), &words(journal.get(index)));
    }
}

/// Compares what a shard knows of the settings of other shards' accounts: a digest of all settings.
pub(super) fn settings(live: [u8; 32], journal: [u8; 32], agreed_at: u64, found: &mut Differences) {
    let subject = Subject { account: "(settings of all accounts)", hold: None, agreed_at };
    let hex = |digest: [u8; 32]| blake3::Hash::from_bytes(digest).to_hex().to_string();
    if live != journal {
        found.text(&subject, "settings", &hex(live), &hex(journal));
    }
}

/// Compares where the time of a shard was set back.
pub(super) fn mends(live: &Mends, journal: &Mends, agreed_at: u64, found: &mut Differences) {
    let subject = Subject { account: "(times that were mended)", hold: None, agreed_at };
    let words = |mends: &Mends| {
        let one = |mend: &Mend| format!("{} at {}: {} to {}", mend.sequence.0, mend.position.0, mend.was.0, mend.to.0);
        let kept: Vec<String> = mends.kept().iter().map(one).collect();
        format!("{} forgotten, {}", mends.forgotten(), kept.join(", "))
    };
    if live != journal {
        found.text(&subject, "mends", &words(live), &words(journal));
    }
}

/// Compares what shards sent each other.
pub(super) fn peers(live: &[PeerFigures], journal: &[PeerFigures], agreed_at: u64, found: &mut Differences) {
    if live.len() != journal.len() {
        let subject = Subject { account: "(other shards)", hold: None, agreed_at };
        found.push(subject.difference("count", live.len() as i128, journal.len() as i128));
    }
    for (live, journal) in live.iter().zip(journal) {
        let account = format!("(shard {})", live.shard);
        let subject = Subject { account: &account, hold: None, agreed_at };
        found.figure(&subject, "watermark", live.watermark.0.into(), journal.watermark.0.into());
        found.figure(&subject, "outbound", live.outbound.0.into(), journal.outbound.0.into());
        found.figure(&subject, "confirmed", live.confirmed.0.into(), journal.confirmed.0.into());
        found.text(&subject, "sent", &sums(&live.sent), &sums(&journal.sent));
        found.text(&subject, "received", &sums(&live.received), &sums(&journal.received));
    }
}

fn sums(of: &[(Box<str>, u128)]) -> String {
    let mut parts: Vec<String> = of.iter().map(|(asset, sum)| format!("{sum} {asset}")).collect();
    parts.sort();
    parts.join(", ")
}

/// All in which two states differ that are known to: `live` is the one that this process began from, if it is still
/// there.
pub(super) fn states(live: Option<&Ledger>, journal: &Ledger, found: &mut Differences) {
    let whole = Subject { account: "(the snapshot that this process began from)", hold: None, agreed_at: 0 };
    let Some(live) = live else { return found.push(whole.difference("bytes", 0, 0)) };
    let before = found.count();
    let of_live: Vec<Figures> = live.figures(0, u32::MAX).map(Figures::from).collect();
    accounts(&of_live, journal.figures(0, u32::MAX), 0, found);
    let of_live: Vec<HoldFigures> = live.holds_after(None).collect();
    holds(&of_live, (None, false), journal, 0, found);
    peers(&live.peer_figures(), &journal.peer_figures(), 0, found);
    assets(&live.assets(), &journal.assets(), 0, found);
    settings(settings_form(live), settings_form(journal), 0, found);
    mends(live.mends(), journal.mends(), 0, found);
    if found.count() == before {
        found.push(whole.difference("bytes", 0, 0));
    }
}

/// A digest of all that was set on accounts, also on those of other shards.
pub(crate) fn settings_form(state: &Ledger) -> [u8; 32] {
    let mut hasher = blake3::Hasher::new();
    state.write_settings(&mut |part| {
        hasher.update(part);
    });
    *hasher.finalize().as_bytes()
}

/// A digest of a state's canonical bytes: two states are equal exactly when their bytes are.
pub(super) fn form_of(state: &Ledger) -> blake3::Hash {
    let mut hasher = blake3::Hasher::new();
    state.write_snapshot(&mut |part| {
        hasher.update(part);
    });
    hasher.finalize()
}
