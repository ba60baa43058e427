//! Consistency check of connections, sessions and buffers, whatever clients sent. For tests and simulation.

use super::Clients;
use crate::ConnectionKey;
use crate::connection::{ConnectionState, Flags};
use crate::session::Stage;

impl Clients {
    /// Panics if connections, sessions, buffers and counts disagree. Visits everything: for tests and simulation.
    pub fn assert_sound(&self) {
        self.assert_connections_sound();
        self.assert_sessions_sound();
        let anonymous = self.connections.in_use().filter(|index| self.connections[*index].flags.has(Flags::ANONYMOUS));
        let of_anonymous: usize = anonymous.map(|index| self.outbox_len(index)).sum();
        let all = || self.connections.in_use().map(|index| &self.connections[index]);
        self.outboxes.assert_sound(all().filter(|one| one.outbox.is_some()).count(), of_anonymous as u64);
        self.assert_backlogs_sound();
        self.inputs.assert_sound(all().filter(|one| one.input.is_some()).count());
    }

    fn assert_connections_sound(&self) {
        let (mut connected, mut flushable) = (0, 0);
        for index in self.connections.in_use() {
            let connection = &self.connections[index];
            assert_ne!(connection.state, ConnectionState::Vacant, "connection {index} is in use");
            connected += u64::from(connection.state == ConnectionState::Connected);
            flushable += usize::from(connection.flags.has(Flags::FLUSH_QUEUED));
            let has_session = connection.session.is_some();
            if let Some(session) = connection.session {
                let session = &self.sessions[session];
                assert_ne!(session.stage, Stage::Vacant, "the session of connection {index}");
                assert_eq!(session.connection, Some(index), "the connection of the session of connection {index}");
            }
            match connection.state {
                ConnectionState::Connected => assert!(has_session, "connected {index} has no session"),
                ConnectionState::Opening => {}
                state => assert!(!has_session, "connection {index}, {state:?}, has a session"),
            }
        }
        let of_a_place = |key: &&ConnectionKey| self.index(**key).is_some();
        assert_eq!(connected, self.facts.clients_connected, "clients connected");
        assert_eq!(flushable, self.flushable.iter().filter(of_a_place).count(), "connections with something to send");
    }

    fn assert_sessions_sound(&self) {
        let (mut sessions, mut durable) = (0, 0);
        for place in self.sessions.in_use() {
            let session = &self.sessions[place];
            assert_ne!(session.stage, Stage::Vacant, "session {place} is in use");
            assert_eq!(self.find_session(&session.client_id), Some(place), "the session of a client id");
            if let Some(index) = session.connection {
                let connection = &self.connections[index];
                assert_eq!(connection.session, Some(place), "the session of the connection of session {place}");
            }
            assert!(
                session.connection.is_some() || session.is_durable(),
                "clean session {place} has outlived its client"
            );
            assert!(session.slot.is_none() || session.is_durable(), "clean session {place} has a slot");
            assert!(session.slot.is_some() || !session.is_durable() || session.stage == Stage::Opening, "no slot");
            assert!(session.will.is_none() || !session.is_durable(), "durable session {place} has its will here");
            session.flow.iter().for_each(|flow| flow.assert_sound());
            sessions += 1;
            durable += u64::from(session.is_durable());
        }
        assert_eq!(self.by_client_id.len(), self.sessions.len(), "a session stands under its id");
        assert_eq!((sessions, durable), (self.facts.sessions, self.facts.sessions_durable), "sessions, durable ones");
    }
}
