//! The door from outside: a real edge thread, real sockets, a ledger in a map.

mod contract;
mod drain;
mod fake;
mod guest;
mod history_lines;
mod hostile;
mod house;
mod rights;
