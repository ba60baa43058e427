//! What an event of one shard rests upon on others: the debit of a received credit, the credit of a confirmation, the
//! claim of a decided id, the opening of an adopted account, the change of an account that others keep to.

use super::event::Event;
use super::hash::id_hash;
use crate::{Fact, ShardIndex, Tie};

const RECEIVED: u8 = 1;
const CLAIMED: u8 = 2;
const OPENED: u8 = 3;
const CHANGED: u8 = 4;

/// The credit of this number from one shard to another, taken in.
fn received(from: ShardIndex, by: ShardIndex, number: u64) -> Fact {
    Fact::Named { kind: RECEIVED, about: u64::from(from.0) << 16 | u64::from(by.0), number }
}

fn named(kind: u8, key: &str) -> Fact {
    Fact::Named { kind, about: id_hash(key), number: 0 }
}

/// Tells `each` how an event of the log of `shard` is tied to other shards.
pub fn ties(event: &Event<'_>, shard: ShardIndex, each: &mut dyn FnMut(Tie)) {
    match *event {
        Event::CreditReceived { from, number, debit_position, .. } => {
            each(Tie::Is(received(from, shard, number.0)));
            each(Tie::RestsOn(Fact::Record { shard: from, position: debit_position }));
        }
        Event::CreditsConfirmed { to, number, .. } => each(Tie::RestsOn(received(shard, to, number.0))),
        Event::IdClaimed { id, .. } => each(Tie::Is(named(CLAIMED, id))),
        Event::AccountOpened { id, .. } => each(Tie::Is(named(OPENED, id))),
        Event::AccountChanged { id, home, revision, .. } => {
            let change = Fact::Named { kind: CHANGED, about: id_hash(id), number: revision };
            each(if home == shard { Tie::Is(change) } else { Tie::RestsOn(change) });
        }
        Event::AccountAdopted { id, .. } => each(Tie::RestsOn(named(OPENED, id))),
        _ => {
            if let Some(id) = event.id() {
                each(Tie::RestsOn(named(CLAIMED, id)));
            }
        }
    }
}

#[cfg(test)]
mod tests;
