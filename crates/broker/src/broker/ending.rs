//! A session of a share group that is over ends when others have what it had (`pass_on.rs`).
//!
//! ```text
//!   expiry, DISCONNECT without expiry ─▶ due ──┐
//!   clean start, an operator ─▶ awaited ───────┴─▶ a round: some are on their way ─ all have answered ─┐
//!                                                     ▲                                                │
//!                                                     └──────────────── there is more ◀────────────────┤
//!                        the session ends, and the CONNECT or the operator goes on ◀─ there is no more ┘
//! ```
//!
//! What others have no room for is offered again until they have, for `PASS_ENDING_MS` at most.
//!
//! Promise: whoever waits does so for `PASS_WAIT_MS` at most. What is left then ends with the session, and is counted
//! like what nobody else has had room for.

use std::collections::VecDeque;

use hashbrown::HashMap;
use tidegate_journal::LogStore;
use tidegate_machines::TimeMs;
use tidegate_planted::{Bug, is_planted};

use super::Broker;
use crate::connection::ParkedFor;
use crate::index::{ConnectionIndex, SessionIndex};
use crate::limits::{
    PASS_AT_ONCE, PASS_ENDING_MS, PASS_ENDINGS, PASS_ENDINGS_MAX, PASS_LOOK_MS, PASS_MATCHES, PASS_WAIT_MS,
};
use crate::operator::OperatorAnswer;
use crate::session::{SessionFlags, SessionRef};
use crate::{ConnectionKey, OperatorTicket};

/// A session that is ending.
#[derive(Debug)]
struct Ending {
    /// What its inbox had before this entry is on its way, or nobody has room for it.
    next: u64,
    /// The first entry that a member has refused, of those in this pass over the inbox.
    refused: Option<u64>,
    /// Passes so far: each offers what is left to other members.
    passes: u64,
    /// When the next look at it is worth it.
    again: TimeMs,
    /// When it ends in any case.
    over: TimeMs,
    /// The CONNECT that ends it.
    comer: Option<ConnectionKey>,
    /// The operator who ends it, and waits for that.
    operator: Option<OperatorTicket>,
    /// An operator has ended it, whether or not he still waits.
    is_ordered: bool,
    /// It is among those that are looked at in each step.
    is_listed: bool,
    /// When those who wait go on at the latest. `None`: nobody has waited.
    until: Option<TimeMs>,
}

/// Sessions that are ending.
#[derive(Debug, Default)]
pub(super) struct Endings {
    sessions: HashMap<SessionRef, Ending>,
    /// Those for whose end somebody waits, or did.
    awaited: VecDeque<SessionRef>,
    /// Filters that were looked at in this step.
    filters: usize,
}

impl Ending {
    fn new(now: TimeMs) -> Ending {
        let over = TimeMs(now.0 + PASS_ENDING_MS);
        Ending {
            next: 0,
            refused: None,
            passes: 0,
            again: now,
            over,
            comer: None,
            operator: None,
            is_ordered: false,
            is_listed: false,
            until: None,
        }
    }
}

impl Endings {
    /// Another step, in which so much may be looked at as in each.
    pub fn begin_step(&mut self) {
        self.filters = 0;
    }

    /// Whether nothing is to be done for an ending session now.
    pub fn rests(&self, session: SessionRef, now: TimeMs) -> bool {
        self.sessions.get(&session).is_some_and(|ending| now < ending.again)
    }

    /// The connections that wait.
    pub fn comers(&self) -> impl Iterator<Item = ConnectionKey> + '_ {
        self.sessions.values().filter_map(|ending| ending.comer)
    }

    /// Whether a session is ending: it takes nothing that was another's.
    pub fn is_ending(&self, session: SessionRef) -> bool {
        self.sessions.contains_key(&session)
    }

    /// A member has not taken an entry of this session, if it is ending.
    pub fn note_refused(&mut self, session: SessionRef, number: u64) {
        if let Some(ending) = self.sessions.get_mut(&session) {
            ending.refused = Some(ending.refused.map_or(number, |first| first.min(number)));
        }
    }

    fn is_awaited(&self, session: SessionRef) -> bool {
        self.sessions.get(&session).is_some_and(|ending| ending.comer.is_some() || ending.is_ordered)
    }

    /// Somebody waits for the end of a session. `None`: its time is over.
    fn wait(&mut self, session: SessionRef, now: TimeMs) -> Option<&mut Ending> {
        let ending = self.sessions.get_mut(&session).expect("what is waited for is ending");
        let until = *ending.until.get_or_insert(TimeMs(now.0 + PASS_WAIT_MS));
        if !std::mem::replace(&mut ending.is_listed, true) {
            self.awaited.push_back(session);
        }
        (now < until).then_some(ending)
    }
}

impl<L: LogStore> Broker<L> {
    /// A session is over. Whether some of what it has is on its way to others, so that it ends later.
    pub(super) fn passes_on_before_end(&mut self, place: SessionIndex, now: TimeMs) -> bool {
        let is_member = self.clients.sessions[place].flags.has(SessionFlags::SHARED);
        if !is_member || is_planted(Bug::SharedEndsAtOnce) {
            return false;
        }
        let session = self.clients.session_ref(place);
        let ending = self.endings.sessions.entry(session).or_insert_with(|| Ending::new(now));
        let rests = now < ending.again || self.endings.filters >= PASS_MATCHES;
        if rests || self.passing.is_passing(session) {
            return true;
        }
        let shard = self.clients.sessions[place].shard;
        let filters = self.clients.sessions[place].subscriptions.as_slice().len();
        let may_wait = self.endings.sessions.len() <= PASS_ENDINGS_MAX;
        loop {
            let ending = &self.endings.sessions[&session];
            let is_over = !may_wait || ending.over <= now;
            let has_refused = ending.refused.is_some() && ending.passes >= PASS_AT_ONCE;
            let left = match has_refused && !is_over {
                true => None,
                false => self.pass_on_last(place, (ending.next, ending.passes), now),
            };
            self.endings.filters += filters;
            let ending = self.endings.sessions.get_mut(&session).expect("it was noted");
            match (left, ending.refused) {
                (Some(next), _) => {
                    ending.next = next;
                    return true;
                }
                // What others have taken leaves the inbox when its shard is asked next.
                (None, _) if self.shards[shard].facts().inbox > 0 && !is_over => return true,
                (None, Some(first)) if ending.passes < PASS_AT_ONCE || !is_over => {
                    (ending.next, ending.refused, ending.passes) = (first, None, ending.passes + 1);
                    if has_refused {
                        ending.again = TimeMs(now.0 + PASS_LOOK_MS);
                        return true;
                    }
                }
                (None, _) => return false,
            }
        }
    }

    /// Whether a CONNECT that ends this session waits until others have what it had.
    pub(super) fn waits_for_ending(&mut self, index: ConnectionIndex, place: SessionIndex, now: TimeMs) -> bool {
        if !self.passes_on_before_end(place, now) {
            return false;
        }
        let (key, session) = (self.clients.key(index), self.clients.session_ref(place));
        let Some(ending) = self.endings.wait(session, now) else { return false };
        assert!(ending.comer.is_none(), "an earlier CONNECT was outrun");
        ending.comer = Some(key);
        self.clients.connections[index].park(ParkedFor::PassedMessages);
        true
    }

    /// Whether an operator who ends this session waits until others have what it had. `Err`: another one does.
    pub(super) fn operator_waits_for_ending(
        &mut self,
        ticket: OperatorTicket,
        place: SessionIndex,
        now: TimeMs,
    ) -> Result<bool, OperatorAnswer> {
        if !self.passes_on_before_end(place, now) {
            return Ok(false);
        }
        let session = self.clients.session_ref(place);
        let ending = self.endings.sessions.get_mut(&session).expect("it is ending");
        if ending.operator.is_some() {
            return Err(OperatorAnswer::Busy);
        }
        // Each waits as long as any, and the session for longer.
        (ending.operator, ending.is_ordered, ending.until) = (Some(ticket), true, None);
        let waits = self.endings.wait(session, now);
        assert!(waits.is_some(), "the wait has begun now");
        // Whoever comes gets a new one.
        self.clients.sessions[place].expiry_s = 0;
        Ok(true)
    }

    /// A CONNECT has come for this session: an earlier one that waits for the end of that has lost.
    /// `[MQTT-3.1.4-3]`: a second connection with a client id disconnects the first one.
    pub(super) fn outrun_awaiting(&mut self, place: SessionIndex) {
        let session = self.clients.session_ref(place);
        let earlier = self.endings.sessions.get_mut(&session).and_then(|ending| ending.comer.take());
        self.outrun(earlier);
    }

    /// A session is over, or goes on: nobody waits for its end any more. The operator who did.
    pub(super) fn forget_ending(&mut self, place: SessionIndex) -> Option<OperatorTicket> {
        let ending = self.endings.sessions.remove(&self.clients.session_ref(place))?;
        self.resume_comer_later(ending.comer, ParkedFor::PassedMessages);
        ending.operator
    }

    /// Looks at some of the sessions for whose end somebody waits.
    pub(super) fn step_endings(&mut self, now: TimeMs) {
        for _ in 0..self.endings.awaited.len().min(PASS_ENDINGS) {
            let session = self.endings.awaited.pop_front().expect("counted above");
            let Some(ending) = self.endings.sessions.get(&session) else { continue };
            let is_late = ending.until.is_none_or(|until| until <= now);
            let place = self.clients.session(session).expect("what is ending is there");
            let has_more = self.passes_on_before_end(place, now);
            if is_late || !has_more {
                self.end_awaited(place, session, has_more, now);
            }
            if self.endings.is_awaited(session) {
                self.endings.awaited.push_back(session);
            } else if let Some(ending) = self.endings.sessions.get_mut(&session) {
                ending.is_listed = false;
            }
        }
    }

    /// Nobody waits any longer: the CONNECT goes on, and ends the session; what an operator has ended ends when others
    /// have what it has.
    fn end_awaited(&mut self, place: SessionIndex, session: SessionRef, has_more: bool, now: TimeMs) {
        let ending = self.endings.sessions.get_mut(&session).expect("it is looked at");
        let comer = ending.comer.take();
        if ending.is_ordered {
            let operator = ending.operator.take_if(|_| has_more);
            if !has_more {
                self.end_session(place, true, now);
            }
            operator.into_iter().for_each(|ticket| self.operator.answer(ticket, OperatorAnswer::Begun));
        } else if comer.is_none() {
            // Who waited has gone, so the session stays, unless it is due.
            self.endings.sessions.remove(&session);
        }
        self.resume_comer(comer, ParkedFor::PassedMessages, now);
    }
}
