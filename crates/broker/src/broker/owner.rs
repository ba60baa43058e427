//! Whose a session is, and what its owner pays for it.
//!
//! ```text
//!   CONNECT ─▶ may_have? ─no─▶ 0x87, nothing is changed
//!                 └─yes─▶ pay for it and its will ─▶ the session, 0x97 if it is too much
//! ```

use tidegate_journal::LogStore;
use tidegate_machines::topic::Will;

use super::Broker;
use crate::connection::Comer;
use crate::holdings::{Holder, Paid, Thing};
use crate::index::{ConnectionIndex, SessionIndex};
use crate::limits::SESSION_BYTES;
use crate::session::{SessionRef, filter_bytes};

impl<L: LogStore> Broker<L> {
    /// Whether a session is the one of who has come, or may become it.
    pub(super) fn may_have(&self, session: SessionIndex, comer: &Comer, index: ConnectionIndex) -> bool {
        match &self.clients.sessions[session].owner {
            Some(owner) => *owner == comer.holder,
            // It was made by a program that did not say whose it is. A place in it may say so.
            None => comer.may_claim && !self.is_of_another(session, index),
        }
    }

    /// Lets the owner of a session, who may be new, pay for it with another will. Whether it may.
    pub(super) fn pay_for_session(&mut self, place: SessionIndex, owner: &Holder, will: Option<&Will>) -> bool {
        let session = &mut self.clients.sessions[place];
        let bytes = session_bytes(&session.client_id, will);
        let before = std::mem::replace(&mut session.paid_bytes, bytes);
        if session.owner.is_none() {
            // It is there already.
            owner.charge(Thing::Session, 1, bytes.into()).keep();
            for node in session.subscriptions.as_slice() {
                owner.charge(Thing::Filter, 1, filter_bytes(&self.subscriptions.filter(*node))).keep();
            }
            session.owner = Some(owner.clone());
            if let (shard, Some(slot)) = (session.shard, session.slot) {
                self.settle_queue(shard, slot);
            }
        } else if bytes <= before {
            owner.release(Thing::Session, 0, (before - bytes).into());
        } else {
            match owner.hold(Thing::Session, 0, (bytes - before).into()) {
                Ok(paid) => paid.keep(),
                Err(_) => {
                    session.paid_bytes = before;
                    return false;
                }
            }
        }
        true
    }

    /// The record of a client that came back was refused: the session is as it was before. `paid`: for the place of its
    /// will among the retained messages.
    pub(super) fn not_attached(&mut self, session: SessionRef, paid: Option<Paid>) {
        let Some(place) = self.clients.session(session) else { return };
        self.retained.set_will_place(place, paid);
        let session = &mut self.clients.sessions[place];
        if let Some(state) = session.slot.and_then(|slot| self.shards.state(session.shard).session(slot)) {
            session.expiry_s = state.expiry_s();
        }
    }
}

/// What a session that outlives its connection takes, about.
pub(super) fn session_bytes(client_id: &str, will: Option<&Will>) -> u32 {
    let bytes = SESSION_BYTES + (client_id.len() + will.map_or(0, |will| will.message.body_bytes())) as u64;
    u32::try_from(bytes).expect("a CONNECT is small")
}
