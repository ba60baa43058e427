//! The HTTP door from outside: a real edge thread, real sockets, and a fake ledger in a map.

mod changes;
mod contract;
mod cors;
mod drain;
mod early;
mod fake;
mod hidden;
mod history_lines;
mod history_time;
mod hostile;
mod lane;
mod outside_room;
mod quiet_streams;
mod quotas;
mod rights;
mod server;
mod spaces;
