//! Tests of the codec: by statement, by round trip, and with random bytes.

mod round_trips;
mod statements;
mod topics;
