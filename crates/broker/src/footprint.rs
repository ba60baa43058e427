//! What one client can make the broker keep in memory, at worst, besides what is paid for by its principal
//! ([`crate::holdings`]).
//!
//! ```text
//!   bounds of a connection ─▶ bytes at worst ─ times the clients there may be ─▶ what an operator is told
//! ```
//!
//! Why here: the sizes are those of the types, so what is told changes with them.

use std::mem::size_of;

use crate::connection::Connection;
use crate::flow::{Answer, Flight, Incoming};
use crate::limits::{
    ALIAS_BYTES_MAX, ALIAS_BYTES_OUT_MAX, ANSWERS_PER_RECEIVE_MAXIMUM, CONNECT_BYTES_MAX, OPEN_PER_RECEIVE_MAXIMUM,
    PACKET_IDS, UNREAD_FREE_BYTES,
};
use crate::session::Session;

/// A table or a queue that grows has room for twice as many as it holds, at most.
const GROWN: usize = 2;
/// An idle client, with a session that ends with it: its connection, session, socket, client id, and places in tables.
const IDLE_BYTES: usize = 512;

const _: () = assert!(size_of::<Connection>() + size_of::<Session>() + 32 <= IDLE_BYTES / 2);

/// A connection that has said nothing, or is idle: half a CONNECT, or the part of a packet that nobody pays for.
pub const CONNECTION_BYTES: u64 = {
    let after = UNREAD_FREE_BYTES + IDLE_BYTES;
    if after > CONNECT_BYTES_MAX as usize { after as u64 } else { CONNECT_BYTES_MAX as u64 }
};

/// What is under way from a client that may have so many publications unanswered.
pub fn unanswered_bytes(receive_maximum: u16) -> u64 {
    let answers = ANSWERS_PER_RECEIVE_MAXIMUM * size_of::<Answer>();
    // One byte more for each place of the table.
    let open = OPEN_PER_RECEIVE_MAXIMUM * (size_of::<(u16, Incoming)>() + 1);
    u64::from(receive_maximum) * (GROWN * (answers + open)) as u64
}

/// What is under way to a client that acknowledges everything but the oldest.
pub fn window_bytes() -> u64 {
    PACKET_IDS * (GROWN * size_of::<Flight>()) as u64
}

/// Topics behind so many aliases that a client has set.
pub fn alias_bytes(aliases: u16) -> u64 {
    of_aliases(aliases, ALIAS_BYTES_MAX)
}

/// Topics behind so many aliases that the broker has set for a client.
pub fn alias_bytes_out(aliases: u16) -> u64 {
    of_aliases(aliases, ALIAS_BYTES_OUT_MAX)
}

fn of_aliases(aliases: u16, bytes_max: usize) -> u64 {
    let aliases = usize::from(aliases);
    (GROWN * aliases * size_of::<Box<str>>() + if aliases > 0 { bytes_max } else { 0 }) as u64
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::BrokerLimits;

    #[test]
    fn what_one_client_takes_grows_with_its_bounds() {
        let limits = BrokerLimits::default();
        let unanswered = unanswered_bytes(limits.receive_maximum);
        assert!((100 << 10..1 << 20).contains(&unanswered), "{unanswered}");
        assert_eq!(unanswered_bytes(2 * limits.receive_maximum), 2 * unanswered);
        assert_eq!((alias_bytes(limits.topic_alias_maximum), alias_bytes_out(0)), ((64 << 10) + 32 * 2 * 16, 0));
        assert_eq!(window_bytes(), 2 * PACKET_IDS, "a flight is a byte");
        assert_eq!(CONNECTION_BYTES, u64::from(CONNECT_BYTES_MAX));
    }
}
