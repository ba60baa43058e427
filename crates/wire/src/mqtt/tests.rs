//! The codec by statement, by round trip, and on any bytes.

mod round_trips;
mod statements;
mod topics;
