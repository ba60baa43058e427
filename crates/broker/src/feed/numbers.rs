//! Numbers of a feed's messages, counted in each partition of its source.
//!
//! Promise: a number depends on where its message stands in its partition, and on nothing else. So a message that is
//! read again has the number that it had, and with it the packet id, in whatever turn its source reads its partitions
//! this time.
//!
//! Why not one count of all messages: a source gives the partitions in the order in which they had something, and after
//! a reconnection they all have something at once. Counted together, number and packet id of a message would be
//! another's when it is sent again.

use crate::limits::{FEED_WINDOW, PACKET_IDS};

/// A number for each partition of a source: that of the next message, or how many there were.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Numbers(Box<[u64]>);

impl Numbers {
    /// The same number for each of at least one partition.
    pub fn all(partitions: u16, number: u64) -> Numbers {
        assert!(partitions > 0, "a source has a partition");
        Numbers(vec![number; partitions.into()].into())
    }

    /// These, of at least one partition.
    pub fn of(numbers: Box<[u64]>) -> Numbers {
        assert!(!numbers.is_empty(), "a source has a partition");
        Numbers(numbers)
    }

    /// One for each partition.
    pub fn as_slice(&self) -> &[u64] {
        &self.0
    }

    /// How many partitions there are.
    pub fn partitions(&self) -> u16 {
        u16::try_from(self.0.len()).expect("partitions are counted with 16 bits")
    }

    /// The number of one partition.
    pub fn get(&self, partition: u16) -> u64 {
        self.0[usize::from(partition)]
    }

    /// One more message of this partition.
    pub fn count(&mut self, partition: u16) {
        self.0[usize::from(partition)] += 1;
    }

    /// Messages of all partitions.
    pub fn total(&self) -> u64 {
        self.0.iter().sum()
    }

    /// The numbers below which messages may have been sent, if these are kept durably: a window behind each, since all
    /// messages of a window may have been of one partition.
    pub fn sent_below(&self) -> Numbers {
        let window = self.window();
        Numbers(self.0.iter().map(|number| number + window).collect())
    }

    /// The greater number of each partition.
    pub fn max(&self, other: &Numbers) -> Numbers {
        assert!(self.0.len() == other.0.len(), "both are of one source");
        Numbers(self.0.iter().zip(&other.0).map(|(one, another)| *one.max(another)).collect())
    }

    /// Whether one more message of this partition may be sent while those before `durable` are kept: neither too many
    /// of all partitions are beyond it, nor so many of this one that a packet id would name two.
    pub fn has_room(&self, partition: u16, durable: &Numbers) -> bool {
        let beyond = self.get(partition) - durable.get(partition);
        beyond < self.window() && self.total() - durable.total() < FEED_WINDOW
    }

    /// The packet id of the next message of a partition, for a filter whose ids begin at `first`. Each partition has
    /// its part of all ids. Ids go down, because those of inboxes go up.
    pub fn packet_id(&self, partition: u16, first: u64) -> u16 {
        let of_partition = u64::from(partition) * self.ids() + self.get(partition) % self.ids();
        (PACKET_IDS - (first + of_partition) % PACKET_IDS) as u16
    }

    /// Messages of one partition that may be beyond the durable place.
    fn window(&self) -> u64 {
        FEED_WINDOW.min(self.ids())
    }

    /// Packet ids of one partition.
    fn ids(&self) -> u64 {
        PACKET_IDS / u64::from(self.partitions())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_packet_id_names_one_message_of_all_windows() {
        for partitions in [1, 2, 4, 255, 256, 1_024, u16::MAX] {
            for first in [0, 17, PACKET_IDS - 1] {
                let durable = Numbers::all(partitions, 70_000);
                let mut ids = Vec::new();
                for partition in [0, 1, partitions / 2, partitions - 1] {
                    let mut next = durable.clone();
                    while partition < partitions && next.has_room(partition, &durable) {
                        ids.push((next.packet_id(partition, first), partition, next.get(partition)));
                        next.count(partition);
                    }
                }
                ids.sort_unstable();
                ids.dedup();
                assert!(ids.windows(2).all(|two| two[0].0 != two[1].0), "{partitions} partitions from {first}");
                assert!(ids[0].0 > 0);
            }
        }
    }

    #[test]
    fn one_partition_has_all_packet_ids() {
        let mut next = Numbers::all(1, 0);
        let mut seen = vec![false; 65_536];
        for _ in 0..65_535 {
            seen[usize::from(next.packet_id(0, 0))] = true;
            next.count(0);
        }
        assert!(!seen[0] && seen[1..].iter().all(|seen| *seen));
    }

    #[test]
    fn what_may_have_been_sent_is_a_window_of_each_partition() {
        let durable = Numbers::of([5, 0, 900].into());
        let below = durable.sent_below();
        assert_eq!(below.as_slice(), [5 + FEED_WINDOW, FEED_WINDOW, 900 + FEED_WINDOW]);
        for partition in 0..3 {
            let mut next = durable.clone();
            while next.has_room(partition, &durable) {
                next.count(partition);
            }
            assert_eq!(next.get(partition), below.get(partition));
            assert!(!next.has_room((partition + 1) % 3, &durable), "the window is one of all partitions");
        }
    }
}
