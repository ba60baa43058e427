//! The life of a connection, as a table.
//!
//! ```text
//!   Vacant ─▶ Greeting ─▶ Authenticating ─▶ Opening ─▶ Connected ─▶ Closing ─▶ Vacant
//!                │              │              │                       ▲
//!                │              └──────────────┴───────────────────────┤ refused, taken over, broken, too slow, silent
//!                └─▶ Vacant (handed off)
//! ```

/// Where a connection stands.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) enum Life {
    /// Nobody is here.
    #[default]
    Vacant,
    /// Waits for CONNECT.
    Greeting,
    /// CONNECT is there; the shell finds out who it is.
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
pub(crate) enum Turn {
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
    Dismissed,
    /// The socket is closed.
    Closed,
}

impl Turn {
    #[cfg(test)]
    const ALL: [Turn; 7] =
        [Turn::Opened, Turn::Connect, Turn::HandedOff, Turn::Admitted, Turn::Accepted, Turn::Dismissed, Turn::Closed];
}

impl Life {
    #[cfg(test)]
    const ALL: [Life; 6] =
        [Life::Vacant, Life::Greeting, Life::Authenticating, Life::Opening, Life::Connected, Life::Closing];

    /// Where it stands after `turn`; `None` where that cannot happen.
    pub fn after(self, turn: Turn) -> Option<Life> {
        Some(match (self, turn) {
            (Life::Vacant, Turn::Opened) => Life::Greeting,
            (Life::Greeting, Turn::Connect) => Life::Authenticating,
            (Life::Greeting, Turn::HandedOff) => Life::Vacant,
            (Life::Authenticating, Turn::Admitted) => Life::Opening,
            (Life::Opening, Turn::Accepted) => Life::Connected,
            (Life::Greeting | Life::Authenticating | Life::Opening | Life::Connected, Turn::Dismissed) => Life::Closing,
            (Life::Vacant, _) => return None,
            (_, Turn::Closed) => Life::Vacant,
            _ => return None,
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use expect_test::expect;

    #[test]
    fn every_turn_of_every_life() {
        let mut table = String::new();
        for life in Life::ALL {
            for turn in Turn::ALL {
                if let Some(after) = life.after(turn) {
                    table += &format!("{life:?} -{turn:?}-> {after:?}\n");
                }
            }
        }
        expect![[r#"
            Vacant -Opened-> Greeting
            Greeting -Connect-> Authenticating
            Greeting -HandedOff-> Vacant
            Greeting -Dismissed-> Closing
            Greeting -Closed-> Vacant
            Authenticating -Admitted-> Opening
            Authenticating -Dismissed-> Closing
            Authenticating -Closed-> Vacant
            Opening -Accepted-> Connected
            Opening -Dismissed-> Closing
            Opening -Closed-> Vacant
            Connected -Dismissed-> Closing
            Connected -Closed-> Vacant
            Closing -Closed-> Vacant
        "#]]
        .assert_eq(&table);
    }
}
