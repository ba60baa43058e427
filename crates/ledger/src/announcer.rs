//! Announces which accounts have new balances, at a bounded rate per account.
//!
//! ```text
//!   append ─▶ note(event) ─▶ touched ─▶ take(now) ─▶ figures ─▶ CommitQueue ─▶ whoever announces them
//!                              ▲            │
//!                              └── cooling ◀┘  not announced again within the interval;
//!                                              it meanwhile is announced once, at its end
//! ```
//!
//! Promise: the latest balances of every matching account are announced within one interval of the change; balances in
//! between only as often as the interval allows. The first change after a quiet interval is announced at once, so a
//! single vote is seen within milliseconds. A hundred thousand votes a second for one candidate cost one announcement
//! per interval.

use std::collections::VecDeque;

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

/// The life of an account here.
///
/// ```text
///   Unknown ─touched─▶ Silent                        (no rule names it)
///      └─touched─▶ Touched ─announced─▶ Cooling ─touched─▶ Stirred ─interval over─▶ Touched
///                     ▲                    └─interval over─▶ Quiet ─touched─▶ Touched
/// ```
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
enum Life {
    #[default]
    Unknown,
    Silent,
    Quiet,
    Touched,
    Cooling,
    Stirred,
}

/// The announcer of one shard.
#[derive(Debug)]
pub struct Announcer {
    rules: AnnounceRules,
    lives: Vec<Life>,
    touched: VecDeque<AccountSlot>,
    /// In the order in which they were announced, with the end of their interval.
    cooling: VecDeque<(TimeMs, AccountSlot)>,
}

impl Announcer {
    /// An announcer that will announce every matching account of `ledger` once, because its hearers start with nothing.
    pub fn new(rules: AnnounceRules, ledger: &Ledger) -> Announcer {
        let mut announcer = Announcer { rules, lives: Vec::new(), touched: VecDeque::new(), cooling: VecDeque::new() };
        for slot in 0..ledger.slots() {
            announcer.touch(AccountSlot(slot), ledger);
        }
        announcer
    }

    /// An event was applied to `ledger`.
    pub fn note(&mut self, event: &Event<'_>, ledger: &Ledger) {
        for slot in event.touched().into_iter().flatten() {
            self.touch(slot, ledger);
        }
    }

    fn touch(&mut self, slot: AccountSlot, ledger: &Ledger) {
        assert!(slot.0 < ledger.slots(), "an account that is touched is there");
        let index = slot.0 as usize;
        if index >= self.lives.len() {
            self.lives.resize(index + 1, Life::Unknown);
        }
        let life = match self.lives[index] {
            Life::Unknown => match ledger.figures_at(slot) {
                Some(account) if self.rules.matches(&account.id) => Life::Touched,
                _ => Life::Silent,
            },
            Life::Quiet => Life::Touched,
            Life::Cooling => Life::Stirred,
            settled @ (Life::Silent | Life::Touched | Life::Stirred) => settled,
        };
        if life == Life::Touched && self.lives[index] != Life::Touched {
            self.touched.push_back(slot);
        }
        self.lives[index] = life;
    }

    /// The figures to announce now, at most [`ANNOUNCEMENTS_PER_STEP`]; empty when there is nothing.
    pub fn take(&mut self, now: TimeMs, ledger: &Ledger) -> Vec<AccountView> {
        while let Some((until, slot)) = self.cooling.front().copied() {
            if until > now {
                break;
            }
            self.cooling.pop_front();
            let life = &mut self.lives[slot.0 as usize];
            assert!(matches!(life, Life::Cooling | Life::Stirred), "who is listed as cooling is");
            if *life == Life::Stirred {
                *life = Life::Touched;
                self.touched.push_back(slot);
            } else {
                *life = Life::Quiet;
            }
        }
        let count = self.touched.len().min(ANNOUNCEMENTS_PER_STEP);
        let until = TimeMs(now.0.saturating_add(self.rules.interval_ms));
        let mut views = Vec::with_capacity(count);
        for slot in self.touched.drain(..count) {
            assert!(self.lives[slot.0 as usize] == Life::Touched, "who is listed as touched is");
            self.lives[slot.0 as usize] = Life::Cooling;
            self.cooling.push_back((until, slot));
            views.extend(ledger.figures_at(slot));
        }
        assert!(views.len() <= ANNOUNCEMENTS_PER_STEP, "a step announces some");
        views
    }
}
