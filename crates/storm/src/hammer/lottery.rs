//! Which bids win, and what they cost.

use super::Won;
use crate::workload::scramble;
use tidegate_wire::pacer::TOKEN_BYTES;

/// Draws the bids that win: every tenth does if a tenth shall.
#[derive(Clone, Copy, Debug, Default)]
pub struct WinLottery {
    share: f64,
    /// Of a win, what is due.
    due: f64,
    wins: u64,
}

/// What a win costs, of 256 parts of what was bid: from a half to all.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct PriceShare(u64);

impl WinLottery {
    /// This share of the bids wins.
    pub fn of(share: f64) -> WinLottery {
        WinLottery { share, ..WinLottery::default() }
    }

    /// Whether the next bid wins, and at which price.
    #[inline]
    pub fn draw(&mut self) -> Option<PriceShare> {
        self.due += self.share;
        if self.due < 1.0 {
            return None;
        }
        self.due -= 1.0;
        self.wins += 1;
        Some(PriceShare(128 + scramble(self.wins) % 129))
    }
}

impl PriceShare {
    /// The win of a bid with this token and price.
    pub fn of(self, token: &[u8; TOKEN_BYTES], price_micros: u32) -> Won {
        Won { token: *token, price_micros: self.micros(price_micros.into()) as u32 }
    }

    /// The same of a price alone.
    pub fn micros(self, bid_micros: u64) -> u64 {
        bid_micros * self.0 / 256
    }
}
