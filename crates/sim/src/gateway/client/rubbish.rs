//! What a client sends that is no MQTT.
//!
//! Promise: no server that keeps to the standard takes anything of it for a packet, so nothing that was promised
//! follows from it. Why it is looked at: a few random bytes in a million are a whole PUBREL, and the server answers it.

use tidegate_wire::mqtt::{Split, Version, decode_client, split};

use crate::chance::Chance;

/// The most bytes that are sent at once.
const BYTES_MAX: u64 = 40;

/// Bytes that are no packet, or the beginning of one that never ends if nothing is said behind it.
pub(super) fn draw(chance: &mut Chance, version: Version) -> Vec<u8> {
    loop {
        let length = chance.within(1..=BYTES_MAX);
        let bytes: Vec<u8> = (0..length).map(|_| chance.number() as u8).collect();
        if !begins_with_a_packet(&bytes, version) {
            return bytes;
        }
    }
}

fn begins_with_a_packet(bytes: &[u8], version: Version) -> bool {
    match split(bytes, u32::MAX) {
        Ok(Split::Packet(length)) => decode_client(&bytes[..length], version).is_ok(),
        Ok(Split::NeedMore) | Err(_) => false,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_begins_with_a_packet_is_no_rubbish() {
        // What seed 1559 of the stream store once drew: PUBREL of 40748, and then rubbish.
        let pubrel = [98, 2, 159, 44, 20, 152, 170, 42, 221, 229];
        for version in [Version::V311, Version::V5] {
            assert!(begins_with_a_packet(&pubrel, version));
            assert!(begins_with_a_packet(&[0xc0, 0], version), "PINGREQ");
            assert!(!begins_with_a_packet(&pubrel[..3], version), "half a packet");
            assert!(!begins_with_a_packet(&[97, 2, 159, 44], version), "PUBREL with wrong flags");
            assert!(!begins_with_a_packet(&[0xd0, 0], version), "what only servers send");
        }
    }
}
