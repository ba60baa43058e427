//! One session's subscription, as every worker stores it.

use crate::SessionIndex;

/// What a subscription asks for, in the bits of a byte.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct EntryOptions(pub u8);

impl EntryOptions {
    const QOS: u8 = 0b11;
    /// Messages of the session's own client are not for it.
    /// `[MQTT-3.8.3-3]`: No Local: a message is not sent to the client id that published it.
    pub const NO_LOCAL: EntryOptions = EntryOptions(1 << 2);
    /// The retain flag goes on as the publisher set it.
    /// `[MQTT-3.3.1-13]`: with Retain As Published a message is forwarded with the RETAIN flag of its publisher.
    pub const RETAIN_AS_PUBLISHED: EntryOptions = EntryOptions(1 << 3);
    /// The session outlives its connection: QoS 1 and 2 go through its shard.
    pub const DURABLE: EntryOptions = EntryOptions(1 << 4);
    /// The session has a connection, and is not stalled. Kept up to date for members of share groups only, see
    /// [`Presence`].
    pub const ONLINE: EntryOptions = EntryOptions(1 << 5);
    /// Retained messages are still to be brought to it. In records only, for a start after a crash.
    pub const OWES_RETAINED: EntryOptions = EntryOptions(1 << 6);
    /// Besides being online, the session takes one more at once.
    pub const READY: EntryOptions = EntryOptions(1 << 7);

    /// Options of this maximum QoS (0, 1 or 2) and nothing else.
    pub const fn of_qos(qos: u8) -> EntryOptions {
        EntryOptions(qos & Self::QOS)
    }

    /// The maximum QoS: 0, 1 or 2.
    pub const fn qos(self) -> u8 {
        self.0 & Self::QOS
    }

    /// These and those.
    #[must_use]
    pub const fn with(self, more: EntryOptions) -> EntryOptions {
        EntryOptions(self.0 | more.0)
    }

    /// These but not those.
    #[must_use]
    pub const fn without(self, less: EntryOptions) -> EntryOptions {
        EntryOptions(self.0 & !less.0)
    }

    /// These for a member of a share group that is there so far.
    #[must_use]
    pub const fn of_presence(self, presence: Presence) -> EntryOptions {
        let others = self.without(EntryOptions(Self::ONLINE.0 | Self::READY.0));
        match presence {
            Presence::Away => others,
            Presence::Busy => others.with(Self::ONLINE),
            Presence::Ready => others.with(Self::ONLINE).with(Self::READY),
        }
    }

    /// How far a member of a share group is there.
    pub const fn presence(self) -> Presence {
        match (self.has(Self::ONLINE), self.has(Self::READY)) {
            (true, true) => Presence::Ready,
            (true, false) => Presence::Busy,
            (false, _) => Presence::Away,
        }
    }

    /// Whether all of those are among these.
    pub const fn has(self, those: EntryOptions) -> bool {
        self.0 & those.0 == those.0
    }
}

/// How far a member of a share group is there for the next message.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Presence {
    /// It has no connection, or takes nothing for so long that it counts as having none.
    Away,
    /// It is connected, and would not be sent one more at once.
    Busy,
    /// It is sent one more at once.
    Ready,
}

/// A session's subscription to the filter of the node where it hangs.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Entry {
    /// The session's place in its worker's table.
    pub session: SessionIndex,
    /// Which of the sessions at this index: an entry that is older than the session at its index has no receiver.
    pub generation: u16,
    /// The worker that has the session.
    pub worker: u8,
    /// What was asked for.
    pub options: EntryOptions,
    /// The client's own number for the subscription, 0 for none.
    /// `[MQTT-3.3.4-3]`: a message carries the identifiers of the subscriptions that it matched.
    pub subscription_id: u32,
}

// There is one for each subscription on each worker: millions.
const _: () = assert!(size_of::<Entry>() == 12);

impl Entry {
    /// Whose it is. A session has one entry per filter and group.
    pub fn owner(&self) -> Owner {
        Owner { worker: self.worker, session: self.session }
    }
}

/// A session, for those who need not know which of those that stood at its place.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct Owner {
    /// The worker that has it.
    pub worker: u8,
    /// Its place in that worker's table.
    pub session: SessionIndex,
}
