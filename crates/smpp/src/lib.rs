//! SMPP for a client (an ESME), without sockets or clocks: texts as parts of short messages, packets, receipts.
//!
//! ```text
//!   text ─▶ coded (GSM 03.38, Latin 1, UCS-2) ─▶ parts, numbered ─▶ submit_sm
//!   bytes of the SMSC ─▶ frame ─▶ Incoming: a response, or a deliver_sm: a receipt, or a message of a phone
//! ```
//!
//! Promise: bytes that are no packet cost no more memory than the longest packet, and never a panic; of a packet that
//! cannot be read, the command and the sequence number are still told, so that it can be answered.
//!
//! Why not the alphabets of `rusmpp-extra`: they refuse what is beyond 16 bits, such as emoji, which phones read as
//! UTF-16.
//!
//! Invariant: nothing here knows queues.

mod address;
mod alphabet;
mod coding;
mod incoming;
mod outgoing;
mod parts;
mod receipt;
mod status;

pub use address::{Address, NoAddress};
pub use coding::{Coded, Coding, decoded};
pub use incoming::{Delivered, FRAME_BYTES_MAX, Incoming, NotSmpp, RESPONSE, Segment, next};
pub use outgoing::{Bind, Request, Submit, Version, bytes_of, response_to};
pub use parts::{Numbering, PARTS_MAX, Part, TooLong, parts};
pub use receipt::{Receipt, receipt_of};
pub use status::{Meaning, Status};
