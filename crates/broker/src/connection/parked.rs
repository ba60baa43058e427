//! What the packet at the front of a connection's input waits for: an answer from elsewhere, without which it cannot be
//! processed. Nothing behind it is read.
//!
//! | For what | In state | Begins with | Ends with |
//! |---|---|---|---|
//! | `EarlierConnection` | `Opening` | CONNECT to a session that another one opens | that session is open, or gone |
//! | `SentWill` | `Opening` | CONNECT to a session whose will is being sent | that is over, or `WILL_WAIT_MS` are |
//! | `PassedMessages` | `Opening` | CONNECT that ends a member of a group | others have its messages, or 3 s are |
//! | `SessionRecord` | `Opening` | CONNECT to a durable session | the session's record is durable |
//! | `Condition` | `Connected` | SUBSCRIBE whose right has a condition | `Broker::confirm` |
//! | `FeedPlace` | `Connected` | SUBSCRIBE to what a source keeps | `Broker::placed` |
//! | `FilterRecords` | `Connected` | (UN)SUBSCRIBE of a durable session | its filters' records are durable |
//! | `RetainedMessage` | `Connected` | PUBLISH behind a retained one on its topic | that one has come back |
//!
//! Each begins only while nothing is waited for, and ends with its own answer or with the connection:
//!
//! ```text
//! Nothing -waits-> EarlierConnection -answered-> Nothing
//! Nothing -waits-> SentWill -answered-> Nothing
//! Nothing -waits-> PassedMessages -answered-> Nothing
//! Nothing -waits-> SessionRecord -answered-> Nothing
//! Nothing -waits-> Condition -answered-> Nothing
//! Nothing -waits-> FeedPlace -answered-> Nothing
//! Nothing -waits-> FilterRecords -answered-> Nothing
//! Nothing -waits-> RetainedMessage -answered-> Nothing
//! EarlierConnection, SentWill, PassedMessages, SessionRecord -closed-> Nothing
//! Condition, FeedPlace, FilterRecords, RetainedMessage -closed-> Nothing
//! ```
//!
//! Why not one bit: an answer that comes late must not resume a packet that waits for something else.

use super::ConnectionState;

/// For what the packet at the front is parked.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) enum ParkedFor {
    /// It is not.
    #[default]
    Nothing,
    /// A session that an earlier connection is still opening.
    EarlierConnection,
    /// The will of its session, which not all have who must keep it.
    SentWill,
    /// The messages of the session that it ends, which others of its share groups are to have.
    PassedMessages,
    /// The record with which its session is opened, or gets a connection again.
    SessionRecord,
    /// The shell's word on a condition of a right.
    Condition,
    /// The shell's word on where a feed begins.
    FeedPlace,
    /// The records of a SUBSCRIBE or UNSUBSCRIBE.
    FilterRecords,
    /// A retained message that must not be overtaken.
    RetainedMessage,
}

/// What happens to a parked packet.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum ParkEvent {
    /// It must wait for this.
    Waits(ParkedFor),
    /// This is there now.
    Answered(ParkedFor),
    /// Its connection is over.
    Closed,
}

impl ParkedFor {
    /// For what it is parked after `event`; `None` where that cannot happen.
    pub fn after(self, event: ParkEvent) -> Option<ParkedFor> {
        match (self, event) {
            (_, ParkEvent::Waits(ParkedFor::Nothing) | ParkEvent::Answered(ParkedFor::Nothing)) => None,
            (ParkedFor::Nothing, ParkEvent::Waits(reason)) => Some(reason),
            (reason, ParkEvent::Answered(answer)) if reason == answer => Some(ParkedFor::Nothing),
            (_, ParkEvent::Closed) => Some(ParkedFor::Nothing),
            (_, ParkEvent::Waits(_) | ParkEvent::Answered(_)) => None,
        }
    }

    /// In which state a connection may be parked for it; `None`: in any.
    pub fn state(self) -> Option<ConnectionState> {
        match self {
            ParkedFor::Nothing => None,
            ParkedFor::EarlierConnection
            | ParkedFor::SentWill
            | ParkedFor::PassedMessages
            | ParkedFor::SessionRecord => Some(ConnectionState::Opening),
            ParkedFor::Condition | ParkedFor::FeedPlace | ParkedFor::FilterRecords | ParkedFor::RetainedMessage => {
                Some(ConnectionState::Connected)
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const REASONS: [ParkedFor; 8] = [
        ParkedFor::EarlierConnection,
        ParkedFor::SentWill,
        ParkedFor::PassedMessages,
        ParkedFor::SessionRecord,
        ParkedFor::Condition,
        ParkedFor::FeedPlace,
        ParkedFor::FilterRecords,
        ParkedFor::RetainedMessage,
    ];

    /// The lines of this module's description.
    fn described() -> Vec<&'static str> {
        include_str!("parked.rs").lines().filter_map(|line| line.strip_prefix("//! ")).collect()
    }

    #[test]
    fn the_transitions_are_those_that_the_description_prints() {
        let all = || REASONS.into_iter().chain([ParkedFor::Nothing]);
        let mut printed = Vec::new();
        for reason in REASONS {
            let waits = ParkedFor::Nothing.after(ParkEvent::Waits(reason)).expect("nothing is waited for");
            let answered = waits.after(ParkEvent::Answered(reason)).expect("it has come");
            printed.push(format!("Nothing -waits-> {waits:?} -answered-> {answered:?}"));
            for other in all() {
                let is_it = other == reason;
                assert_eq!(other.after(ParkEvent::Answered(reason)).is_some(), is_it, "{reason:?} to {other:?}");
                let is_free = other == ParkedFor::Nothing;
                assert_eq!(other.after(ParkEvent::Waits(reason)).is_some(), is_free, "{reason:?} behind {other:?}");
            }
        }
        let closed = REASONS.map(|reason| format!("{reason:?}"));
        assert!(all().all(|reason| reason.after(ParkEvent::Closed) == Some(ParkedFor::Nothing)));
        printed.extend(closed.chunks(4).map(|names| format!("{} -closed-> Nothing", names.join(", "))));
        let transitions: Vec<&str> = described().into_iter().filter(|line| line.contains("->")).collect();
        assert_eq!(transitions, printed);
    }

    #[test]
    fn the_states_are_those_that_the_description_names() {
        let rows: Vec<String> = REASONS
            .iter()
            .map(|reason| format!("| `{reason:?}` | `{:?}` |", reason.state().expect("each has one")))
            .collect();
        let described = described();
        let named: Vec<&&str> = described.iter().filter(|line| line.starts_with("| `")).collect();
        assert_eq!(named.len(), rows.len());
        assert!(named.iter().zip(&rows).all(|(line, row)| line.starts_with(row)), "{named:?} are not {rows:?}");
    }
}
