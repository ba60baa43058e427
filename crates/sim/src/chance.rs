//! All randomness of a simulation: numbers that follow from the seed and from nothing else.

use std::ops::RangeInclusive;

/// A stream of numbers from a seed. SplitMix64 (Steele, Lea, Flood 2014): any seed is good, and a few instructions a
/// number.
#[derive(Clone, Debug)]
pub struct Chance(u64);

impl Chance {
    /// The stream of `seed`.
    pub fn new(seed: u64) -> Chance {
        Chance(seed)
    }

    /// A stream of its own for one part, so that one more number drawn here does not change everything there.
    pub fn branch(&mut self) -> Chance {
        Chance(self.number())
    }

    /// Any number.
    pub fn number(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut z = self.0;
        z = (z ^ (z >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        z ^ (z >> 31)
    }

    /// A number below `bound`, which is not zero.
    pub fn below(&mut self, bound: u64) -> u64 {
        self.number() % bound
    }

    /// A number of the range.
    pub fn within(&mut self, range: RangeInclusive<u64>) -> u64 {
        range.start() + self.below(range.end() - range.start() + 1)
    }

    /// Whether something that happens `per_mille` times in a thousand happens.
    pub fn happens(&mut self, per_mille: u64) -> bool {
        self.below(1_000) < per_mille
    }

    /// One of the choices, of which there is at least one.
    pub fn one_of<'a, T>(&mut self, choices: &'a [T]) -> &'a T {
        &choices[self.below(choices.len() as u64) as usize]
    }

    /// An index by weight: 2 for `[1, 0, 3]` three times in four.
    pub fn weighted(&mut self, weights: &[u64]) -> usize {
        let mut left = self.below(weights.iter().sum());
        for (index, weight) in weights.iter().enumerate() {
            if left < *weight {
                return index;
            }
            left -= weight;
        }
        unreachable!("the number is below the sum")
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_seed_gives_its_numbers_and_branches_do_not_disturb_each_other() {
        let (mut a, mut b) = (Chance::new(7), Chance::new(7));
        let (mut left, mut right) = (a.branch(), b.branch());
        left.number();
        assert_eq!(a.number(), b.number());
        assert_ne!(left.number(), right.number(), "one is a number ahead");
    }

    #[test]
    fn weights_and_ranges_are_kept() {
        let mut chance = Chance::new(1);
        for _ in 0..1_000 {
            assert_ne!(chance.weighted(&[1, 0, 3]), 1);
            assert!((3..=5).contains(&chance.within(3..=5)));
            assert!(!chance.happens(0) && chance.happens(1_000));
        }
    }
}
