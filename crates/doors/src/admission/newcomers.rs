//! Connections that have not shown yet who they are, by address, and which of them gives way to a new one.
//!
//! ```text
//!   10.0.0.1 │ 3 7 8 12    the most, so its oldest: 3 gives way
//!   10.0.0.2 │ 5 9
//!   10.0.0.3 │ 13          (numbers: the order of coming)
//! ```
//!
//! Promise: each step takes time in the logarithm of how many there are. Of addresses with equally many, the one that
//! came first gives way: so connections of ten thousand addresses leave in the order in which they came.
//!
//! Why the oldest: whoever means to show a token does so at once, and has had the most time for it. Why of the address
//! with the most: a flood pushes itself out, and not those who come once.

use std::cmp::Reverse;
use std::collections::{BTreeMap, BTreeSet, HashMap};
use std::net::IpAddr;

/// The connections, each with a `T` by which its owner knows it.
#[derive(Debug)]
pub(crate) struct Newcomers<T> {
    /// Those of each address that has any, by number.
    lines: HashMap<IpAddr, BTreeMap<u64, T>>,
    /// How long each line is, and the number of its oldest: the last one gives way.
    by_length: BTreeSet<(usize, Reverse<u64>, IpAddr)>,
}

impl<T> Default for Newcomers<T> {
    fn default() -> Newcomers<T> {
        Newcomers { lines: HashMap::new(), by_length: BTreeSet::new() }
    }
}

impl<T> Newcomers<T> {
    /// The connection of this number has come: no older one comes later.
    pub fn join(&mut self, address: IpAddr, number: u64, connection: T) {
        self.change(address, |line| {
            assert!(line.last_key_value().is_none_or(|(last, _)| *last < number), "the newest is the last");
            line.insert(number, connection);
        });
    }

    /// It is none of them any more. `None` if it was not before.
    pub fn leave(&mut self, address: IpAddr, number: u64) -> Option<T> {
        self.lines.get(&address)?.get(&number)?;
        self.change(address, |line| line.remove(&number))
    }

    /// The oldest of the address that has the most; it is none of them any more.
    pub fn take_of_most(&mut self) -> Option<(IpAddr, u64, T)> {
        let (_, _, address) = *self.by_length.last()?;
        self.take_of(address)
    }

    /// The oldest of this address; it is none of them any more.
    pub fn take_of(&mut self, address: IpAddr) -> Option<(IpAddr, u64, T)> {
        self.lines.get(&address)?;
        let (number, connection) = self.change(address, |line| line.pop_first())?;
        Some((address, number, connection))
    }

    /// Changes the line of an address, and its place among all.
    fn change<R>(&mut self, address: IpAddr, change: impl FnOnce(&mut BTreeMap<u64, T>) -> R) -> R {
        let line = self.lines.entry(address).or_default();
        let place = |line: &BTreeMap<u64, T>| line.keys().next().map(|oldest| (line.len(), Reverse(*oldest), address));
        if let Some(before) = place(line) {
            assert!(self.by_length.remove(&before), "each line has its place");
        }
        let changed = change(line);
        match place(line) {
            Some(after) => assert!(self.by_length.insert(after), "numbers are given once"),
            None => drop(self.lines.remove(&address)),
        }
        changed
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn address(n: u8) -> IpAddr {
        IpAddr::from([10, 0, 0, n])
    }

    fn taken(newcomers: &mut Newcomers<u64>) -> Option<u64> {
        let (_, number, connection) = newcomers.take_of_most()?;
        assert_eq!(number, connection);
        Some(number)
    }

    #[test]
    fn the_oldest_of_the_address_with_the_most_goes_and_of_equals_who_came_first() {
        let mut newcomers = Newcomers::default();
        for (number, of) in [1, 2, 2, 1, 2, 3, 1, 2].into_iter().enumerate() {
            newcomers.join(address(of), number as u64, number as u64);
        }
        // 1: 0 3 6; 2: 1 2 4 7; 3: 5
        assert_eq!(newcomers.leave(address(1), 3), Some(3), "it has shown a token");
        assert_eq!(newcomers.leave(address(1), 3), None);
        assert_eq!(newcomers.leave(address(9), 3), None);
        let order: Vec<u64> = std::iter::from_fn(|| taken(&mut newcomers)).collect();
        assert_eq!(order, [1, 2, 0, 4, 5, 6, 7]);
        assert!(newcomers.lines.is_empty() && newcomers.by_length.is_empty(), "nothing is left of those who went");
    }

    #[test]
    fn one_of_each_address_goes_in_the_order_of_coming() {
        let mut newcomers = Newcomers::default();
        (0..200).for_each(|n| newcomers.join(address(200 - n as u8), n, n));
        let order: Vec<u64> = std::iter::from_fn(|| taken(&mut newcomers)).collect();
        assert_eq!(order, (0..200).collect::<Vec<u64>>());
    }

    #[test]
    fn the_oldest_of_one_address_goes_whatever_others_have() {
        let mut newcomers = Newcomers::default();
        (0..9).for_each(|n| newcomers.join(address(if n % 3 == 0 { 1 } else { 2 }), n, n));
        assert_eq!(newcomers.take_of(address(1)), Some((address(1), 0, 0)));
        assert_eq!(newcomers.take_of(address(3)), None);
        assert_eq!(newcomers.take_of_most(), Some((address(2), 1, 1)));
    }
}
