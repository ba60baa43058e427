//! Hostile bytes for every decoder: none may panic, hang, or take as true what its checksum or rule forbids.
//!
//! ```text
//!   fuzz/corpus/<target>/* ──▶ <target>::check(bytes)      `make test` replays it, `make fuzz` grows from it
//! ```
//!
//! Each target is a plain function, so that a find can be replayed by an ordinary test on stable Rust, and checks more
//! than the absence of panics where more must hold.

pub mod decisions;
pub mod event;
pub mod frames;
pub mod group;
pub mod http_body;
pub mod http_plain;
pub mod ids;
pub mod learned;
pub mod mqtt;
pub mod openrtb;
pub mod pacer;
pub mod proxy;
pub mod queues;
pub mod roster;
pub mod segment;
pub mod session;
pub mod smpp;
pub mod snapshot;
pub mod stream;
pub mod topics;
pub mod websocket;

/// A target by name.
pub type Target = (&'static str, fn(&[u8]));

/// All targets.
pub const TARGETS: [Target; 25] = [
    ("frames", frames::check),
    ("group", group::check),
    ("segment", segment::check),
    ("stream", stream::check),
    ("event", event::check),
    ("snapshot", snapshot::check),
    ("ids", ids::check),
    ("http_body", http_body::check),
    ("http_plain", http_plain::check),
    ("mqtt_client", mqtt::check_client),
    ("mqtt_server", mqtt::check_server),
    ("mqtt_session", session::check),
    ("websocket", websocket::check),
    ("openrtb", openrtb::check),
    ("pacer", pacer::check),
    ("pacer_decisions", decisions::check),
    ("pacer_learned", learned::check),
    ("proxy", proxy::check),
    ("smpp", smpp::check),
    ("topic_event", topics::check_event),
    ("topic_snapshot", topics::check_snapshot),
    ("roster_event", roster::check_event),
    ("roster_snapshot", roster::check_snapshot),
    ("queue_event", queues::check_event),
    ("queue_snapshot", queues::check_snapshot),
];
