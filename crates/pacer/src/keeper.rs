//! Moves money and plans between shards, ledger and bidders: the shell around [`Control`].
//!
//! ```text
//!   shards ──Changed, Spending──▶ ┌─────────┐ ──Update──▶ bidders
//!          ◀─Open, Close, Settle─ │ Control │ ◀─Report───
//!   ledger ◀─hold, settle──────── └─────────┘
//! ```
//!
//! Tasks of one thread: [`Keeper::round`] tells bidders what has changed, and waits for no disk of the ledger;
//! [`Keeper::move_money`] opens, holds, retires, closes and settles leases, and may wait. [`Keeper::count_paid`] looks
//! behind a start what the ledger has paid for leases that are not known. What fails is asked again: each step is done
//! once, however often it is asked for.

mod counting;
mod pieces;
mod settling;
mod told;
mod treasury;

use std::cell::{Cell, RefCell};
use std::collections::{BTreeMap, BTreeSet};
use std::sync::{Arc, RwLock};

use tidegate_machines::{ShardIndex, TimeMs};
use tidegate_planted::{Bug, is_planted};

use crate::bidder::{Report, Update};
use crate::control::{ByStopped, Control, Live, Money, Settlement, Stopped, UnknownHolds};
use crate::decisions::DecisionWriter;
use crate::limits::PAGE_BYTES_MAX;
use crate::machine::{Command, LeaseId, LeaseWanted, Outcome, RetiredLease};
use crate::units::BudgetMicros;

pub use pieces::Pieces;
pub use settling::Unsettled;
pub use treasury::{Held, LedgerSeen, PaidPage, Settled, Treasury};

use told::{About, Told};

/// Campaigns that are asked for at once.
const PAGE: usize = 256;
/// How often it is shown how campaigns are.
const SHOW_MS: u64 = 200;
/// Leases, or campaigns' spending, that are asked for at once.
const LEASES_OF_PAGE: usize = 1_024;

/// The shards of campaigns.
pub trait Shards {
    /// How many.
    fn count(&self) -> u16;

    /// Asks one of them. The request is on its way when this returns. An error says why there is no answer.
    fn ask(&self, shard: ShardIndex, command: Command) -> impl Future<Output = Result<Outcome, String>> + use<Self>;
}

/// The bidders, one on each worker.
pub trait Bidders {
    /// Tells a bidder something, and hears what it used. The update is on its way when this returns; an error gives
    /// back one that did not reach it.
    fn exchange(&self, worker: u16, update: Update) -> impl Future<Output = Result<Report, Update>> + use<Self>;
}

/// How all campaigns are, for the doors.
pub type LiveTable = Arc<RwLock<BTreeMap<u32, Live>>>;

/// Moves money and plans.
pub struct Keeper<S, B, T> {
    control: RefCell<Control>,
    shards: S,
    bidders: B,
    treasury: T,
    live: LiveTable,
    pieces: Pieces,
    workers: u16,
    /// The newest time that all bidders have told.
    now: Cell<TimeMs>,
    /// How far the changes of each shard are known.
    followed: RefCell<Vec<u64>>,
    shown: Cell<TimeMs>,
    /// Shards that may have opened leases of which nobody knows here: their answers did not come.
    unheard: RefCell<BTreeSet<ShardIndex>>,
    /// What the log was told of lately.
    told: RefCell<Told>,
    /// The ledger did not say whether it holds what was asked for last.
    ledger_away: Cell<bool>,
    /// It was another one than before when it was looked at last.
    is_ledger_other: Cell<bool>,
    /// It could not be known again after a restart, when it was looked at last.
    is_ledger_unremembered: Cell<bool>,
    unsettled: Cell<Unsettled>,
    /// It holds money for leases that are settled here.
    is_ledger_older: Cell<bool>,
    /// Leases of which the ledger was told another amount before.
    paid_otherwise: Cell<u64>,
    /// For how many leases that are not known here the ledger has paid.
    regained: Cell<u64>,
    /// Accounts of which it does not say what it has paid.
    is_unread: Cell<bool>,
    /// Shards that know that this process opens leases.
    begun: RefCell<BTreeSet<ShardIndex>>,
    stopped: Cell<ByStopped>,
    /// Writes the record of decisions, if there is one.
    record: Option<RefCell<RecordTo>>,
}

/// Where the record of decisions goes, and who is told how many records there were, and how many were dropped.
type RecordTo = (DecisionWriter, Box<dyn FnMut(u64, u64)>);

impl<S: Shards, B: Bidders, T: Treasury> Keeper<S, B, T> {
    /// Whose leases move in such pieces.
    pub fn new(control: Control, (shards, bidders, treasury): (S, B, T), pieces: Pieces, live: LiveTable) -> Self {
        let workers = control.workers();
        let followed = RefCell::new(vec![0; shards.count().into()]);
        Keeper {
            control: RefCell::new(control),
            shards,
            bidders,
            treasury,
            live,
            pieces,
            workers,
            now: Cell::new(TimeMs(0)),
            followed,
            shown: Cell::new(TimeMs(0)),
            unheard: RefCell::default(),
            told: RefCell::default(),
            ledger_away: Cell::new(false),
            is_ledger_other: Cell::new(false),
            is_ledger_unremembered: Cell::new(false),
            unsettled: Cell::default(),
            is_ledger_older: Cell::new(false),
            paid_otherwise: Cell::new(0),
            regained: Cell::new(0),
            is_unread: Cell::new(false),
            begun: RefCell::default(),
            stopped: Cell::default(),
            record: None,
        }
    }

    /// Writes the record of decisions, and tells `count` how many records there were, and how many were dropped.
    pub fn writing(mut self, writer: DecisionWriter, count: impl FnMut(u64, u64) + 'static) -> Self {
        self.record = Some(RefCell::new((writer, Box::new(count))));
        self
    }

    /// What is known.
    pub fn control(&self) -> &RefCell<Control> {
        &self.control
    }

    /// Whether the ledger did not answer when it was asked to hold money, or looked at, last.
    pub fn is_ledger_away(&self) -> bool {
        self.ledger_away.get()
    }

    /// Whether the ledger is another one than before: then it is away, too.
    pub fn is_ledger_other(&self) -> bool {
        self.is_ledger_other.get()
    }

    /// Whether the ledger could not be known again after a restart.
    pub fn is_ledger_unremembered(&self) -> bool {
        self.is_ledger_unremembered.get()
    }

    /// Whether the ledger held money for leases that were settled here, when it was looked at last.
    pub fn is_ledger_older(&self) -> bool {
        self.is_ledger_older.get()
    }

    /// What the ledger did not settle.
    pub fn unsettled(&self) -> Unsettled {
        self.unsettled.get()
    }

    /// Of how many leases the ledger had another amount than was spent, since the start of the process.
    pub fn paid_otherwise(&self) -> u64 {
        self.paid_otherwise.get()
    }

    /// Whether the ledger does not say what it has paid out of an account, so that no money of it is leased.
    pub fn is_ledger_unread(&self) -> bool {
        self.is_unread.get()
    }

    /// For how many leases that are not known here the ledger has paid.
    pub fn regained(&self) -> u64 {
        self.regained.get()
    }

    /// For how many campaigns no money is leased, as of some hundred milliseconds ago.
    pub fn stopped(&self) -> ByStopped {
        self.stopped.get()
    }

    /// Learns which campaigns there are, and which leases an earlier process has left open. Before anything else.
    pub async fn recover(&self) -> Result<(), String> {
        self.follow().await?;
        self.exchange().await;
        // Until when bids of an earlier process may win follows from the time.
        if self.now.get() == TimeMs(0) {
            return Err("the bidders have not told the time".to_owned());
        }
        for shard in self.all_shards() {
            let Outcome::Openings(openings) = self.shards.ask(shard, Command::Openings).await? else {
                unreachable!("of openings")
            };
            self.control.borrow_mut().had_opened(shard, openings);
            self.recover_leases(shard).await?;
        }
        self.control.borrow_mut().recovered();
        Ok(())
    }

    /// Learns which leases of a shard are open that nobody knows of here.
    async fn recover_leases(&self, shard: ShardIndex) -> Result<(), String> {
        // Their counters begin at 1.
        let mut after = LeaseId::new(shard, 0);
        loop {
            let command = Command::Leases { after, limit: LEASES_OF_PAGE };
            let answer = self.shards.ask(shard, command).await?;
            let Outcome::Leases { leases } = answer else { unreachable!("of leases") };
            let Some(last) = leases.last() else { return Ok(()) };
            after = last.id;
            let mut control = self.control.borrow_mut();
            leases.iter().for_each(|lease| control.recover(lease, self.now.get()));
        }
    }

    /// Looks how the ledger is, so that it is known before somebody bids. It may go on beside all else.
    pub async fn look_at_ledger(&self) {
        let seen = self.treasury.look().await;
        if seen == LedgerSeen::Untold {
            return;
        }
        self.is_ledger_other.set(matches!(seen, LedgerSeen::Other(_)));
        self.is_ledger_unremembered.set(matches!(seen, LedgerSeen::Unremembered(_)));
        match seen {
            LedgerSeen::Untold => {}
            LedgerSeen::Good => self.note_ledger(false),
            LedgerSeen::Unremembered(why) => {
                self.note_ledger(false);
                self.tell("what the ledger has settled last is not saved", &why);
            }
            LedgerSeen::Away(why) | LedgerSeen::Other(why) => {
                self.note_ledger(true);
                self.tell("no money of campaigns can be held", &why);
            }
        }
    }

    /// Gives back what the ledger holds for leases that nobody knows of: its log has more than that of the campaigns,
    /// behind a restore for instance. Where it has less, what is held stays held. Each account is looked at once, when
    /// a campaign of it is learned; one of which the ledger does not say it, or that has something for an operator to
    /// do, is looked at again in the next call. It may go on beside all else.
    pub async fn give_back_unknown(&self) {
        let (unlooked, mut is_ledger_older) = (self.control.borrow().unlooked(), false);
        for (account, campaigns) in unlooked {
            match self.give_back_unknown_of(&account).await {
                Ok(true) => self.control.borrow_mut().looked(&campaigns),
                Ok(false) => is_ledger_older = true,
                Err(why) => {
                    let what = format!("money that the ledger may hold of {account} for unknown leases stays held");
                    self.tell(&what, &why);
                }
            }
        }
        self.is_ledger_older.set(is_ledger_older);
    }

    /// The same of one account. Returns whether it has nothing of leases that are settled here.
    async fn give_back_unknown_of(&self, account: &str) -> Result<bool, String> {
        let held = self.treasury.held_of(account).await?;
        let UnknownHolds { of_other_log, forgotten } = self.control.borrow().unknown(held);
        self.tell_forgotten(account, &forgotten);
        let Some(first) = of_other_log.first() else { return Ok(forgotten.is_empty()) };
        for unknown in of_other_log.chunks(LEASES_OF_PAGE) {
            let settlement = |money: &Money| Settlement { money: money.clone(), spent: BudgetMicros::ZERO };
            for settled in self.treasury.settle(unknown.iter().map(settlement).collect()).await {
                if let Settled::Unknown(why) | Settled::Refused(why) = settled {
                    return Err(why);
                }
            }
        }
        let (leases, opened, amount) = (of_other_log.len(), first.opened, sum(&of_other_log));
        let what = format!("the ledger held {amount} of {account} for {leases} leases that nobody knows of");
        let why = format!("the log of campaigns is older: the first of them was opened at {}", opened.0);
        self.tell(&format!("{what}: it is given back"), &why);
        Ok(forgotten.is_empty())
    }

    /// Says what the ledger holds for leases that are settled here. What was won of them nobody knows any more, so an
    /// operator must look: given back, it could be spent again.
    fn tell_forgotten(&self, account: &str, forgotten: &[Money]) {
        let Some(first) = forgotten.first() else { return };
        let (leases, opened, amount) = (forgotten.len(), first.opened.0, sum(forgotten));
        let what = format!("the ledger holds {amount} of {account} for {leases} leases that are settled here");
        let why = format!(
            "the ledger is older than the log of campaigns, so that what was won of them is not paid there; the first \
             of them was opened at {opened}. They stay held: GET /v1/accounts/{account}/holds lists them. Put back the \
             right ledger, or move what is owed and void them, with ?id_space=tidegate.pacer"
        );
        self.tell(&what, &why);
    }

    /// Tells bidders what has changed, and hears from them.
    pub async fn round(&self) {
        if let Err(why) = self.follow().await {
            self.tell("changes of campaigns are not known", &why);
        }
        let now = self.now.get();
        if let Err(why) = self.ask_spending().await {
            self.tell("what campaigns have spent is not known", &why);
        }
        if now.0.saturating_sub(self.shown.get().0) >= SHOW_MS {
            self.shown.set(now);
            self.live.write().expect("nobody panics with it").extend(self.control.borrow_mut().live());
            self.stopped.set(self.control.borrow().stopped());
        }
        self.control.borrow_mut().pace(now);
        self.exchange().await;
        self.write_decisions();
    }

    fn write_decisions(&self) {
        let Some(record) = &self.record else { return };
        let (mut record, mut control) = (record.borrow_mut(), self.control.borrow_mut());
        let (writer, count) = &mut *record;
        let Some(log) = control.log() else { return };
        let lost = writer.write(log.take());
        if lost > 0 {
            log.lost(lost);
        }
        let (recorded, dropped) = log.take_counts();
        count(recorded, dropped);
    }

    /// Opens and holds leases that are wanted; retires those that nothing is bid on, and closes and settles those that
    /// are over.
    pub async fn move_money(&self) {
        if let Err(why) = self.open().await {
            self.tell("no money can be leased", &why);
        }
        self.hold().await;
        if let Err(why) = self.retire().await {
            self.tell("leases on which nothing is bid wait for their deadline", &why);
        }
        if let Err(why) = self.settle().await {
            self.tell("leases wait to be settled", &why);
        }
        if let Err(why) = self.forget_leases().await {
            self.tell("settled leases wait to be forgotten", &why);
        }
        if let Err(why) = self.forget().await {
            self.tell("ended campaigns wait to be forgotten", &why);
        }
    }

    fn all_shards(&self) -> impl Iterator<Item = ShardIndex> + use<S, B, T> {
        (0..self.shards.count()).map(ShardIndex)
    }

    async fn follow(&self) -> Result<(), String> {
        for shard in self.all_shards() {
            loop {
                let after = self.followed.borrow()[usize::from(shard.0)];
                let changed = self.shards.ask(shard, Command::Changed { after, limit: PAGE }).await?;
                let Outcome::Changed { campaigns, up_to } = changed else { unreachable!("of changes") };
                self.followed.borrow_mut()[usize::from(shard.0)] = up_to;
                // A page of large plans has few. Where plans change all the time, the rest comes in the next round.
                let bytes: usize = campaigns.iter().map(|campaign| campaign.plan.bytes()).sum();
                let is_last = campaigns.len() < PAGE && bytes < PAGE_BYTES_MAX;
                let mut control = self.control.borrow_mut();
                campaigns.into_iter().for_each(|view| control.learn(view));
                if is_last {
                    break;
                }
            }
        }
        Ok(())
    }

    async fn ask_spending(&self) -> Result<(), String> {
        let to_ask = self.control.borrow_mut().take_to_ask();
        for (shard, numbers) in self.by_shard(to_ask, |(number, _)| self.shard_of(*number)) {
            for campaigns in numbers.chunks(LEASES_OF_PAGE) {
                let command = Command::Spending { campaigns: campaigns.to_vec() };
                let Outcome::Spending(all) = self.shards.ask(shard, command).await? else {
                    unreachable!("of spending")
                };
                let mut control = self.control.borrow_mut();
                all.into_iter().for_each(|(number, spending)| control.learn_spending(number, spending));
            }
        }
        Ok(())
    }

    /// Which shard has a campaign.
    fn shard_of(&self, number: u32) -> ShardIndex {
        ShardIndex((number % u32::from(self.shards.count())) as u16)
    }

    fn by_shard<I>(&self, items: Vec<I>, shard_of: impl Fn(&I) -> ShardIndex) -> BTreeMap<ShardIndex, Vec<I>> {
        let mut all: BTreeMap<ShardIndex, Vec<I>> = BTreeMap::new();
        items.into_iter().for_each(|item| all.entry(shard_of(&item)).or_default().push(item));
        all
    }

    async fn exchange(&self) {
        let updates = self.control.borrow_mut().take_updates();
        let numbered = (0..self.workers).zip(updates);
        let asked: Vec<_> = numbered.map(|(worker, update)| self.bidders.exchange(worker, update)).collect();
        let mut newest = Vec::new();
        for (worker, asked) in (0..self.workers).zip(asked) {
            let report = asked.await;
            let mut control = self.control.borrow_mut();
            match report {
                Ok(report) => {
                    newest.push(report.now);
                    let now = report.now;
                    control.absorb(worker, report, now);
                }
                Err(update) => control.put_back(worker, update),
            }
        }
        // Of several workers, the one that is behind: what is over there is over everywhere.
        if newest.len() == usize::from(self.workers) {
            self.now.set(newest.into_iter().min().unwrap_or(self.now.get()).max(self.now.get()));
        }
    }

    async fn open(&self) -> Result<(), String> {
        let (unheard, mut failed) = (self.unheard.borrow().clone(), Ok(()));
        for shard in unheard {
            match self.recover_leases(shard).await {
                Ok(()) => drop(self.unheard.borrow_mut().remove(&shard)),
                Err(why) => failed = Err(why),
            }
        }
        let now = self.now.get();
        let mut wanted = self.control.borrow_mut().wanted(now);
        wanted.retain(|(worker, wanted)| {
            let mut control = self.control.borrow_mut();
            let is_uncounted = control.is_uncounted(wanted.campaign);
            if is_uncounted {
                control.not_counted(*worker, wanted.campaign, now);
            }
            !is_uncounted
        });
        let failed = RefCell::new(failed);
        for (shard, wanted) in self.by_shard(wanted, |(_, wanted)| self.shard_of(wanted.campaign)) {
            if let Err(why) = self.begin(shard).await {
                let mut control = self.control.borrow_mut();
                wanted.iter().for_each(|(worker, wanted)| control.not_opened(*worker, wanted.campaign, now));
                *failed.borrow_mut() = Err(why);
                continue;
            }
            self.pieces
                .of(&wanted, async |wanted| {
                    let asked: Vec<LeaseWanted> = wanted.iter().map(|(_, wanted)| *wanted).collect();
                    let opened = self.shards.ask(shard, Command::Open { wanted: asked }).await;
                    let mut control = self.control.borrow_mut();
                    match opened {
                        Ok(Outcome::Opened(opened)) => {
                            let each = wanted.iter().zip(opened);
                            each.for_each(|((worker, wanted), opened)| control.opened(*worker, *wanted, opened, now));
                        }
                        Ok(other) => unreachable!("leases were to be opened: {other:?}"),
                        Err(why) => {
                            // If it was done all the same, nobody bids with these leases: they are found and settled.
                            self.unheard.borrow_mut().insert(shard);
                            wanted
                                .iter()
                                .for_each(|(worker, wanted)| control.not_opened(*worker, wanted.campaign, now));
                            *failed.borrow_mut() = Err(why);
                        }
                    }
                })
                .await;
        }
        failed.into_inner()
    }

    /// Says once to a shard that this process opens leases from now on.
    async fn begin(&self, shard: ShardIndex) -> Result<(), String> {
        if !self.begun.borrow().contains(&shard) {
            self.shards.ask(shard, Command::Begin).await?;
            self.begun.borrow_mut().insert(shard);
        }
        Ok(())
    }

    async fn hold(&self) {
        let (money, is_away) = (self.control.borrow().to_hold(), Cell::new(false));
        if money.is_empty() {
            return;
        }
        self.pieces.of(&money, async |money| is_away.set(self.hold_piece(money).await || is_away.get())).await;
        self.note_ledger(is_away.get());
    }

    /// Returns whether the ledger did not say of some of it whether it is held.
    async fn hold_piece(&self, money: &[Money]) -> bool {
        let held = self.treasury.hold(money.to_vec()).await;
        let is_away = held.iter().any(|held| matches!(held, Held::Unknown(_)));
        let now = self.now.get();
        for (money, held) in money.iter().zip(held) {
            let (mut control, lease) = (self.control.borrow_mut(), &money.lease);
            match held {
                Held::Done => {
                    control.held(*lease, now);
                    self.tell_held(&control, money);
                }
                Held::Insufficient { available } => {
                    control.not_held(*lease, Stopped::NoFunds, available, now);
                    self.tell_held(&control, money);
                }
                Held::Refused(why) => {
                    control.not_held(*lease, Stopped::LedgerRefused, BudgetMicros::ZERO, now);
                    self.tell_not_held(&control, money, &why);
                }
                Held::Unknown(_) if is_planted(Bug::GrantedUnheld) => control.held(*lease, now),
                Held::Unknown(why) => {
                    control.unanswered(*lease, now);
                    self.tell("the ledger does not say whether money is held", &why);
                }
            }
        }
        is_away
    }

    /// Says when a ledger that was away answers again. What is wrong then is said anew.
    fn note_ledger(&self, is_away: bool) {
        if self.ledger_away.replace(is_away) && !is_away {
            tracing::info!("the ledger holds money of campaigns again");
            self.told.borrow_mut().forget();
        }
    }

    /// Says on which leases nothing is bid any more.
    async fn retire(&self) -> Result<(), String> {
        let (retired, failed) = (self.control.borrow().untold(), RefCell::new(Ok(())));
        for (shard, retired) in self.by_shard(retired, |retired: &RetiredLease| retired.lease.shard()) {
            self.pieces
                .of(&retired, async |retired| {
                    match self.shards.ask(shard, Command::Retire { leases: retired.to_vec() }).await {
                        Ok(_) => self.control.borrow_mut().told(retired),
                        Err(why) => *failed.borrow_mut() = Err(why),
                    }
                })
                .await;
        }
        failed.into_inner()
    }

    /// Forgets leases that the ledger was told of, when no notice of their bids can come any more.
    async fn forget_leases(&self) -> Result<(), String> {
        let (over, failed) = (self.control.borrow().over(self.now.get()), RefCell::new(Ok(())));
        for (shard, over) in self.by_shard(over, |lease| lease.shard()) {
            self.pieces
                .of(&over, async |over| match self.shards.ask(shard, Command::Settle { leases: over.to_vec() }).await {
                    Ok(_) => self.control.borrow_mut().settled(over),
                    Err(why) => *failed.borrow_mut() = Err(why),
                })
                .await;
        }
        failed.into_inner()
    }

    async fn forget(&self) -> Result<(), String> {
        let over = self.control.borrow_mut().take_ended();
        if !over.is_empty() {
            self.live.write().expect("nobody panics with it").retain(|number, _| !over.contains(number));
        }
        for (shard, campaigns) in self.by_shard(over, |number| self.shard_of(*number)) {
            // If it fails, the next start forgets them.
            self.shards.ask(shard, Command::Forget { campaigns }).await?;
        }
        Ok(())
    }

    /// Says that the ledger holds no money of a campaign. What is wrong may be either account.
    fn tell_not_held(&self, control: &Control, money: &Money, why: &str) {
        let Money { lease, account, spend, .. } = money;
        let campaign = control.campaign_of(*lease);
        let what = format!("campaign {campaign}: the ledger holds no money of {account} for {spend}");
        self.say(about(control, *lease), format!("{what}: {why}"), || tracing::warn!(why, "{what}"));
    }

    /// Says that the ledger takes the accounts of a campaign, if it was said that it does not.
    fn tell_held(&self, control: &Control, money: &Money) {
        if self.told.borrow_mut().is_over(about(control, money.lease)) {
            tracing::info!("campaign {}: the ledger takes its accounts again", control.campaign_of(money.lease));
        }
    }

    /// Says something, once for as long as it goes on.
    fn tell(&self, what: &str, why: &str) {
        self.say(About::Others, format!("{what}: {why}"), || tracing::warn!(why, "{what}"));
    }

    /// Says something, if it was not said lately.
    fn say(&self, about: About, what: String, say: impl FnOnce()) {
        let mut told = self.told.borrow_mut();
        if told.is_new(about, what, self.now.get()) {
            say();
            if told.is_full() {
                tracing::warn!(
                    "so much goes wrong that the rest is not said for some minutes; metrics count all of it"
                );
            }
        }
    }
}

fn sum(money: &[Money]) -> BudgetMicros {
    money.iter().fold(BudgetMicros::ZERO, |sum, money| sum + money.amount)
}

/// The money of the campaign that has a lease.
fn about(control: &Control, lease: LeaseId) -> About {
    control.number_of(lease).map_or(About::Others, About::Campaign)
}
