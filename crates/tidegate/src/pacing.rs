//! The pacer, added to the server as a room from outside would be, and its way to the ledger: of this server, or of
//! another one.

mod elsewhere;
mod here;
mod money;
mod peers;
mod receipt;

use std::path::Path;
use std::sync::Arc;

use anyhow::Result;
use tidegate_config::{Document, Section};
use tidegate_doors::pacer_room::{BIDDERS_PORT, OpenPeers, PacerDoor, PlanRules, open_pacer, open_pacer_frames};
use tidegate_journal::directory::{ShardCount, Wanted};
use tidegate_ledger::LEDGER;
use tidegate_ledger::operation::Message;
use tidegate_ledger::router::{CursorKey, Router};
use tidegate_link::OtherServer;
use tidegate_machines::ledger::is_account_id;
use tidegate_pacer::bidders::{BidderMessage, EdgeBidders};
use tidegate_pacer::family::{CAMPAIGNS, CampaignMessage, CampaignsFamily};
use tidegate_pacer::frequency::FrequencyTable;
use tidegate_pacer::keeper::{LedgerSeen, LiveTable};
use tidegate_pacer::limits::{PacingDemoKeys, PacingKeys};
use tidegate_pacer::room::{OpenTreasury, PacerRoom, Shared, node_of};
use tidegate_runtime::pump::Pump;
use tidegate_runtime::{Carries, Site};
use tidegate_telemetry::MetricRow;

use crate::config::{deadline_warning, openrtb_settings};
use crate::extension::{Extension, KnownFamily, Opened};

pub(crate) use elsewhere::PacingLedgerKeys;
pub(crate) use peers::PacingPeerKeys;
pub(crate) use receipt::{Receipt, file_of as receipt_file, read as read_receipt};

use elsewhere::{Elsewhere, ledger_elsewhere};
use here::Here;
use money::{Decided, HoldOf, Ledger, LedgerMoney, OpenHold, PostPage};
use peers::{Peers, peers};
use receipt::Receipts;

/// Adds the pacer to a server.
pub struct Pacing;

impl<P> Extension<P> for Pacing
where
    P: Carries<CampaignMessage> + Carries<BidderMessage> + Carries<Message>,
{
    fn sections(&self) -> &'static [Section] {
        // They stand in the list of the server's own.
        &[]
    }

    fn metrics(&self) -> &'static [MetricRow] {
        &[]
    }

    fn families(&self) -> Vec<KnownFamily> {
        vec![KnownFamily::of::<CampaignsFamily>()]
    }

    fn warnings(&self, document: &Document) -> Result<Vec<String>> {
        warned_of(document)
    }

    fn open(&self, document: &Document) -> Result<Opened<P>> {
        let keys = pacing_keys(document)?;
        let demo: PacingDemoKeys = document.section()?;
        let ledger = ledger_elsewhere(document)?.map_or(LedgerAt::Here, LedgerAt::Elsewhere);
        let users = Arc::new(FrequencyTable::new(keys.users_max));
        let shared = Shared { live: LiveTable::default(), users: users.clone(), edges: EdgeBidders::default() };
        let rules = plan_rules(&keys);
        let sampled = if keys.decisions_bytes_max > 0 { keys.decision_sample_one_in } else { 0 };
        let door = PacerDoor {
            shared: shared.clone(),
            rules: rules.clone(),
            sampled,
            peers: open_peers(document)?,
            openrtb: openrtb_settings(document)?,
            win_deadline_ms: keys.win_deadline_ms,
        };
        Ok(Opened {
            logs: vec![Wanted {
                family: CAMPAIGNS,
                shards: keys.shards,
                count: ShardCount::Fixed { setting: "pacing.shards" },
            }],
            room: Box::new(PacerRoom::new(&keys, &demo, ledger, BIDDERS_PORT, shared)),
            http: Some(open_pacer(door)),
            frames: Some(open_pacer_frames(users, rules, sampled)),
        })
    }
}

/// How the HTTP door's threads ask the servers of `[[pacing.peer]]`.
fn open_peers(document: &Document) -> Result<Option<OpenPeers>> {
    let settings = peers(document)?;
    if settings.is_empty() {
        return Ok(None);
    }
    // Whatever can be wrong with a client is so for all of them.
    Peers::open(&settings)?;
    Ok(Some(Box::new(move || Box::new(Peers::open(&settings).expect("one was opened before")))))
}

/// What an operator should know of how the pacer is set.
fn warned_of(document: &Document) -> Result<Vec<String>> {
    let keys = pacing_keys(document)?;
    let open = prefixes(&keys).into_iter().filter(|(_, prefix)| prefix.is_empty());
    let warned = open
        .map(|(key, _)| format!("{key} is empty: who may make campaigns may use every account of the ledger for them"));
    let (account, spend) = (&keys.account_prefix, &keys.spend_prefix);
    let is_within =
        !spend.is_empty() && !account.is_empty() && (account.starts_with(&**spend) || spend.starts_with(&**account));
    let within = is_within.then(|| {
        format!(
            "pacing.account_prefix is {account:?}, and pacing.spend_prefix {spend:?}: who may change a campaign may \
             spend what campaigns have paid; use two of which none begins with the other"
        )
    });
    let short = deadline_warning(&openrtb_settings(document)?, keys.win_deadline_ms);
    Ok(warned.chain(within).chain(short).collect())
}

/// `[pacing]`, with which campaigns can have accounts.
fn pacing_keys(document: &Document) -> Result<PacingKeys> {
    let keys: PacingKeys = document.section()?;
    for (key, prefix) in prefixes(&keys) {
        if !is_account_id(&format!("{prefix}x")) {
            let why = "no account has an id that begins so: expected at most 127 bytes that can be printed, without \
                       `/`, `*` and a space at the beginning";
            return Err(document.error_at(key, format!("{key}: {why}")).into());
        }
    }
    Ok(keys)
}

/// What accounts of campaigns begin with, by the key that says it.
fn prefixes(keys: &PacingKeys) -> [(&'static str, &str); 2] {
    [("pacing.account_prefix", &keys.account_prefix), ("pacing.spend_prefix", &keys.spend_prefix)]
}

/// Which plans are taken.
pub(crate) fn plan_rules(keys: &PacingKeys) -> PlanRules {
    PlanRules { account_prefix: keys.account_prefix.clone(), spend_prefix: keys.spend_prefix.clone() }
}

/// Which ledger has the money, before there is a thread that asks it.
enum LedgerAt {
    Here,
    Elsewhere(OtherServer),
}

/// The ledger that has the money.
enum AnyLedger {
    Here(Here),
    Elsewhere(Box<Elsewhere>),
}

impl<P: Carries<Message>> OpenTreasury<P> for LedgerAt {
    type Treasury = LedgerMoney<AnyLedger>;

    fn open(self, site: &Site<P>, pump: &mut Pump<P>) -> LedgerMoney<AnyLedger> {
        match self {
            LedgerAt::Here => {
                warn_of_receipt(site.data());
                let shards = site.placement().shards(LEDGER);
                // The cursors of its histories go to nobody else.
                let router = pump.client(|me| Router::new(me, shards, CursorKey([0, 0])));
                LedgerMoney::new(AnyLedger::Here(Here::new(router)), 0)
            }
            LedgerAt::Elsewhere(server) => {
                let elsewhere = Elsewhere::new(server, Receipts::of(site.data()));
                LedgerMoney::new(AnyLedger::Elsewhere(Box::new(elsewhere)), node_of(site))
            }
        }
    }
}

/// Warns if the pacer has settled leases in the ledger of another server before.
fn warn_of_receipt(data: &Path) {
    let file = receipt_file(data);
    if file.exists() {
        let file = file.display();
        tracing::warn!(
            %file,
            "this pacer had its money in the ledger of another server, and [pacing.ledger] names none: what that one \
             holds and what was won of it is not settled there. Set it again; or, if the ledger here is the one from \
             now on, stop this server and run `tidegate pacer accept-ledger --data DIR`"
        );
    }
}

impl Ledger for AnyLedger {
    async fn place(&self, holds: &[HoldOf<'_>]) -> Result<Vec<Decided>, String> {
        match self {
            AnyLedger::Here(ledger) => ledger.place(holds).await,
            AnyLedger::Elsewhere(ledger) => ledger.place(holds).await,
        }
    }

    async fn post(&self, posts: &[(Box<str>, u64)]) -> Result<Vec<Decided>, String> {
        match self {
            AnyLedger::Here(ledger) => ledger.post(posts).await,
            AnyLedger::Elsewhere(ledger) => ledger.post(posts).await,
        }
    }

    async fn void(&self, ids: &[Box<str>]) -> Result<Vec<Decided>, String> {
        match self {
            AnyLedger::Here(ledger) => ledger.void(ids).await,
            AnyLedger::Elsewhere(ledger) => ledger.void(ids).await,
        }
    }

    async fn own(&self, account: &str) -> Result<Vec<OpenHold>, String> {
        match self {
            AnyLedger::Here(ledger) => ledger.own(account).await,
            AnyLedger::Elsewhere(ledger) => ledger.own(account).await,
        }
    }

    async fn posts(&self, account: &str, before: Option<Box<str>>, rows: u32) -> Result<PostPage, String> {
        match self {
            AnyLedger::Here(ledger) => ledger.posts(account, before, rows).await,
            AnyLedger::Elsewhere(ledger) => ledger.posts(account, before, rows).await,
        }
    }

    async fn posted(&self, id: &str) -> Result<Option<u64>, String> {
        match self {
            AnyLedger::Here(ledger) => ledger.posted(id).await,
            AnyLedger::Elsewhere(ledger) => ledger.posted(id).await,
        }
    }

    async fn look(&self) -> LedgerSeen {
        match self {
            AnyLedger::Here(ledger) => ledger.look().await,
            AnyLedger::Elsewhere(ledger) => ledger.look().await,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::config::schema;

    /// What a configuration is warned of, or refused with.
    fn said(text: &str) -> Result<Vec<String>, String> {
        let document = Document::of("test.toml", text, &schema(&[])).expect("it can be read");
        warned_of(&document).map_err(|error| error.to_string())
    }

    #[test]
    fn a_prefix_with_which_there_is_no_account_is_refused_with_its_line() {
        let long = "c".repeat(128);
        for prefix in [" ads:", "a/b:", "c*", &long] {
            let error = said(&format!("[pacing]\nlease_ms = 500\naccount_prefix = {prefix:?}\n")).unwrap_err();
            assert!(error.starts_with("test.toml:3: pacing.account_prefix: no account has an id"), "{error}");
        }
        assert_eq!(said("[pacing]\naccount_prefix = \"ads:campaign:\"\n"), Ok(vec![]));
        for spend in ["ads:", "ads:spent:", "a"] {
            let text = format!("[pacing]\naccount_prefix = \"ads:\"\nspend_prefix = \"{spend}\"\n");
            let warned = said(&text).expect("it may be so");
            assert_eq!(warned.len(), 1, "{spend}");
            assert!(warned[0].ends_with("use two of which none begins with the other"), "{warned:?}");
        }
    }
}
