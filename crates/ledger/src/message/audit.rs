//! What an auditor reports of a shard, and of all.

use tidegate_machines::DamagedPlace;
use tidegate_machines::ledger::AssetTotals;

/// What an audit came to. It never says agreed before all was compared.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum AuditState {
    /// No reconciliation has ended yet.
    NeverRun,
    /// All that was compared agrees, and nothing is known to be damaged.
    Agreed,
    /// Something differs.
    Differs,
    /// Something that was stored cannot be read; what could be compared agrees.
    Damaged,
}

impl AuditState {
    /// Its name in JSON and frames.
    pub const fn name(self) -> &'static str {
        match self {
            AuditState::NeverRun => "never_run",
            AuditState::Agreed => "agreed",
            AuditState::Differs => "differs",
            AuditState::Damaged => "damaged",
        }
    }
}

/// How far the stored bytes of one shard were read again.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct ScrubReport {
    /// Position in the journal that the pass under way has reached.
    pub position: u64,
    /// Position at which it ends, as far as is known.
    pub of: u64,
    /// When the last pass over everything ended, milliseconds since the epoch; zero if none has.
    pub last_full_at_ms: u64,
    /// What is damaged.
    pub damage: Vec<&'static DamagedPlace>,
}

/// The fold from the first record on, which rests on no snapshot.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct FirstFoldReport {
    /// Sequence that it has reached.
    pub sequence: u64,
    /// Sequence at which it was last found to agree with the auditor's state, and so with the live one; zero if it was
    /// not compared yet.
    pub agreed_at_sequence: u64,
}

/// Whether money of one asset was created or lost over all shards.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Conservation {
    /// Unit of measure.
    pub asset: Box<str>,
    /// Sum of all balances plus what shards sent minus what they took in, each at the sequence of its report: zero
    /// unless something is wrong. Minor units.
    pub sum: i128,
    /// Sent by one shard and not taken in by another yet; below zero only if something is wrong. Minor units.
    pub in_transit: i128,
}

impl AuditReport {
    /// Whether what the shard holds in memory is not what its own log says, so that nothing may be decided on it. Money
    /// that did not arrive from another shard, or that is missing over all of them, is none of that: each shard is what
    /// its own log says.
    pub fn is_state_wrong(&self) -> bool {
        self.differences_more > 0 || self.differences.iter().any(|difference| difference.figure != ARRIVED)
    }

    /// What it came to.
    pub fn state(&self) -> AuditState {
        let conserved = self.conservation.iter().all(|of| of.sum == 0 && of.in_transit >= 0);
        if !self.differences.is_empty() || !conserved {
            AuditState::Differs
        } else if self.damage.is_some() || !self.scrub.damage.is_empty() {
            AuditState::Damaged
        } else if self.finished_at_ms == 0 {
            AuditState::NeverRun
        } else {
            AuditState::Agreed
        }
    }
}

/// The figure of what another shard has sent and this one should have taken in.
pub(crate) const ARRIVED: &str = "arrived";

/// What the auditor last found on one shard.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct AuditReport {
    /// Shard index.
    pub shard: u16,
    /// When the reconciliation ended, milliseconds since the epoch; zero if none was made yet.
    pub finished_at_ms: u64,
    /// Sequence up to which the independent fold went.
    pub sequence: u64,
    /// How many accounts were compared.
    pub accounts_compared: u64,
    /// What differs; empty when all agree.
    pub differences: Vec<AuditDifference>,
    /// Damage found in the journal, in words; `None` when the chain verifies.
    pub damage: Option<String>,
    /// How many open holds were compared.
    pub holds_compared: u64,
    /// Differences beyond those that are named.
    pub differences_more: u64,
    /// The sums of this shard at `sequence`, by asset.
    pub totals: Vec<AssetTotals>,
    /// How far all that is stored was read again.
    pub scrub: ScrubReport,
    /// The fold from the first record on.
    pub first_fold: FirstFoldReport,
    /// Over all shards, by asset; empty until all were compared.
    pub conservation: Vec<Conservation>,
}

impl AuditDifference {
    /// The live value, in words.
    pub fn live_text(&self) -> String {
        self.texts.as_ref().map_or_else(|| self.live.to_string(), |(live, _)| live.to_string())
    }

    /// The journal's value, in words.
    pub fn journal_text(&self) -> String {
        self.texts.as_ref().map_or_else(|| self.journal.to_string(), |(_, journal)| journal.to_string())
    }
}

/// One account whose live figure is not what the journal says.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct AuditDifference {
    /// Account id.
    pub account: Box<str>,
    /// Which figure: `balance`, `held`, `credited`, `debited`, `kind`, `asset`, `present`, `count` of all accounts;
    /// `amount`, `expires_at_ms` or `present` of a hold; `watermark`, `outbound`, `confirmed`, `sent` or `received` of
    /// another shard; `arrived`, what that shard sent and this one should have taken in (numbers of credits, or sums);
    /// `ids` of the index of ids.
    pub figure: &'static str,
    /// What the live state says.
    pub live: i128,
    /// What the journal says.
    pub journal: i128,
    /// Last sequence at which both agreed: the difference is younger.
    pub agreed_at_sequence: u64,
    /// The hold whose figure it is; `None` for an account's.
    pub hold: Option<Box<str>>,
    /// Both values, for figures that are no numbers: the live one, the journal's.
    pub texts: Option<(Box<str>, Box<str>)>,
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_report_says_that_all_agree_only_when_nothing_is_wrong() {
        let agreed = AuditReport { finished_at_ms: 5, ..AuditReport::default() };
        let conserved = |sum, in_transit| Conservation { asset: "credit".into(), sum, in_transit };
        let with = |of| AuditReport { conservation: vec![conserved(0, 3), of], ..agreed.clone() };
        assert_eq!(AuditReport::default().state(), AuditState::NeverRun);
        for (report, state) in [
            (agreed.clone(), AuditState::Agreed),
            (with(conserved(0, 0)), AuditState::Agreed),
            (with(conserved(1, 0)), AuditState::Differs),
            (with(conserved(0, -1)), AuditState::Differs),
            (AuditReport { damage: Some("it cannot be read".into()), ..agreed.clone() }, AuditState::Damaged),
        ] {
            assert_eq!(report.state(), state, "{report:?}");
        }
    }
}
