//! Announces which accounts have new balances, to those who want to hear it, at a bounded rate per account.
//!
//! ```text
//!   want(account or all) ─▶ wanted ──┐
//!   append ─▶ note(event) ─▶ touched ┴▶ take(now) ─▶ figures ─▶ CommitQueue ─▶ whoever announces them
//!                              ▲            │
//!                              └── cooling ◀┘  not announced again within the interval;
//!                                              it meanwhile is announced once, at its end
//! ```
//!
//! Promise: the latest balances of every account that somebody wants and the rules allow are announced within one
//! interval of the change; balances in between only as often as the interval allows. The first change after a quiet
//! interval is announced at once, so a single vote is seen within milliseconds. A hundred thousand votes a second for
//! one candidate cost one announcement per interval. Whoever begins to want an account hears its figures as they are,
//! and each announcement says whether it is only that ([`News`]): MQTT has subscriptions that hear changes alone.
//!
//! Why only wanted ones: with `announce = ["wallet:*"]` and ten million wallets, of which some thousand have a listener
//! at a time, figures for all of them doubled what an account costs. Memory is that of accounts which are wanted by
//! name, and of those that changed within an interval.

use std::collections::VecDeque;

use hashbrown::{HashMap, HashSet};
use tidegate_machines::TimeMs;
use tidegate_machines::ledger::{AccountSlot, AccountView, Event, Ledger};

use crate::limits::ANNOUNCEMENTS_PER_STEP;

/// Which accounts are announced, and how often.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct AnnounceRules {
    /// Account ids, or beginnings of ids that end with `*`.
    pub accounts: Vec<Box<str>>,
    /// Shortest time between two announcements of one account.
    pub interval_ms: u64,
}

impl AnnounceRules {
    fn matches(&self, id: &str) -> bool {
        self.accounts.iter().any(|pattern| match pattern.strip_suffix('*') {
            Some(beginning) => id.starts_with(beginning),
            None => **pattern == *id,
        })
    }
}

/// What somebody wants to hear of, or does not any more.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Want {
    /// One account, or all that the rules allow.
    pub account: Option<Box<str>>,
    /// Whether anybody does.
    pub is_wanted: bool,
}

/// Why figures are announced.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum News {
    /// Somebody has begun to want them; since they were announced last, if they were, nothing is known to have changed.
    Told,
    /// The account was touched since then.
    Changed,
}

/// Figures to announce.
#[derive(Clone, Debug, PartialEq)]
pub struct Announcement {
    /// The account with its figures.
    pub account: AccountView,
    /// Why.
    pub news: News,
}

/// The life of an account here. One that is quiet is not kept.
///
/// ```text
///   quiet ─touched─▶ Touched ─announced─▶ Cooling ─touched─▶ Stirred ─interval over─▶ Touched
///                                            └─interval over─▶ quiet
/// ```
///
/// Who is told of it touches it as well; what changes meanwhile makes it a change.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Life {
    Touched(News),
    Cooling,
    Stirred(News),
}

/// The announcer of one shard.
#[derive(Debug)]
pub struct Announcer {
    rules: AnnounceRules,
    /// All that the rules allow are wanted.
    all: bool,
    /// Of all, those below this slot were announced once.
    reached: u32,
    /// Those wanted by name, and of them those that are here.
    ids: HashSet<Box<str>>,
    slots: HashSet<AccountSlot, foldhash::fast::RandomState>,
    lives: HashMap<AccountSlot, Life, foldhash::fast::RandomState>,
    touched: VecDeque<AccountSlot>,
    /// In the order in which they were announced, with the end of their interval.
    cooling: VecDeque<(TimeMs, AccountSlot)>,
}

impl Announcer {
    /// An announcer of which nobody wants anything yet.
    pub fn new(rules: AnnounceRules) -> Announcer {
        Announcer {
            rules,
            all: false,
            reached: 0,
            ids: HashSet::new(),
            slots: HashSet::default(),
            lives: HashMap::default(),
            touched: VecDeque::new(),
            cooling: VecDeque::new(),
        }
    }

    /// Somebody wants an account, or nobody does any more. Those who begin to want are told the figures of now; to want
    /// again is to be told again.
    pub fn want(&mut self, want: &Want, ledger: &Ledger) {
        match (&want.account, want.is_wanted) {
            (None, is_wanted) => (self.all, self.reached) = (is_wanted, 0),
            (Some(id), true) if self.rules.matches(id) => {
                self.ids.insert(id.clone());
                if let Some(slot) = ledger.slot(id) {
                    self.slots.insert(slot);
                    self.touch(slot, News::Told);
                }
            }
            (Some(_), true) => {}
            (Some(id), false) => {
                self.ids.remove(id);
                if let Some(slot) = ledger.slot(id) {
                    self.slots.remove(&slot);
                }
            }
        }
    }

    /// An event was applied to `ledger`.
    #[inline]
    pub fn note(&mut self, event: &Event<'_>, ledger: &Ledger) {
        if !self.all && self.ids.is_empty() {
            return;
        }
        if let Event::AccountOpened { slot, id, .. } | Event::AccountAdopted { slot, id, .. } = *event
            && self.ids.contains(id)
        {
            self.slots.insert(slot);
        }
        for slot in event.touched().into_iter().flatten() {
            assert!(slot.0 < ledger.slots(), "an account that is touched is there");
            if self.is_wanted(slot, ledger) {
                self.touch(slot, News::Changed);
            }
        }
    }

    fn is_wanted(&self, slot: AccountSlot, ledger: &Ledger) -> bool {
        let is_allowed = || ledger.id_at(slot).is_some_and(|id| self.rules.matches(id));
        self.slots.contains(&slot) || self.all && is_allowed()
    }

    fn touch(&mut self, slot: AccountSlot, news: News) {
        match self.lives.get_mut(&slot) {
            None => {
                self.lives.insert(slot, Life::Touched(news));
                self.touched.push_back(slot);
            }
            Some(life @ Life::Cooling) => *life = Life::Stirred(news),
            Some(Life::Touched(known) | Life::Stirred(known)) => *known = news.max(*known),
        }
    }

    /// The figures to announce now, at most [`ANNOUNCEMENTS_PER_STEP`]; empty when there is nothing.
    pub fn take(&mut self, now: TimeMs, ledger: &Ledger) -> Vec<Announcement> {
        self.end_intervals(now);
        self.go_through_all(ledger);
        let count = self.touched.len().min(ANNOUNCEMENTS_PER_STEP);
        let until = TimeMs(now.0.saturating_add(self.rules.interval_ms));
        let mut announcements = Vec::with_capacity(count);
        for _ in 0..count {
            let slot = self.touched.pop_front().expect("counted above");
            let life = self.lives.get(&slot).copied();
            let Some(Life::Touched(news)) = life else { panic!("who is listed as touched is {life:?}") };
            if !self.is_wanted(slot, ledger) {
                self.lives.remove(&slot);
                continue;
            }
            self.lives.insert(slot, Life::Cooling);
            self.cooling.push_back((until, slot));
            announcements.extend(ledger.figures_at(slot).map(|account| Announcement { account, news }));
        }
        assert!(announcements.len() <= ANNOUNCEMENTS_PER_STEP, "a step announces some");
        announcements
    }

    /// Whether accounts wait for a step to announce them for the first time.
    pub fn is_behind(&self, ledger: &Ledger) -> bool {
        self.all && self.reached < ledger.slots() || self.touched.len() > ANNOUNCEMENTS_PER_STEP
    }

    fn end_intervals(&mut self, now: TimeMs) {
        while let Some((until, slot)) = self.cooling.front().copied() {
            if until > now {
                break;
            }
            self.cooling.pop_front();
            match self.lives.remove(&slot) {
                Some(Life::Cooling) => {}
                Some(Life::Stirred(news)) => self.touch(slot, news),
                other => panic!("who is listed as cooling is {other:?}"),
            }
        }
    }

    /// Whoever wants all is told of all, some in each step.
    fn go_through_all(&mut self, ledger: &Ledger) {
        if !self.all || self.reached == ledger.slots() || self.touched.len() >= ANNOUNCEMENTS_PER_STEP {
            return;
        }
        let end = ledger.slots().min(self.reached + ANNOUNCEMENTS_PER_STEP as u32);
        for slot in (self.reached..end).map(AccountSlot) {
            let (.., is_here) = ledger.facts_at(slot).expect("slots have no gap");
            if is_here && self.is_wanted(slot, ledger) {
                self.touch(slot, News::Told);
            }
        }
        self.reached = end;
    }

    /// Accounts that memory is used for.
    #[cfg(test)]
    pub fn remembered(&self) -> usize {
        self.ids.len() + self.slots.len() + self.lives.len()
    }
}

#[cfg(test)]
mod tests;
