//! Many MQTT clients in one thread: they connect to a broker, subscribe, publish, and check all that arrives.
//!
//! ```text
//!   handshake ──▶ socket ──▶ Link ──▶ drive ──▶ Traffic (who publishes what, who must get what)
//!   (TCP, TLS, WebSocket)          │  one poll loop
//!                                  └─▶ rates, latencies
//! ```
//!
//! Why one thread and packets cut by hand: broker and load share two cores, so processor time of the load is missing
//! for the broker. A turn of the loop reads each socket that has something once, into one buffer that stays in the
//! cache, and writes each client's packets with one call, as many clients on many machines would look to the broker.
//!
//! Invariant: nothing here knows which broker it talks to.

pub mod drive;
pub mod handshake;
pub mod link;
pub mod packet;
pub mod stamp;
pub mod tls;
pub mod websocket;
