//! What the broker stores for one connection. Small, because there are millions: what an idle client does not need is
//! stored elsewhere.

mod parked;
mod state;

use tidegate_wire::mqtt::{ReasonCode, Version};

use crate::holdings::Holder;
use crate::index::{InputIndex, OutboxIndex, RightsIndex, SessionIndex};

pub(crate) use parked::{ParkEvent, ParkedFor};
pub(crate) use state::{ConnectionEvent, ConnectionState};

/// One connection. Its place in the slab is its [`crate::ConnectionKey::index`].
#[derive(Debug)]
pub(crate) struct Connection {
    pub generation: u32,
    /// Second of the last packet, for the keep-alive; of the accept before CONNECT.
    pub last_seen_s: u32,
    /// Second of the CONNACK.
    pub connected_at_s: u32,
    pub session: Option<SessionIndex>,
    /// Place of its outbox; none while nothing is unsent.
    pub outbox: Option<OutboxIndex>,
    /// Place of its input buffer; none unless part of a packet, or one that waits, is there.
    pub input: Option<InputIndex>,
    /// Its rights, from its admission on.
    pub rights: Option<RightsIndex>,
    /// The client's Maximum Packet Size.
    /// `[MQTT-3.1.2-24]`: the server sends nothing larger than the client's Maximum Packet Size.
    pub packet_bytes_max: u32,
    pub extra: Option<Box<Extra>>,
    pub keep_alive_s: u16,
    /// The client's Receive Maximum, and ours if that is smaller.
    /// `[MQTT-3.3.4-9]`: the server has at most the client's Receive Maximum of QoS 1 and 2 publications in flight.
    pub window_max: u16,
    pub state: ConnectionState,
    pub version: Version,
    pub flags: Flags,
    /// What the packet at the front of its input waits for.
    parked: ParkedFor,
}

const _: () = assert!(size_of::<Connection>() <= 48);

impl Default for Connection {
    fn default() -> Connection {
        Connection {
            generation: 0,
            last_seen_s: 0,
            connected_at_s: 0,
            session: None,
            outbox: None,
            input: None,
            rights: None,
            packet_bytes_max: u32::MAX,
            extra: None,
            keep_alive_s: 0,
            window_max: 0,
            state: ConnectionState::Vacant,
            version: Version::V311,
            flags: Flags(0),
            parked: ParkedFor::Nothing,
        }
    }
}

impl Connection {
    /// Makes a transition that the table allows; anything else is a bug.
    pub fn transition(&mut self, event: ConnectionEvent) {
        self.state = self.state.after(event).unwrap_or_else(|| panic!("{event:?} cannot happen to {:?}", self.state));
        if matches!(self.state, ConnectionState::Closing | ConnectionState::Vacant) {
            self.parked = self.parked.after(ParkEvent::Closed).expect("a connection may always close");
        }
        let state = self.parked.state();
        assert!(
            state.is_none_or(|state| state == self.state),
            "{:?} is not waited for in {:?}",
            self.parked,
            self.state
        );
    }

    /// Makes the place of one that is gone ready for the next one.
    pub fn vacate(&mut self) {
        assert!(self.state == ConnectionState::Vacant, "only who is gone makes room");
        *self = Connection { generation: self.generation.wrapping_add(1), ..Connection::default() };
    }

    /// The packet at the front of the input must wait for this.
    pub fn park(&mut self, reason: ParkedFor) {
        let parked = self.parked.after(ParkEvent::Waits(reason));
        self.parked = parked.unwrap_or_else(|| panic!("{reason:?} behind {:?}", self.parked));
        assert!(reason.state() == Some(self.state), "{reason:?} is not waited for in {:?}", self.state);
    }

    /// This is there. Whether the packet at the front waited for it: then it may go on.
    #[must_use]
    pub fn unpark(&mut self, reason: ParkedFor) -> bool {
        let parked = self.parked.after(ParkEvent::Answered(reason));
        self.parked = parked.unwrap_or(self.parked);
        parked.is_some()
    }

    /// What the packet at the front of the input waits for.
    #[inline]
    pub fn parked(&self) -> ParkedFor {
        self.parked
    }

    /// Whether it waits for an answer from elsewhere.
    #[inline]
    pub fn is_parked(&self) -> bool {
        self.parked != ParkedFor::Nothing
    }

    pub fn extra(&mut self) -> &mut Extra {
        self.extra.get_or_insert_default()
    }
}

/// Things that are true of a connection for a while, independent of each other and of its life.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Flags(u8);

impl Flags {
    /// The shell will be told that there are bytes to send.
    pub const FLUSH_QUEUED: Flags = Flags(1);
    /// It has published, so pressure pauses it.
    pub const PUBLISHER: Flags = Flags(2);
    /// Whole packets may wait in its input, and it stands in the list of those.
    pub const STALLED: Flags = Flags(4);
    /// It has used up its rate.
    pub const THROTTLED: Flags = Flags(8);
    /// It wants no reason strings.
    /// `[MQTT-3.1.2-29]`: with Request Problem Information 0, reason strings and user properties only on PUBLISH,
    /// CONNACK and DISCONNECT.
    pub const NO_PROBLEM_INFORMATION: Flags = Flags(16);
    /// It has done its share of the work, and whole packets wait in its input for its next turn.
    pub const UNSERVED: Flags = Flags(32);
    /// It has no user, so less may wait for it.
    pub const ANONYMOUS: Flags = Flags(64);
    /// Which reload its rights are of: set by every second one. Whoever's flag differs from that of the last reload has
    /// rights from before.
    pub const RENEWED: Flags = Flags(128);

    pub fn has(self, flag: Flags) -> bool {
        self.0 & flag.0 != 0
    }

    pub fn set(&mut self, flag: Flags) {
        self.0 |= flag.0;
    }

    pub fn clear(&mut self, flag: Flags) {
        self.0 &= !flag.0;
    }

    /// Sets or clears it.
    pub fn mark(&mut self, flag: Flags, is_set: bool) {
        if is_set { self.set(flag) } else { self.clear(flag) }
    }
}

/// Where a feed begins (`None`: at the place that its session has), or what its filter is refused with.
pub(crate) type PlaceFound = Result<Option<Box<[u8]>>, ReasonCode>;

/// What only some connections need.
#[derive(Debug, Default)]
pub(crate) struct Extra {
    /// The id that the broker chose for a client that sent none.
    pub assigned_id: Option<Box<str>>,
    /// Topics by the aliases that the client set; alias 1 is at 0.
    pub aliases_in: Vec<Box<str>>,
    /// Their bytes.
    pub alias_bytes_in: u32,
    /// Aliases that the broker may set.
    pub aliases_out_max: u16,
    /// Topics by the aliases that the broker set; alias 1 is at 0.
    pub aliases_out: Vec<Box<str>>,
    /// A smaller bound on packets than the broker's; 0 for none.
    pub packet_bytes_max: u32,
    /// Conditions that were asked about for the SUBSCRIBE at the front of the input, and whether they hold.
    pub confirmed: Vec<(Box<str>, bool)>,
    /// Where the feeds of the SUBSCRIBE at the front of the input begin, or what they are refused with.
    pub places: Vec<(Box<str>, PlaceFound)>,
    /// What is asked about now is the place that the session has.
    pub asks_own_place: bool,
    /// Answers to the SUBSCRIBE or UNSUBSCRIBE at the front of the input, which waits for the journal.
    pub filter_answers: Option<FilterAnswers>,
    /// What it may still publish.
    pub bucket: Option<Bucket>,
    /// Who an admitted client is, until it has its session.
    pub comer: Option<Comer>,
}

impl Extra {
    /// Whether nothing in it is needed any more.
    pub fn is_empty(&self) -> bool {
        let Extra {
            assigned_id,
            aliases_in,
            alias_bytes_in: _,
            aliases_out_max,
            aliases_out,
            packet_bytes_max,
            confirmed,
            places,
            asks_own_place,
            filter_answers,
            bucket,
            comer,
        } = self;
        assigned_id.is_none()
            && aliases_in.is_empty()
            && *aliases_out_max == 0
            && aliases_out.is_empty()
            && *packet_bytes_max == 0
            && confirmed.is_empty()
            && places.is_empty()
            && !asks_own_place
            && filter_answers.is_none()
            && bucket.is_none()
            && comer.is_none()
    }
}

/// An admitted client without a session.
#[derive(Clone, Debug)]
pub(crate) struct Comer {
    pub holder: Holder,
    /// A session of which nobody knows whose it is may become its own.
    pub may_claim: bool,
    /// It has waited for a will, and waits for no other.
    pub has_waited: bool,
}

/// A SUBSCRIBE or UNSUBSCRIBE that is under way: some of its filters are still to be looked at, or it waits for an
/// answer about one, or for the records of a durable session.
#[derive(Debug, Default)]
pub(crate) struct FilterAnswers {
    /// The place in the packet's list behind the filters that were looked at.
    pub at: usize,
    /// One code for each filter that was looked at.
    pub codes: Vec<u8>,
    /// Whether each filter was subscribed to before.
    pub known: Vec<bool>,
    /// Which of them are to be sent what is retained.
    pub retained_for: Vec<RetainedFor>,
    /// Bytes of these.
    pub retained_bytes: usize,
    /// Feeds among them.
    pub feeds: usize,
    /// Those that are new.
    pub new_feeds: usize,
    /// Records that are not durable yet.
    pub remaining: usize,
    /// Whether all filters were looked at.
    pub is_complete: bool,
}

/// A filter of a SUBSCRIBE that is to be sent what is retained.
#[derive(Debug)]
pub(crate) struct RetainedFor {
    /// Its place among the filters.
    pub nth: usize,
    pub filter: Box<str>,
}

/// A token bucket of one second's depth.
#[derive(Debug)]
pub(crate) struct Bucket {
    pub messages: f64,
    pub bytes: f64,
    pub filled_at_ms: u64,
}
