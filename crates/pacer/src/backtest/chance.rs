//! All randomness of a market: numbers that follow from the seed and from nothing else.

/// A stream of numbers from a seed. SplitMix64 (Steele, Lea, Flood 2014): any seed is good, and a few instructions a
/// number.
#[derive(Clone, Debug)]
pub(super) struct Chance(u64);

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

    /// A number from 0 to below 1: 53 bits, as many as an `f64` has.
    pub fn part(&mut self) -> f64 {
        part_of(self.number())
    }

    /// A number of a range.
    pub fn within(&mut self, low: f64, high: f64) -> f64 {
        low + (high - low) * self.part()
    }
}

/// The number from 0 to below 1 that 64 random bits stand for.
pub(super) fn part_of(bits: u64) -> f64 {
    (bits >> 11) as f64 / (1_u64 << 53) as f64
}
