//! The pacer, added to the server as a room from outside would be, and its way to the ledger.

use std::sync::Arc;

use anyhow::Result;
use tidegate_config::{Document, Section};
use tidegate_doors::pacer_room::{BIDDERS_PORT, PacerDoor, PlanRules, open_pacer, open_pacer_frames};
use tidegate_journal::directory::{ShardCount, Wanted};
use tidegate_ledger::LEDGER;
use tidegate_ledger::message::{HoldRequest, Reply, Request};
use tidegate_ledger::operation::Message;
use tidegate_ledger::router::{CursorKey, Router};
use tidegate_machines::ledger::{IdSpace, Outcome, Refusal};
use tidegate_pacer::bidders::{BidderMessage, EdgeBidders};
use tidegate_pacer::control::{Money, Settlement};
use tidegate_pacer::family::{CAMPAIGNS, CampaignMessage, CampaignsFamily};
use tidegate_pacer::frequency::FrequencyTable;
use tidegate_pacer::keeper::{Held, LiveTable, Settled, Treasury};
use tidegate_pacer::limits::{PacingDemoKeys, PacingKeys};
use tidegate_pacer::room::{OpenTreasury, PacerRoom, Shared};
use tidegate_pacer::units::BudgetMicros;
use tidegate_runtime::pump::{EdgeHandle, Pump};
use tidegate_runtime::{Carries, Site};
use tidegate_telemetry::MetricRow;

use crate::config::{deadline_warning, openrtb_settings};
use crate::extension::{Extension, KnownFamily, Opened};

/// The id space of the holds. The configuration gives no service one that begins so.
const ID_SPACE: &str = "tidegate.pacer";
/// How long the ledger keeps what is held for a lease. A lease is settled when its last bid's deadline has passed, also
/// after a crash; this is for a pacer whose logs are lost for good.
const HOLD_MS: u64 = 30 * 86_400_000;

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
        let keys: PacingKeys = document.section()?;
        let open = [("account_prefix", &keys.account_prefix), ("spend_prefix", &keys.spend_prefix)];
        let open = open.into_iter().filter(|(_, prefix)| prefix.is_empty());
        let warned = open.map(|(key, _)| {
            format!("pacing.{key} is empty: who may make campaigns may use every account of the ledger for them")
        });
        let short = deadline_warning(&openrtb_settings(document)?, keys.win_deadline_ms);
        Ok(warned.chain(short).collect())
    }

    fn open(&self, document: &Document) -> Result<Opened<P>> {
        let keys: PacingKeys = document.section()?;
        let demo: PacingDemoKeys = document.section()?;
        let users = Arc::new(FrequencyTable::new(keys.users_max));
        let shared = Shared { live: LiveTable::default(), users: users.clone(), edges: EdgeBidders::default() };
        let rules = plan_rules(&keys);
        let sampled = if keys.decisions_bytes_max > 0 { keys.decision_sample_one_in } else { 0 };
        let door = PacerDoor {
            shared: shared.clone(),
            rules: rules.clone(),
            sampled,
            openrtb: openrtb_settings(document)?,
            win_deadline_ms: keys.win_deadline_ms,
        };
        Ok(Opened {
            logs: vec![Wanted {
                family: CAMPAIGNS,
                shards: keys.shards,
                count: ShardCount::Fixed { setting: "pacing.shards" },
            }],
            room: Box::new(PacerRoom::new(&keys, &demo, LedgerTreasury, BIDDERS_PORT, shared)),
            http: Some(open_pacer(door)),
            frames: Some(open_pacer_frames(users, rules, sampled)),
        })
    }
}

/// Which plans are taken.
pub(crate) fn plan_rules(keys: &PacingKeys) -> PlanRules {
    PlanRules { account_prefix: keys.account_prefix.clone(), spend_prefix: keys.spend_prefix.clone() }
}

/// The ledger, before there is a thread that asks it.
struct LedgerTreasury;

impl<P: Carries<Message>> OpenTreasury<P> for LedgerTreasury {
    type Treasury = LedgerMoney;

    fn open(self, site: &Site<P>, pump: &mut Pump<P>) -> LedgerMoney {
        let shards = site.placement().shards(LEDGER);
        // It asks for no history: there are no cursors to sign.
        LedgerMoney(pump.client(|me| Router::new(me, shards, CursorKey([0, 0]))))
    }
}

/// Money of campaigns in the ledger: a lease is a hold, and its settlement a post of what was spent.
struct LedgerMoney(EdgeHandle<Router>);

impl LedgerMoney {
    async fn ask(&self, request: Request) -> Result<Vec<Outcome>, String> {
        let space = IdSpace::new(ID_SPACE).expect("a plain name");
        match self.0.ask(request.in_space(&space).into()).await {
            Ok(Reply::Outcomes(outcomes)) => Ok(outcomes),
            Ok(Reply::Unavailable(why)) => Err(format!("{why:?}")),
            Ok(other) => unreachable!("holds have outcomes: {other:?}"),
            Err(unasked) => Err(format!("{unasked:?}")),
        }
    }
}

impl Treasury for LedgerMoney {
    async fn hold(&self, money: Vec<Money>) -> Vec<Held> {
        let holds = money.iter().map(|money| HoldRequest {
            id: money.hold_id(),
            debit: money.account.clone(),
            credit: money.spend.clone(),
            amount: money.amount.0,
            expires_in_ms: HOLD_MS,
            memo: "".into(),
            code: 0,
            user_data: "".into(),
            open_holds_max: u32::MAX,
        });
        match self.ask(Request::PlaceHolds(holds.collect())).await {
            Ok(outcomes) => outcomes.into_iter().map(held).collect(),
            Err(why) => vec![Held::Unknown(why); money.len()],
        }
    }

    async fn settle(&self, settlements: Vec<Settlement>) -> Vec<Settled> {
        let (paid, free): (Vec<_>, Vec<_>) =
            settlements.iter().enumerate().partition(|(_, settlement)| settlement.spent > BudgetMicros::ZERO);
        let mut settled = vec![Settled::Done; settlements.len()];
        if !paid.is_empty() {
            let posts = paid.iter().map(|(_, Settlement { money, spent })| (money.hold_id(), Some(spent.0)));
            let outcomes = self.ask(Request::PostHolds(posts.collect())).await;
            note(&mut settled, &paid, outcomes, posted);
        }
        if !free.is_empty() {
            let voids = free.iter().map(|(_, settlement)| settlement.money.hold_id());
            let outcomes = self.ask(Request::VoidHolds(voids.collect())).await;
            note(&mut settled, &free, outcomes, voided);
        }
        settled
    }
}

/// Puts outcomes to where their settlements stand.
fn note(
    settled: &mut [Settled],
    of: &[(usize, &Settlement)],
    outcomes: Result<Vec<Outcome>, String>,
    read: fn(Outcome) -> Settled,
) {
    match outcomes {
        Ok(outcomes) => of.iter().zip(outcomes).for_each(|((at, _), outcome)| settled[*at] = read(outcome)),
        Err(why) => of.iter().for_each(|(at, _)| settled[*at] = Settled::Unknown(why.clone())),
    }
}

fn held(outcome: Outcome) -> Held {
    match outcome.refusal() {
        None => Held::Done,
        Some(Refusal::InsufficientFunds { available }) => Held::Insufficient { available: BudgetMicros(available) },
        Some(refusal) => Held::Refused(refusal.code().to_owned()),
    }
}

fn posted(outcome: Outcome) -> Settled {
    match outcome.refusal() {
        None => Settled::Done,
        Some(refusal) => Settled::Refused(refusal.code().to_owned()),
    }
}

fn voided(outcome: Outcome) -> Settled {
    match outcome.refusal() {
        None => Settled::Done,
        // It was never held, or is free already.
        Some(Refusal::HoldNotFound | Refusal::HoldVoided | Refusal::HoldExpired) => Settled::Nothing,
        Some(refusal) => Settled::Refused(refusal.code().to_owned()),
    }
}
