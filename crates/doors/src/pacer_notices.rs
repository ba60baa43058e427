//! Notices of wins and losses, for all doors: tokens are checked, and each bid goes to the shard of its lease.
//!
//! ```text
//!   tokens, prices ─▶ Notices: an outcome, or a place in the command for a shard ─▶ answers ─▶ outcomes, in order
//! ```
//!
//! Invariant: nothing here waits. A door asks the shards as it can.

use tidegate_machines::{ShardIndex, TimeMs};
use tidegate_pacer::family::CampaignRequest;
use tidegate_pacer::machine::{Command, LeaseId, LossOutcome, Outcome, Win, WinOutcome};
use tidegate_pacer::token::{Bid, TokenKey};
use tidegate_pacer::units::PriceMicros;
use tidegate_telemetry::metrics;
use tidegate_wire::pacer::NoticeOutcome;

metrics! {
    /// What became of notices. Each door and each of its threads has its own.
    #[derive(Clone)]
    pub struct NoticeMetrics() {
        wins: SharedCounterFamily(outcome: "taken" "duplicate" "late" "token_invalid" "price_above_bid" "lost")
            "tidegate_pacer_win_notices_total"
            "Notices of wins by what became of them: `taken` ones are paid, `duplicate` ones were before. Nobody pays \
             for others: `late` ones came behind the deadline, or when their lease was closed; `token_invalid` ones \
             are of a server that is no [[pacing.peer]], of a timeline that a restore has ended, or forged; `lost` was \
             said before. Each is counted where its bid was made, or where it came if nobody has made it; what of \
             OpenRTB cannot be read, or costs more than was bid, is in none.";
        losses: SharedCounterFamily(outcome: "taken" "duplicate" "late" "token_invalid" "won")
            "tidegate_pacer_loss_notices_total" "Notices of losses, likewise; `won` bids stay so.";
    }
}

/// What notices are of.
#[derive(Clone, Copy)]
pub enum Kind {
    /// Bids have won.
    Wins,
    /// They have lost.
    Losses,
}

/// Notices of one request.
pub struct Notices {
    kind: Kind,
    /// In their order. Those that a shard judges are unspecified until [`Notices::judged`].
    outcomes: Vec<NoticeOutcome>,
    /// Where in `outcomes` stands what each of the shards is asked.
    places: Vec<Vec<usize>>,
    /// Shards that were asked and have not answered.
    waiting: usize,
}

/// Who signed the tokens of bids.
pub struct Issuer<'a> {
    /// The key.
    pub tokens: &'a TokenKey,
    /// How many shards there are.
    pub shards: u16,
    /// The time that bids get now: what comes is in time by it.
    pub now: TimeMs,
}

impl Issuer<'_> {
    /// The bid of a token.
    fn bid(&self, token: &[u8]) -> Result<Bid, NoticeOutcome> {
        let bid = self.tokens.open(token).filter(|bid| bid.lease.shard().0 < self.shards);
        bid.ok_or(NoticeOutcome::TokenInvalid)
    }

    /// Bids have won, at these prices. Also returns what is to be asked, in the order of [`Notices::judged`].
    pub fn wins<T: AsRef<[u8]>>(
        &self,
        wins: impl Iterator<Item = (T, PriceMicros)>,
    ) -> (Notices, Vec<CampaignRequest>) {
        let checked = wins.map(|(token, price)| {
            let bid = self.bid(token.as_ref())?;
            if price > bid.price { Err(NoticeOutcome::PriceAboveBid) } else { Ok(bid.won(price, self.now)) }
        });
        Notices::sort(Kind::Wins, checked, |win: &Win| win.bid.lease, |wins| Command::Win { wins })
    }

    /// Bids were lost.
    pub fn losses<T: AsRef<[u8]>>(&self, losses: impl Iterator<Item = T>) -> (Notices, Vec<CampaignRequest>) {
        let checked = losses.map(|token| self.bid(token.as_ref()));
        Notices::sort(Kind::Losses, checked, |bid: &Bid| bid.lease, |bids| Command::Lose { bids })
    }
}

impl Notices {
    fn sort<N>(
        kind: Kind,
        checked: impl Iterator<Item = Result<N, NoticeOutcome>>,
        lease_of: fn(&N) -> LeaseId,
        command: fn(Vec<N>) -> Command,
    ) -> (Notices, Vec<CampaignRequest>) {
        let mut outcomes = Vec::with_capacity(checked.size_hint().0);
        let mut of_shards: Vec<(ShardIndex, Vec<N>, Vec<usize>)> = Vec::new();
        for (at, notice) in checked.enumerate() {
            outcomes.push(*notice.as_ref().err().unwrap_or(&NoticeOutcome::Unspecified));
            let Ok(notice) = notice else { continue };
            let shard = lease_of(&notice).shard();
            match of_shards.iter_mut().find(|(of, ..)| *of == shard) {
                Some((_, notices, places)) => {
                    notices.push(notice);
                    places.push(at);
                }
                None => of_shards.push((shard, vec![notice], vec![at])),
            }
        }
        let (mut asked, mut places) = (Vec::new(), Vec::new());
        for (shard, notices, of_shard) in of_shards {
            asked.push(CampaignRequest { shard, command: command(notices) });
            places.push(of_shard);
        }
        (Notices { kind, outcomes, waiting: places.len(), places }, asked)
    }

    /// What a shard has answered: the one that was to be asked first has number 0.
    pub fn judged(&mut self, number: usize, outcome: Outcome) {
        let outcomes: Vec<NoticeOutcome> = match outcome {
            Outcome::Won(outcomes) => outcomes.into_iter().map(of_win).collect(),
            Outcome::Lost(outcomes) => outcomes.into_iter().map(of_loss).collect(),
            other => unreachable!("notices are judged: {other:?}"),
        };
        let places = &self.places[number];
        assert_eq!(places.len(), outcomes.len(), "each notice is judged");
        places.iter().zip(outcomes).for_each(|(at, outcome)| self.outcomes[*at] = outcome);
        self.waiting -= 1;
    }

    /// A shard does not answer: what became of its notices is unknown.
    pub fn failed(&mut self) {
        self.waiting -= 1;
    }

    /// Whether all shards have answered, or do not.
    pub fn is_whole(&self) -> bool {
        self.waiting == 0
    }

    /// What this server says of them.
    pub fn into_judged(self) -> Judged {
        assert!(self.waiting == 0, "all shards were heard");
        Judged { kind: self.kind, outcomes: self.outcomes }
    }
}

/// Notices of one request, with what became of them.
pub struct Judged {
    kind: Kind,
    /// In their order.
    outcomes: Vec<NoticeOutcome>,
}

impl Judged {
    /// Those whose bids nobody has made so far as is known.
    pub fn unknown(&self) -> Vec<usize> {
        let is_unknown =
            |(at, outcome): (usize, &NoticeOutcome)| (*outcome == NoticeOutcome::TokenInvalid).then_some(at);
        self.outcomes.iter().enumerate().filter_map(is_unknown).collect()
    }

    /// Another server has said what became of one of them: it counts that.
    pub fn learn(&mut self, at: usize, outcome: NoticeOutcome) {
        if self.outcomes[at] == NoticeOutcome::TokenInvalid {
            self.outcomes[at] = outcome;
        }
    }

    /// Counts those whose bids were made here.
    pub fn count_own(&self, metrics: &NoticeMetrics) {
        let own = self.outcomes.iter().filter(|outcome| **outcome != NoticeOutcome::TokenInvalid);
        own.for_each(|outcome| metrics.count(self.kind, *outcome));
    }

    /// Counts those whose bids nobody has made.
    pub fn count_unknown(&self, metrics: &NoticeMetrics) {
        self.unknown().iter().for_each(|_| metrics.count(self.kind, NoticeOutcome::TokenInvalid));
    }

    /// The outcomes, in the order of the notices.
    pub fn into_outcomes(self) -> Vec<NoticeOutcome> {
        self.outcomes
    }
}

impl NoticeMetrics {
    /// Counts a notice.
    pub fn count(&self, kind: Kind, outcome: NoticeOutcome) {
        let counted = match kind {
            Kind::Wins => &self.wins,
            Kind::Losses => &self.losses,
        };
        counted.increment(name_of(outcome));
    }
}

/// What became of a win.
const fn of_win(outcome: WinOutcome) -> NoticeOutcome {
    match outcome {
        WinOutcome::Taken => NoticeOutcome::Taken,
        WinOutcome::Duplicate => NoticeOutcome::Duplicate,
        WinOutcome::Lost => NoticeOutcome::Lost,
        WinOutcome::Late => NoticeOutcome::Late,
        // The lease has not so much: the token is one that this server has not made.
        WinOutcome::Unfunded => NoticeOutcome::TokenInvalid,
    }
}

/// What became of a loss.
const fn of_loss(outcome: LossOutcome) -> NoticeOutcome {
    match outcome {
        LossOutcome::Taken => NoticeOutcome::Taken,
        LossOutcome::Duplicate => NoticeOutcome::Duplicate,
        LossOutcome::Won => NoticeOutcome::Won,
        LossOutcome::Late => NoticeOutcome::Late,
        LossOutcome::Unfunded => NoticeOutcome::TokenInvalid,
    }
}

/// The outcome of this name in JSON.
pub fn named(name: &str) -> Option<NoticeOutcome> {
    let all = [
        NoticeOutcome::Taken,
        NoticeOutcome::Duplicate,
        NoticeOutcome::Late,
        NoticeOutcome::TokenInvalid,
        NoticeOutcome::PriceAboveBid,
        NoticeOutcome::Lost,
        NoticeOutcome::Won,
    ];
    all.into_iter().find(|outcome| name_of(*outcome) == name)
}

/// How an outcome is named in JSON.
pub const fn name_of(outcome: NoticeOutcome) -> &'static str {
    match outcome {
        NoticeOutcome::Taken => "taken",
        NoticeOutcome::Duplicate => "duplicate",
        NoticeOutcome::Late => "late",
        NoticeOutcome::TokenInvalid => "token_invalid",
        NoticeOutcome::PriceAboveBid => "price_above_bid",
        NoticeOutcome::Lost => "lost",
        NoticeOutcome::Won => "won",
        NoticeOutcome::Unspecified => panic!("every notice was judged"),
    }
}
