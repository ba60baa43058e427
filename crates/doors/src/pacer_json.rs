//! Plans and campaigns in JSON.

mod openrtb;

use std::collections::BTreeMap;
use std::fmt;

use serde::de::{self, MapAccess, Visitor};
use serde::{Deserialize, Deserializer, Serialize};
use tidegate_pacer::bidder::NoBid;
use tidegate_pacer::control::{DayCurve, Live, Point, SLOTS, Stopped};
use tidegate_pacer::machine::CampaignView;
use tidegate_pacer::plan::{Flight, FrequencyCap, Plan, StrategyChoice};
use tidegate_pacer::units::{BudgetMicros, PriceMicros};
use utoipa::ToSchema;

use openrtb::OpenRtbBody;

/// What is wanted of a campaign.
#[derive(Clone, Debug, Serialize, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub struct PlanBody {
    /// Of two plans, the one with the higher version is in force, in whatever order they come; of one version, the one
    /// whose JSON is later in order. Absent: one above that of the plan in force.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schema(required = false, value_type = u64, minimum = 1)]
    version: Option<u64>,
    /// The account of the ledger that has the money: a wallet.
    #[schema(example = "campaign:shoes")]
    account: Box<str>,
    /// The account that what is spent goes to: a collector of the same asset.
    #[schema(example = "spend:shoes")]
    spend: Box<str>,
    /// What may be spent in all, in micros.
    #[schema(example = 50_000_000, minimum = 1)]
    budget_micros: u64,
    /// What may be spent on one day of the zone, in micros; absent for no such cap.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schema(required = false, value_type = u64, minimum = 1)]
    daily_micros: Option<u64>,
    /// The zone whose days these are: a name of the IANA time zone database.
    #[serde(default = "utc")]
    #[schema(example = "Europe/Berlin", required = false)]
    zone: Box<str>,
    /// When it runs: in order, and apart from each other.
    flights: Vec<FlightBody>,
    /// The most that is bid for one impression, in micros: a CPM of 2.50 is 2,500.
    #[schema(value_type = u32, format = "uint32", example = 2_500, minimum = 1, maximum = 4_294_967_295u32)]
    price_micros: u32,
    /// By what it is paced.
    #[serde(default = "even")]
    #[schema(required = false)]
    strategy: StrategyBody,
    /// It does not run, whatever the rest says.
    #[serde(default)]
    paused: bool,
    /// What it is aimed at: hashes that its clients make. Empty for everything.
    #[serde(default)]
    keys: Vec<u64>,
    /// How often one user may see it; absent for no such cap.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schema(required = false, value_type = FrequencyBody)]
    frequency: Option<FrequencyBody>,
    /// What it buys in auctions of OpenRTB; absent: it takes no part in them. Not together with `keys`.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schema(required = false, value_type = OpenRtbBody)]
    openrtb: Option<Box<OpenRtbBody>>,
}

/// A time in which a campaign runs, in milliseconds since 1970.
#[derive(Clone, Copy, Debug, Serialize, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub struct FlightBody {
    /// From then on.
    starts_ms: u64,
    /// Until before then.
    ends_ms: u64,
}

/// A strategy, and what it is told.
#[derive(Clone, Debug, Serialize, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub struct StrategyBody {
    /// Its name.
    #[schema(example = "even")]
    name: Box<str>,
    /// Its parameters; those that are left out have their defaults.
    #[serde(default, deserialize_with = "parameters")]
    #[schema(value_type = std::collections::HashMap<String, i64>)]
    parameters: BTreeMap<Box<str>, i64>,
}

/// More parameters than any strategy has are not read to their end.
const PARAMETERS_MAX: usize = 32;

fn parameters<'de, D: Deserializer<'de>>(deserializer: D) -> Result<BTreeMap<Box<str>, i64>, D::Error> {
    struct Parameters;
    impl<'de> Visitor<'de> for Parameters {
        type Value = BTreeMap<Box<str>, i64>;

        fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
            write!(f, "an object of at most {PARAMETERS_MAX} parameters and their values")
        }

        fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> Result<Self::Value, A::Error> {
            let mut all = BTreeMap::new();
            while let Some((name, value)) = map.next_entry()? {
                all.insert(name, value);
                if all.len() > PARAMETERS_MAX {
                    return Err(de::Error::invalid_length(all.len(), &self));
                }
            }
            Ok(all)
        }
    }
    deserializer.deserialize_map(Parameters)
}

/// How often one user may see a campaign.
#[derive(Clone, Copy, Debug, Serialize, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub struct FrequencyBody {
    /// Bids for one user, at most.
    #[schema(minimum = 1, maximum = 255)]
    bids_max: u32,
    /// In so many seconds, which begin with the first of these bids.
    #[schema(minimum = 1)]
    window_s: u32,
}

fn utc() -> Box<str> {
    "UTC".into()
}

fn even() -> StrategyBody {
    StrategyBody { name: "even".into(), parameters: BTreeMap::new() }
}

impl PlanBody {
    /// Whether it says that its version is 0, which stands for none.
    pub fn has_version_zero(&self) -> bool {
        self.version == Some(0)
    }
}

impl From<PlanBody> for Plan {
    fn from(body: PlanBody) -> Plan {
        let flight =
            |FlightBody { starts_ms, ends_ms }: &FlightBody| Flight { starts_ms: *starts_ms, ends_ms: *ends_ms };
        Plan {
            version: body.version.unwrap_or(0),
            account: body.account,
            spend: body.spend,
            budget_micros: BudgetMicros(body.budget_micros),
            daily_micros: body.daily_micros.map(BudgetMicros),
            zone: body.zone,
            flights: body.flights.iter().map(flight).collect(),
            price_micros: PriceMicros(body.price_micros),
            strategy: StrategyChoice { name: body.strategy.name, parameters: body.strategy.parameters },
            paused: body.paused,
            keys: body.keys,
            frequency: body.frequency.map(|FrequencyBody { bids_max, window_s }| FrequencyCap { bids_max, window_s }),
            openrtb: body.openrtb.map(|openrtb| Box::new((*openrtb).into())),
        }
    }
}

impl From<Plan> for PlanBody {
    fn from(plan: Plan) -> PlanBody {
        let flight = |Flight { starts_ms, ends_ms }: &Flight| FlightBody { starts_ms: *starts_ms, ends_ms: *ends_ms };
        PlanBody {
            version: Some(plan.version),
            account: plan.account,
            spend: plan.spend,
            budget_micros: plan.budget_micros.0,
            daily_micros: plan.daily_micros.map(|daily| daily.0),
            zone: plan.zone,
            flights: plan.flights.iter().map(flight).collect(),
            price_micros: plan.price_micros.0,
            strategy: StrategyBody { name: plan.strategy.name, parameters: plan.strategy.parameters },
            paused: plan.paused,
            keys: plan.keys,
            frequency: plan.frequency.map(|FrequencyCap { bids_max, window_s }| FrequencyBody { bids_max, window_s }),
            openrtb: plan.openrtb.map(|openrtb| Box::new((*openrtb).into())),
        }
    }
}

/// A campaign.
#[derive(Serialize, ToSchema)]
pub struct CampaignBody {
    /// Its id.
    #[schema(example = "shoes")]
    id: Box<str>,
    /// By which bid requests name it.
    #[schema(value_type = u32, format = "uint32")]
    number: u32,
    /// What is wanted of it.
    plan: PlanBody,
    /// Who has changed it last: the name of the user or service; absent where that was not written yet.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schema(required = false, value_type = String, example = "planner")]
    changed_by: Option<Box<str>>,
    /// When, in milliseconds since 1970; absent likewise.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schema(required = false, value_type = u64)]
    changed_ms: Option<u64>,
    /// It has ended; its last leases are not settled yet.
    ended: bool,
    /// What wins have cost, in micros.
    spent_micros: u64,
    /// What wins of bids that were made may still cost, and what is leased for others, in micros.
    exposed_micros: u64,
    /// What returned of leases of which not all bids are known, in micros: the ledger holds it until they are, and it
    /// is leased again then.
    unreleased_micros: u64,
    /// What wins of the current day have cost, in micros.
    spent_on_day_micros: u64,
    /// Wins.
    impressions: u64,
    /// Bids that were said to be lost.
    losses: u64,
    /// Leases of whose bids a notice may still come.
    leases: u32,
    /// How it is paced now; absent in the first moments.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schema(required = false, value_type = PaceBody)]
    pace: Option<PaceBody>,
    /// Its day, if the query asks for it: absent before the first request.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schema(required = false, value_type = CurveBody)]
    curve: Option<CurveBody>,
}

/// The day of a campaign, from the begin of its zone's day or of the flight to the end of the one or the other: 145
/// points at the same distance from each other, the first one at the begin and the last one at the end. A kill loses
/// what was measured in the minutes before.
#[derive(Serialize, ToSchema)]
pub struct CurveBody {
    /// The time of the first point, in milliseconds since 1970.
    begins_ms: u64,
    /// The time of the last point.
    ends_ms: u64,
    /// What may be spent: on the day if it has a cap, else in all.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schema(required = false, value_type = u64)]
    budget_micros: Option<u64>,
    /// What was spent of it by each point; null where nobody asked for the campaign, and for what is still to come.
    #[schema(min_items = 145, max_items = 145)]
    spent_micros: Vec<Option<u64>>,
    /// What was planned for it by each point, and what is planned for those to come; null for strategies without a
    /// plan.
    #[schema(min_items = 145, max_items = 145)]
    planned_micros: Vec<Option<u64>>,
    /// The share of requests that was bid on at each point, from 0 to 1; null as above.
    #[schema(min_items = 145, max_items = 145)]
    share: Vec<Option<f32>>,
}

impl CurveBody {
    fn of(live: &Live) -> Option<CurveBody> {
        let curve: &DayCurve = live.curve.as_deref()?;
        let known = |of: fn(&Point) -> u64| curve.points().iter().map(move |point| point.as_ref().map(of));
        let planned = |slot: usize| match &curve.points()[slot] {
            Some(point) => point.planned,
            None => live.plan.as_ref().and_then(|plan| plan.at(curve.time_of(slot))),
        };
        Some(CurveBody {
            begins_ms: curve.span.begins.0,
            ends_ms: curve.span.ends.0,
            budget_micros: live.plan.as_ref().map(|plan| plan.budget.0),
            spent_micros: known(|point| point.spent.0).collect(),
            planned_micros: (0..=SLOTS).map(|slot| planned(slot).map(|planned| planned.0)).collect(),
            share: curve.points().iter().map(|point| point.as_ref().map(|point| point.share)).collect(),
        })
    }
}

/// How a campaign is paced.
#[derive(Serialize, ToSchema)]
pub struct PaceBody {
    /// The share of requests that is bid on, from 0 to 1.
    share: f64,
    /// What of the price is bid, from 0 to 1.
    shade: f64,
    /// What should be spent by now, in micros; absent outside of flights, and for strategies without a plan.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schema(required = false, value_type = u64)]
    planned_micros: Option<u64>,
    /// Requests in a second.
    requests_per_s: f64,
    /// Bids in a second.
    bids_per_s: f64,
    /// Of bids, the share that wins.
    win_rate: f64,
    /// Bids since the start of the process.
    bids: u64,
    /// Requests without a bid since the start of the process, by reason.
    #[schema(value_type = std::collections::HashMap<String, u64>)]
    no_bids: BTreeMap<&'static str, u64>,
    /// What the ledger may hold, beside what was spent, of leases that are over and that it did not settle yet, in
    /// micros: it is not bid with. For some milliseconds that is every lease's; longer, the ledger refuses, and the log
    /// says why.
    unsettled_micros: u64,
    /// What was spent of leases whose holds the ledger does not have any more, in micros: it is owed.
    unpaid_micros: u64,
    /// Why no money is leased at present: `budget_used`, `day_used`, `insufficient_funds` …; absent if it is, and when
    /// nobody asks for the campaign and it has no lease, unless its budget is spent.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schema(required = false, value_type = String)]
    stopped: Option<&'static str>,
}

impl From<&Live> for PaceBody {
    fn from(live: &Live) -> PaceBody {
        let reasons = NoBid::ALL.iter().zip(live.no_bids).filter(|(_, count)| *count > 0);
        PaceBody {
            share: live.share,
            shade: live.shade,
            planned_micros: live.planned.map(|planned| planned.0),
            requests_per_s: live.requests_per_s,
            bids_per_s: live.bids_per_s,
            win_rate: live.win_rate,
            bids: live.bids,
            no_bids: reasons.map(|(why, count)| (why.name(), count)).collect(),
            unsettled_micros: live.unsettled.0,
            unpaid_micros: live.unpaid.0,
            stopped: live.stopped.map(Stopped::name),
        }
    }
}

impl CampaignBody {
    /// Of a campaign, and how it is paced; with its day if that is wanted.
    pub fn new(view: CampaignView, live: Option<&Live>, with_curve: bool) -> CampaignBody {
        let CampaignView { id, number, plan, last_change, is_ended, leases, spending, .. } = view;
        let is_told = !last_change.by.is_empty();
        CampaignBody {
            id,
            number,
            plan: plan.into(),
            changed_ms: is_told.then_some(last_change.at.0),
            changed_by: is_told.then_some(last_change.by),
            ended: is_ended,
            spent_micros: spending.spent.0,
            exposed_micros: spending.exposed.0,
            unreleased_micros: spending.unreleased.0,
            spent_on_day_micros: spending.day_spent.0,
            impressions: spending.impressions.0,
            losses: spending.losses.0,
            leases,
            pace: live.map(PaceBody::from),
            curve: live.filter(|_| with_curve).and_then(CurveBody::of),
        }
    }
}
