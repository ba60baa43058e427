//! The content of a load's message: its publisher, its number, and when it was due; and the check that all arrive,
//! once, in order.

use anyhow::{Result, ensure};

/// Bytes of every payload.
pub const PAYLOAD_BYTES: usize = 64;

/// What follows the stamp, so that a payload mixed up with another is noticed.
const FILLER: [u8; PAYLOAD_BYTES - STAMP_BYTES] = *b"tidegate storm tidegate storm tidegate st";
const STAMP_BYTES: usize = 4 + 8 + 8 + 3;

/// The first bytes of a payload.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Stamp {
    /// Which publisher.
    pub publisher: u32,
    /// Counts from zero for each publisher and topic.
    pub number: u64,
    /// When it was to be sent, in nanoseconds since the load began.
    pub due_ns: u64,
}

impl Stamp {
    /// Writes it to the front of a payload, and the filler behind it.
    #[inline]
    pub fn write(self, payload: &mut [u8]) {
        payload[..8].copy_from_slice(&self.number.to_le_bytes());
        payload[8..16].copy_from_slice(&self.due_ns.to_le_bytes());
        payload[16..20].copy_from_slice(&self.publisher.to_le_bytes());
        payload[20..STAMP_BYTES].fill(0);
        payload[STAMP_BYTES..].copy_from_slice(&FILLER);
    }

    /// Reads it from a payload, which must be whole.
    #[inline]
    pub fn read(payload: &[u8]) -> Result<Stamp> {
        let whole = payload.len() == PAYLOAD_BYTES && payload[STAMP_BYTES..] == FILLER;
        ensure!(whole, "a payload that nobody sent: {payload:02x?}");
        let long = |at: usize| u64::from_le_bytes(payload[at..at + 8].try_into().expect("eight bytes"));
        let publisher = u32::from_le_bytes(payload[16..20].try_into().expect("four bytes"));
        Ok(Stamp { publisher, number: long(0), due_ns: long(8) })
    }
}

/// The next number that a receiver must see: one row of messages, nothing lost, nothing twice, nothing out of order.
#[derive(Clone, Copy, Debug, Default)]
pub struct Expected(u64);

impl Expected {
    /// Takes the next message.
    #[inline]
    pub fn take(&mut self, number: u64) -> Result<()> {
        ensure!(
            number == self.0,
            "message {number} came when {} was due: {}",
            self.0,
            if number > self.0 { "something was lost or overtaken" } else { "it came twice or late" }
        );
        self.0 += 1;
        Ok(())
    }

    /// How many have come.
    #[inline]
    pub fn count(self) -> u64 {
        self.0
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_stamp_survives_its_payload() {
        let stamp = Stamp { publisher: 7, number: 8, due_ns: 9 };
        let mut payload = [0; PAYLOAD_BYTES];
        stamp.write(&mut payload);
        assert_eq!(Stamp::read(&payload).unwrap(), stamp);
        payload[63] ^= 1;
        assert!(Stamp::read(&payload).is_err());
        assert!(Stamp::read(&payload[..63]).is_err());
    }

    #[test]
    fn lost_repeated_and_overtaken_messages_are_errors() {
        let mut expected = Expected::default();
        expected.take(0).unwrap();
        assert!(expected.take(2).unwrap_err().to_string().contains("lost"));
        assert!(expected.take(0).unwrap_err().to_string().contains("twice"));
        expected.take(1).unwrap();
        assert_eq!(expected.count(), 2);
    }
}
