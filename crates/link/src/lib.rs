//! Links: each takes messages out of a queue and gives them to someone else.
//!
//! ```text
//!   queue ─ receive, under a lease ─▶ Forward ─ give ─▶ Target:  a queue of another Tidegate   [[link]]
//!     ▲                                  │                       an SMSC, over SMPP            [[smpp]]
//!     │                                  │                       a program, over HTTP          [[webhook]]
//!     │                                  │                       queues here, by rules         [[route]]
//!     └─ taken: handed, and gone ────────┤ Fate
//!        away, too fast: back to its place, uncounted; then a pause that grows
//!        failed: another attempt;  refused: a dead letter
//! ```
//!
//! Promise: a message leaves the queue when the other side has said that it has it, so no crash of either loses it. It
//! may be given twice, if a crash comes between the two. Messages of one ordering key are given in their order, because
//! the queue hands out the next one when the one before is done with. While the other side is away, messages wait in
//! the queue, and no attempts are counted: one of them is tried after each pause.
//!
//! A target is one module: its keys, and how a message is given (`target.rs`). All of them share one thread,
//! since they only wait.
//!
//! Invariant: a link has no state that must survive.

mod attributes;
mod checks;
mod forward;
mod identity;
mod pause;
mod queue;
mod room;
mod route;
mod server;
mod smpp;
mod states;
mod target;
mod tidegate;
mod tls;
mod told;
mod webhook;

pub use checks::{required_secret, undeclared};
pub use forward::LinkMetrics;
pub use queue::{Coming, Queue, Replies, Shards};
pub use room::{Kind, LinkRoom, Running, Start};
pub use route::{Choose, Route, RouteKeys, Rule, RuleKeys, routes, routing};
pub use server::{Connected, OtherServer, ServerKeys};
pub use smpp::{SmppKeys, SmppMetrics, smpp_links};
pub use states::LinkStates;
pub use target::LinkSettings;
pub use tidegate::{Exchange, Forwarding, LinkKeys, Transport, links};
pub use tls::TlsKeys;
pub use webhook::{WebhookKeys, webhooks};
