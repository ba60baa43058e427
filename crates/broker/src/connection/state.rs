//! The state of a connection, as a table.
//!
//! ```text
//!   Vacant ─▶ AwaitingConnect ─▶ Authenticating ─▶ Opening ─▶ Connected ─▶ Closing ─▶ Vacant
//!                │                    │              │            │           ▲
//!                │                    └──────────────┴────────────┴───────────┤ refused, taken over, protocol error,
//!                └─▶ Vacant (handed off)                                      │ too slow, silent
//! ```

/// Where a connection stands.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) enum ConnectionState {
    /// Nobody is here.
    #[default]
    Vacant,
    /// Waits for CONNECT.
    AwaitingConnect,
    /// CONNECT was received; the shell authenticates the client.
    Authenticating,
    /// Admitted; its session is being opened, or waits for an earlier connection's, and may wait for the journal.
    Opening,
    /// CONNACK was sent.
    Connected,
    /// Nothing more is read; the shell writes what is left and closes.
    Closing,
}

/// What happens to a connection.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum ConnectionEvent {
    /// The shell has accepted it.
    Opened,
    /// A whole, good CONNECT that belongs here.
    Connect,
    /// A whole, good CONNECT that belongs to another worker.
    HandedOff,
    /// The shell says yes.
    Admitted,
    /// The session is there.
    Accepted,
    /// The broker wants no more of it.
    CloseRequested,
    /// The socket is closed.
    Closed,
}

impl ConnectionEvent {
    #[cfg(test)]
    const ALL: [ConnectionEvent; 7] = [
        ConnectionEvent::Opened,
        ConnectionEvent::Connect,
        ConnectionEvent::HandedOff,
        ConnectionEvent::Admitted,
        ConnectionEvent::Accepted,
        ConnectionEvent::CloseRequested,
        ConnectionEvent::Closed,
    ];
}

impl ConnectionState {
    #[cfg(test)]
    const ALL: [ConnectionState; 6] = [
        ConnectionState::Vacant,
        ConnectionState::AwaitingConnect,
        ConnectionState::Authenticating,
        ConnectionState::Opening,
        ConnectionState::Connected,
        ConnectionState::Closing,
    ];

    /// Where it stands after `event`; `None` where that cannot happen.
    pub fn after(self, event: ConnectionEvent) -> Option<ConnectionState> {
        Some(match (self, event) {
            (ConnectionState::Vacant, ConnectionEvent::Opened) => ConnectionState::AwaitingConnect,
            (ConnectionState::AwaitingConnect, ConnectionEvent::Connect) => ConnectionState::Authenticating,
            (ConnectionState::AwaitingConnect, ConnectionEvent::HandedOff) => ConnectionState::Vacant,
            (ConnectionState::Authenticating, ConnectionEvent::Admitted) => ConnectionState::Opening,
            (ConnectionState::Opening, ConnectionEvent::Accepted) => ConnectionState::Connected,
            (
                ConnectionState::AwaitingConnect
                | ConnectionState::Authenticating
                | ConnectionState::Opening
                | ConnectionState::Connected,
                ConnectionEvent::CloseRequested,
            ) => ConnectionState::Closing,
            (ConnectionState::Vacant, _) => return None,
            (_, ConnectionEvent::Closed) => ConnectionState::Vacant,
            _ => return None,
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use expect_test::expect;

    #[test]
    fn every_event_in_every_state() {
        let mut table = String::new();
        for state in ConnectionState::ALL {
            for event in ConnectionEvent::ALL {
                if let Some(after) = state.after(event) {
                    table += &format!("{state:?} -{event:?}-> {after:?}\n");
                }
            }
        }
        expect![[r#"
            Vacant -Opened-> AwaitingConnect
            AwaitingConnect -Connect-> Authenticating
            AwaitingConnect -HandedOff-> Vacant
            AwaitingConnect -CloseRequested-> Closing
            AwaitingConnect -Closed-> Vacant
            Authenticating -Admitted-> Opening
            Authenticating -CloseRequested-> Closing
            Authenticating -Closed-> Vacant
            Opening -Accepted-> Connected
            Opening -CloseRequested-> Closing
            Opening -Closed-> Vacant
            Connected -CloseRequested-> Closing
            Connected -Closed-> Vacant
            Closing -Closed-> Vacant
        "#]]
        .assert_eq(&table);
    }
}
