//! What becomes of wills: which are owed, which may come, and which must never come.
//!
//! ```text
//!   Unanswered ──CONNACK──▶ Standing ──gone──▶ Pending ──its delay has surely passed, or its session ends──▶ Owed
//!        │                     │  └─no delay────────┼────────────────────────────────────────────────────────▲
//!        │                     └──DISCONNECT 0x00───┼──back before its delay can have passed──▶ TakenBack
//!        └─ gone ──▶ Open ◀──── nobody knows ───────┘
//! ```
//!
//! Why some are open: a client does not learn whether its DISCONNECT or its CONNECT arrived, nor, where its clock and
//! the server's may differ, whether a delay was over when it came back. Such a will may come or not.
//!
//! Why it matters who keeps one: a DISCONNECT has no answer, and a session that ends with its connection has no record.
//! What is not durable when the process ends is open from then on. A CONNECT waits until all have the will that its
//! session has on record, but not for ever: what is answered soon has lost nobody's will.

use std::collections::BTreeMap;

use tidegate_broker::limits::WILL_WAIT_MS;

use super::{ClientIndex, MessageName};
use crate::violation::{Violation, must};

/// A process's time goes on by so much in twenty at least.
const SLOWEST_IN_TWENTY: u64 = 19;
/// And by so much at most.
const FASTEST_IN_TWENTY: u64 = 21;
/// Beyond that, a process may take so long to do what is due, in milliseconds.
const SLACK_MS: u64 = 100;

/// A CONNECT that is answered within so many milliseconds has not been told to wait no longer: a process's time goes on
/// by so much in twenty at most.
const SURELY_WAITS_MS: u64 = WILL_WAIT_MS * 20 / FASTEST_IN_TWENTY - SLACK_MS;

/// How a connection ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Parting {
    /// The client said DISCONNECT 0x00, and the server has closed the connection behind it.
    Said,
    /// It said DISCONNECT 0x00, or something that may be taken for anything, and nobody knows whether it arrived.
    Unknown,
    /// Without it, or with another reason. Whether the server knows that the connection is gone.
    Cut {
        /// Whether it does.
        is_heard: bool,
    },
    /// By the server, some time before the client noticed.
    SentAway,
    /// With the process.
    ProcessEnded,
}

impl Parting {
    /// How a connection ends when the process does, which may have closed it before.
    pub const fn of_process(was_closed: bool) -> Parting {
        if was_closed { Parting::SentAway } else { Parting::ProcessEnded }
    }
}

/// What becomes of one will.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Fate {
    /// It was left with a CONNECT that was not answered.
    Unanswered,
    /// Its client is connected.
    Standing {
        /// How old anything could be when it was told so.
        since_aged_ms: u64,
    },
    /// Its client is gone, and it is sent when its delay has passed.
    Pending {
        /// How old anything could be when its client went.
        gone_aged_ms: u64,
        /// Since when the process of now surely knows, in milliseconds since the host was started.
        known_ms: Option<u64>,
    },
    /// A CONNECT that ends its session, and so its delay, was not answered yet. The server may send it, and end the
    /// session when all have it, or at this time.
    Ending {
        /// In milliseconds since the host was started.
        until_ms: u64,
    },
    /// It must come.
    Owed(Kept),
    /// It must not come.
    TakenBack {
        /// Even if the process ends.
        is_durable: bool,
    },
    /// It may come.
    Open,
}

/// Who keeps a will that must come.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Kept {
    /// The process.
    InProcess,
    /// The record of its session, or all who are owed it.
    OnRecord,
    /// The same until then; later a CONNECT that was sent may have replaced the record, and only the process keep it.
    OnRecordUntil {
        /// In milliseconds since the host was started.
        ms: u64,
    },
    /// All who are owed it.
    ByAll,
}

impl Kept {
    /// A CONNECT of its client is about to be sent.
    fn connecting(self, now: Now) -> Kept {
        match self {
            Kept::OnRecord => Kept::OnRecordUntil { ms: now.since_boot_ms + SURELY_WAITS_MS },
            // The one before may have arrived.
            kept => kept,
        }
    }

    /// That was answered.
    fn connected(self, now: Now) -> Kept {
        match self {
            Kept::OnRecordUntil { ms } if now.since_boot_ms < ms => Kept::ByAll,
            Kept::OnRecordUntil { .. } => Kept::InProcess,
            kept => kept,
        }
    }

    /// What is left of it when the process ends.
    fn after_process(self, now: Now) -> Option<Kept> {
        match self {
            Kept::InProcess => None,
            Kept::OnRecordUntil { ms } => (now.since_boot_ms < ms).then_some(Kept::OnRecord),
            kept => Some(kept),
        }
    }
}

/// A will and what is known of it.
#[derive(Clone, Copy, Debug)]
struct Will {
    delay_s: u64,
    /// Its session outlives the connection.
    is_durable: bool,
    /// The server may have ended the connection, though the client has not noticed.
    may_be_over: bool,
    fate: Fate,
}

/// The time, as an oracle knows it.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Now {
    /// Since the host was started, in milliseconds.
    pub since_boot_ms: u64,
    /// How old anything may have become by the server's time at most, in milliseconds.
    pub aged_ms: u64,
}

/// How often each fate was met, where it is no accident.
#[derive(Clone, Copy, Debug, Default)]
pub struct WillCounts {
    /// Owed.
    pub owed: u64,
    /// Owed, of these, after a delay.
    pub delayed: u64,
    /// Owed, of these, whose client came back, and was let in when all had it.
    pub waited_for: u64,
    /// Due at once when a connection ended, owed or not.
    pub at_once: u64,
    /// Taken back by DISCONNECT.
    pub said: u64,
    /// Taken back by who came back in time.
    pub resumed: u64,
}

/// All wills of a run.
#[derive(Debug, Default)]
pub(super) struct Wills {
    wills: BTreeMap<MessageName, Will>,
    pub counts: WillCounts,
}

impl Wills {
    /// A will is left with a CONNECT.
    pub fn left(&mut self, name: MessageName, delay_s: u64, is_durable: bool) {
        self.wills.insert(name, Will { delay_s, is_durable, may_be_over: false, fate: Fate::Unanswered });
    }

    /// Whether it is one.
    pub fn is_will(&self, name: MessageName) -> bool {
        self.wills.contains_key(&name)
    }

    /// Whether it must come.
    pub fn is_owed(&self, name: MessageName) -> bool {
        self.wills.get(&name).is_some_and(|will| matches!(will.fate, Fate::Owed(_)))
    }

    /// Whether a will of this client waits for its delay.
    pub fn is_pending(&self, client: ClientIndex) -> bool {
        let mut own = self.wills.range((client, 0)..=(client, u64::MAX));
        own.any(|(_, will)| matches!(will.fate, Fate::Pending { .. }))
    }

    /// CONNECT is about to be sent: what is surely due by now is sent before it is answered. `is_clean`: it ends the
    /// session of before, if that is there.
    pub fn connecting(&mut self, client: ClientIndex, is_clean: bool, now: Now) {
        for (_, will) in self.wills.range_mut((client, 0)..=(client, u64::MAX)) {
            let known_ms = match &mut will.fate {
                Fate::Pending { known_ms, .. } => *known_ms,
                Fate::Owed(kept) => {
                    *kept = kept.connecting(now);
                    continue;
                }
                _ => continue,
            };
            let longest_ms = will.delay_s * 1_000 * 20 / SLOWEST_IN_TWENTY + SLACK_MS;
            if known_ms.is_some_and(|known_ms| now.since_boot_ms >= known_ms + longest_ms) {
                will.fate = Fate::Owed(Kept::OnRecord.connecting(now));
                self.counts.owed += 1;
                self.counts.delayed += 1;
            } else if is_clean {
                will.fate = Fate::Ending { until_ms: now.since_boot_ms + SURELY_WAITS_MS };
            }
        }
    }

    /// CONNACK came. `is_resumed`: with the session of before.
    pub fn connected(&mut self, client: ClientIndex, is_resumed: bool, now: Now) {
        for (_, will) in self.wills.range_mut((client, 0)..=(client, u64::MAX)) {
            will.fate = match will.fate {
                Fate::Unanswered => Fate::Standing { since_aged_ms: now.aged_ms },
                Fate::Pending { gone_aged_ms, .. } if is_resumed => {
                    // In time, whatever the clock of the server says.
                    if now.aged_ms < gone_aged_ms + will.delay_s * 1_000 {
                        self.counts.resumed += 1;
                        Fate::TakenBack { is_durable: true }
                    } else {
                        Fate::Open
                    }
                }
                // The end of a session is the end of the delay.
                Fate::Ending { until_ms: ms } => {
                    self.counts.owed += 1;
                    Fate::Owed(Kept::OnRecordUntil { ms }.connected(now))
                }
                Fate::Pending { .. } => Fate::Open,
                Fate::Owed(kept) => {
                    let after = kept.connected(now);
                    self.counts.waited_for += u64::from(after != kept && after == Kept::ByAll);
                    Fate::Owed(after)
                }
                fate => fate,
            };
        }
    }

    /// The server may have ended the connection of this client, who has not noticed. Gives the will that may be on its
    /// way from now on.
    pub fn may_be_over(&mut self, client: ClientIndex) -> Option<MessageName> {
        let mut begins = None;
        for (name, will) in self.wills.range_mut((client, 0)..=(client, u64::MAX)) {
            let was_so = std::mem::replace(&mut will.may_be_over, true);
            let is_standing = matches!(will.fate, Fate::Standing { .. });
            begins = (is_standing && !was_so).then_some(*name).or(begins);
        }
        begins
    }

    /// Whether a will may have been sent before its client noticed that the connection was over.
    pub fn may_be_sent_before(&self, name: MessageName) -> bool {
        self.wills.get(&name).is_some_and(|will| will.may_be_over)
    }

    /// The connection of this client has ended. Gives the will that is to be sent, now or later, if there is one.
    pub fn gone(&mut self, client: ClientIndex, parting: Parting, now: Now) -> Option<MessageName> {
        let mut due = None;
        for (name, will) in self.wills.range_mut((client, 0)..=(client, u64::MAX)) {
            let fate = match will.fate {
                Fate::Standing { since_aged_ms } => will.parted(parting, since_aged_ms, now),
                // The CONNECT may have arrived or not, and have done what it does or not.
                Fate::Unanswered | Fate::Pending { .. } | Fate::Ending { .. } => Fate::Open,
                fate => fate,
            };
            if matches!(will.fate, Fate::Standing { .. }) {
                self.counts.owed += u64::from(matches!(fate, Fate::Owed(_)));
                self.counts.said += u64::from(matches!(fate, Fate::TakenBack { .. }));
                let is_due = matches!(fate, Fate::Owed(_) | Fate::Pending { .. });
                due = is_due.then_some(*name).or(due);
                self.counts.at_once += u64::from(is_due && will.delay_s == 0);
            }
            will.fate = fate;
        }
        due
    }

    /// All that the process was told is durable.
    pub fn all_is_durable(&mut self) {
        for will in self.wills.values_mut() {
            if let Fate::TakenBack { is_durable } = &mut will.fate {
                *is_durable = true;
            }
        }
    }

    /// The process has ended, and with it what was not durable.
    pub fn process_ended(&mut self, now: Now) {
        for will in self.wills.values_mut() {
            match &mut will.fate {
                Fate::Owed(kept) => will.fate = kept.after_process(now).map_or(Fate::Open, Fate::Owed),
                Fate::TakenBack { is_durable: false } => will.fate = Fate::Open,
                // Its successor counts from its own start.
                Fate::Pending { known_ms, .. } => *known_ms = None,
                _ => {}
            }
        }
    }

    /// A process serves: it knows who is gone.
    pub fn process_serves(&mut self, now: Now) {
        for will in self.wills.values_mut() {
            if let Fate::Pending { known_ms: known_ms @ None, .. } = &mut will.fate {
                *known_ms = Some(now.since_boot_ms);
            }
        }
    }

    /// A will was heard: whether it may be.
    pub fn heard(&self, name: MessageName, now: Now) -> Result<(), Violation> {
        let Some(will) = self.wills.get(&name) else { return Ok(()) };
        let told = || format!("{name:?}: {will:?}");
        let is_kept = matches!(will.fate, Fate::Standing { .. }) && !will.may_be_over;
        must(!is_kept, "the will of who is connected is not sent", told)?;
        must(!matches!(will.fate, Fate::TakenBack { .. }), "a will that was taken back is never sent", told)?;
        let Fate::Pending { gone_aged_ms, .. } = will.fate else { return Ok(()) };
        let waited_ms = now.aged_ms.saturating_sub(gone_aged_ms);
        must(waited_ms + 1 >= will.delay_s * 1_000, "a will does not come before its delay has passed", told)
    }
}

impl Will {
    /// What becomes of it when the connection that it stands for ends.
    fn parted(&self, parting: Parting, since_aged_ms: u64, now: Now) -> Fate {
        let gone_aged_ms = if self.may_be_over { since_aged_ms } else { now.aged_ms };
        let pending = |known_ms| Fate::Pending { gone_aged_ms, known_ms };
        match parting {
            Parting::Said => Fate::TakenBack { is_durable: false },
            Parting::Unknown => Fate::Open,
            // Its session ends with the connection, and nobody keeps it.
            Parting::Cut { is_heard: true } | Parting::SentAway if !self.is_durable => Fate::Owed(Kept::InProcess),
            Parting::Cut { is_heard: false } | Parting::ProcessEnded if !self.is_durable => Fate::Open,
            _ if self.delay_s == 0 => Fate::Owed(Kept::OnRecord),
            Parting::Cut { is_heard: true } | Parting::SentAway => pending(Some(now.since_boot_ms)),
            Parting::Cut { is_heard: false } | Parting::ProcessEnded => pending(None),
        }
    }
}

#[cfg(test)]
mod tests;
