//! The pacer: spreads the money of campaigns over their time, and never spends more of it than there is.

pub mod backtest;
pub mod plan;
pub mod strategy;
pub mod units;
