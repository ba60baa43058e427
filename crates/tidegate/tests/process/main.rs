//! Tests of the whole process: how it stops, which clients it accepts, when it refuses to start, and which failures it
//! survives.

#[path = "../support/mod.rs"]
mod support;

mod archive;
mod auditor;
mod backup;
mod binary;
mod bounds;
mod broken_disk;
mod changes;
mod claims;
mod clock;
mod closing;
mod commands;
mod crowds;
mod cursors;
mod damage;
mod directory;
mod features;
mod full_disk;
mod handshakes;
mod history_lines;
mod history_times;
mod hostile;
mod huge_pages;
mod imports;
mod limits;
mod links;
mod losses;
mod memory;
mod metrics;
mod moved;
mod mqtt_hostile;
mod namesakes;
mod old_ids;
mod open_files;
mod openrtb;
mod operator;
mod output;
mod pacing;
mod pacing_client;
mod pacing_elsewhere;
mod pacing_page;
mod pacing_peers;
mod pacing_replay;
mod proxied;
mod queues;
mod reload;
mod restores;
mod revoked;
mod rights;
mod seeing;
mod services;
mod shipped;
mod slips;
mod stop;
mod terminal;
mod timeline;
mod tls;
mod users;
mod votes;
mod ways;

pub use support::server::{Ended, Process, Server, audit, tool};
pub use support::settings::Settings;
pub use support::{PATIENCE, SERVICE, folder, http, stream, wait_for};
