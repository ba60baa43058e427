//! Open connections whose client has shown a certificate: after a reload each is looked at again, by the authorities
//! and revocation lists of now.
//!
//! ```text
//!   reload ─▶ begin ─ a few each turn ─▶ not good any more ─▶ DISCONNECT 0x87, as for a user who is gone
//!   CONNECT after a handshake from before the reload ────────▶ CONNACK 0x87
//! ```
//!
//! Why a few: a look verifies the signatures of the chain, a tenth of a millisecond, in which nobody is served.

use tidegate_broker::{ConnectionKey, ReasonCode};
use tidegate_journal::LogStore;
use tidegate_machines::TimeMs;

use rustls::pki_types::UnixTime;

use super::MqttPort;
use super::read::address_of;
use crate::mqtt::settings::MqttSettings;
use crate::mqtt::sockets::Socket;
use crate::security::{self, SecurityEvent};

/// Certificates that one turn looks at.
const LOOKS_PER_TURN: usize = 16;
/// Places of sockets that one turn visits for that.
const VISITS_PER_TURN: u32 = 4_096;

/// How far the look is.
#[derive(Debug, Default)]
pub(super) struct Certificates {
    /// There was a reload: a handshake may have been before it.
    may_be_old: bool,
    /// The place that is looked at next, and those that there were when the look began.
    walk: Option<(u32, u32)>,
}

impl Certificates {
    /// There was a reload, while sockets stood at so many places.
    pub fn begin(&mut self, places: u32) {
        self.may_be_old = true;
        self.walk = Some((0, places));
    }

    /// Whether some are still to be looked at.
    pub fn are_looked_at(&self) -> bool {
        self.walk.is_some()
    }

    /// Whether what a client has shown would be taken now, if there was a reload.
    pub fn are_good(&self, settings: &MqttSettings, socket: &Socket) -> bool {
        !self.may_be_old || !is_refused(settings, socket).unwrap_or(false)
    }
}

/// Whether what a client has shown would not be taken now; `None` if it has shown nothing.
fn is_refused(settings: &MqttSettings, socket: &Socket) -> Option<bool> {
    let clients = settings.listeners.get(usize::from(socket.listener.0))?.clients.as_ref()?;
    let chain = socket.stream.peer_certificates()?;
    Some(!clients.take(chain, UnixTime::now()))
}

impl<L: LogStore> MqttPort<L> {
    /// Looks at some more certificates, and ends the connections of those that are good no longer. Whether there are
    /// any to be looked at.
    pub(super) fn look_at_certificates(&mut self, now: TimeMs) -> bool {
        let Some((from, until)) = self.certificates.walk else { return false };
        let to = from.saturating_add(VISITS_PER_TURN).min(until);
        let (mut at, mut looks) = (from, 0);
        while at < to && looks < LOOKS_PER_TURN {
            if let Some((key, socket)) = self.sockets.at(at)
                && let Some(is_refused) = is_refused(&self.settings, socket)
            {
                looks += 1;
                if is_refused {
                    self.end_refused(key, now);
                }
            }
            at += 1;
        }
        self.certificates.walk = (at < until).then_some((at, until));
        true
    }

    fn end_refused(&mut self, key: ConnectionKey, now: TimeMs) {
        let Some(socket) = self.sockets.get(key) else { return };
        let detail = "certificate: it was revoked, or who signed it is trusted no longer";
        security::tell(SecurityEvent::RightsChanged, "mqtt", address_of(socket), "", detail);
        self.broker.revoked(key, ReasonCode::NOT_AUTHORIZED, now);
    }
}
