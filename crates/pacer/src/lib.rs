//! The pacer: spreads the money of campaigns over their time, and never spends more of it than there is.

pub mod backtest;
pub mod bidder;
pub mod bidders;
pub mod control;
pub mod decisions;
mod demo;
pub mod family;
mod frame;
pub mod frequency;
pub mod keeper;
mod learned_file;
pub mod limits;
pub mod machine;
pub mod metrics;
pub mod openrtb;
pub mod plan;
pub mod room;
pub mod strategy;
mod table;
pub mod token;
pub mod units;
pub mod zone;
