//! The pacer: spreads the money of campaigns over their time, and never spends more of it than there is.

pub mod bidder;
pub mod control;
pub mod frequency;
pub mod keeper;
pub mod limits;
pub mod machine;
pub mod backtest;
pub mod plan;
pub mod strategy;
pub mod token;
pub mod units;
pub mod zone;
