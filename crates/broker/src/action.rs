//! What the broker asks of the shell around it.

use std::sync::Arc;

use crate::ReasonCode;
use crate::{ConnectionKey, Rights};

/// Something that the broker cannot do itself. The shell takes actions with [`crate::Broker::actions`] after each turn.
#[derive(Debug)]
pub enum Action {
    /// Find out who this is and answer with [`crate::Broker::verdict`]. Nothing more is read from the connection until then. The shell
    /// adds what only it knows: the certificate, the address, the listener.
    Authenticate {
        /// The connection that has sent CONNECT.
        key: ConnectionKey,
        /// Its client id; the broker has assigned one if the client sent none.
        client_id: Box<str>,
        /// User name of CONNECT.
        user_name: Option<Box<str>>,
        /// Password of CONNECT.
        password: Option<Box<[u8]>>,
    },
    /// The session of this connection lives with another worker: move the socket there, `open` it, and `receive` these bytes first.
    /// The key is already forgotten here.
    HandOff {
        /// The connection as it was called here.
        key: ConnectionKey,
        /// Where it belongs.
        worker: u16,
        /// All that was received from it.
        bytes: Box<[u8]>,
    },
    /// Write what [`crate::Broker::unsent`] still holds, as far as the socket takes it without waiting; close the socket; then call
    /// [`crate::Broker::closed`].
    Close {
        /// The connection.
        key: ConnectionKey,
    },
    /// A transfer arrived on `$ledger/transfers`: decide it and [`crate::Broker::answer`].
    AskLedger {
        /// Goes back with the answer.
        ticket: LedgerTicket,
        /// On whose behalf.
        rights: Arc<dyn Rights>,
        /// The body, JSON as for `POST /v1/transfers`.
        payload: Box<[u8]>,
    },
    /// Whether `account` is a collector decides whether this connection may subscribe: ask the ledger and answer with
    /// [`crate::Broker::collector`]. Nothing more is read from the connection until then.
    AskCollector {
        /// The connection.
        key: ConnectionKey,
        /// The account.
        account: Box<str>,
    },
}

/// Names a question to the ledger that is under way.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct LedgerTicket(pub u64);

/// The shell's yes to a CONNECT.
#[derive(Clone, Debug)]
pub struct Admitted {
    /// What the client may do. Clients with the same rights should share one object: it is kept once.
    pub rights: Arc<dyn Rights>,
}

/// The shell's no to a CONNECT.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Denied {
    /// What CONNACK says; translated for MQTT 3.1.1.
    pub reason: ReasonCode,
}
