//! All bounds of the broker in one place, with the relations that must hold between them, and the bounds that a
//! configuration sets.

use tidegate_journal::limits::RECORD_BYTES_MAX;

use crate::ShareStrategy;

/// Packet ids go from 1 to here.
/// `[MQTT-2.2.1-3]`: a packet id chosen by the client is not 0 and not in use.
pub const PACKET_IDS: u64 = 65_535;
/// Connections that the keep-alive hand looks at in a step, at least.
pub const SWEEP_SLICE_MIN: usize = 64;
/// How long the keep-alive hand takes for a round over all connections, in milliseconds.
pub const SWEEP_ROUND_MS: u64 = 2_000;
/// Buffers that are kept for the next connection that needs one.
pub const POOLED_BUFFERS_MAX: usize = 1_024;
/// A buffer that has grown beyond this is given back to the allocator instead of being kept.
pub const POOLED_BUFFER_BYTES_MAX: usize = 16 << 10;
/// Items that wait for a peer whose ring is full before this worker stops reading from publishers.
pub const PEER_ITEMS_MAX: usize = 64 << 10;
/// Topics that services answer. Each PUBLISH is compared with all of them.
pub const REQUEST_TOPICS_MAX: usize = 16;
/// Requests on such topics in progress, per worker.
pub const REQUESTS_MAX: usize = 8_192;
/// Bytes of a request.
pub const REQUEST_BYTES_MAX: usize = 1 << 20;
/// Messages of a queue that one subscription of an MQTT 5 client has under way, if its Receive Maximum is not smaller.
pub const DELIVERIES_UNDER_WAY_MAX: usize = 256;
/// The same for MQTT 3.1.1, which cannot say how much it takes.
pub const DELIVERIES_UNDER_WAY_V311: usize = 20;
/// Bytes of messages of queues that one worker has for clients which do not take them: above, it asks for no more.
pub const UNSENT_DELIVERY_BYTES_MAX: usize = 32 << 20;
/// Subscriptions of one session that receive from queues.
pub const RECEIVERS_OF_SESSION_MAX: usize = 8;
/// Packet ids in front of a durable session's window that are left to the messages of its inbox.
pub const IDS_LEFT_TO_INBOX: u64 = 8_192;
/// Messages of a feed that may be beyond the place that its session keeps durably: so many of each partition of its
/// source may come twice.
pub const FEED_WINDOW: u64 = 256;
/// Work of a connection that goes on because of something else than its turn: an answer, a shard that has room again. A
/// packet is one, and less than a microsecond.
pub const WORK_AT_ONCE: isize = 16;
/// Connections that nobody serves in turn and that one step goes on with.
pub const UNSERVED_PER_STEP: usize = 256;
/// Connections and filters that one step of a reload looks at. A filter is about two microseconds.
pub const RELOAD_WORK_PER_STEP: usize = 256;
/// Bytes of a packet that are one more work.
pub const BYTES_PER_WORK: usize = 4 << 10;
/// Bytes of a filter that are one more work: two levels, each a node that is looked for and made.
pub const FILTER_BYTES_PER_WORK: usize = 4;
/// Work of filters after which the rest of a SUBSCRIBE or UNSUBSCRIBE waits for the next turn of its connection: about
/// a third of a millisecond. One packet of the largest size took 60 ms, in which its worker did nothing else.
pub const FILTER_WORK_AT_ONCE: u64 = 256;
/// Copies of a publication that are one more work.
pub const RECEIVERS_PER_WORK: isize = 16;
/// Nodes that a match visits, and copies for shards and for other workers, that are one more work. A node is two cache
/// misses: sixteen take about as long as a packet.
pub const ROUTING_STEPS_PER_WORK: isize = 16;
/// Work of one filter of a SUBSCRIBE or UNSUBSCRIBE, whatever its length: its rights, its place in the tree, a record,
/// and an item for each other worker, where it is put into the tree as well.
pub const WORK_OF_FILTER: u64 = 4;
/// Work of a request that a service answers, beyond that of its packet: it is read, asked, answered and sent.
pub const WORK_OF_REQUEST: isize = 8;
/// Conditions of rights that one SUBSCRIBE may have asked about. After each answer its filters are looked at again.
pub const CONDITIONS_OF_SUBSCRIBE_MAX: usize = 64;
/// Bytes that may always wait for a client without a user, if the configuration allows any so many.
pub const ANONYMOUS_OUTBOX_BYTES_MIN: usize = 16 << 10;
/// What waits for clients without a user has this part of the bound of pressure, over all of them; what they leave
/// behind has this part of its bound.
pub const ANONYMOUS_PART: u64 = 2;
/// One client without a user has this part of what is left of that.
pub const ANONYMOUS_SHARE: u64 = 4;
/// One client may hold so many times as much as is left for others of what may wait for all ([`BrokerLimits`]:
/// `waiting_bytes_max`).
pub const WAITING_SHARE: u64 = 3;
/// This part of it is for clients that take what they are sent.
pub const WAITING_FLOWING_PART: u64 = 4;
/// Nobody's share is looked at before this part of it is held.
pub const WAITING_SCARCE_PART: u64 = 8;
/// Sessions that are tried again in one step because others held all that may wait.
pub const STARVED_PER_STEP: usize = 64;
/// A PUBLISH beside its topic, its properties and its payload, about.
pub const PACKET_HEAD_BYTES: usize = 16;
/// Bytes of a session that outlives its connection, beside its client id and its will: here, in its shard, in tables.
pub const SESSION_BYTES: u64 = 512;
/// So many bytes of a packet without the rest are a connection's own; more are paid for by who owns its session.
pub const UNREAD_FREE_BYTES: usize = 4 << 10;
/// Bytes of a subscription beside its filter: its place in the tree, and in its session.
pub const FILTER_BYTES: u64 = 128;
/// Feeds of one session.
pub const FEEDS_OF_SESSION_MAX: usize = 8;
/// How long a source that was not ready is left alone, in milliseconds.
pub const FEED_LATER_MS: u64 = 1_000;
/// Largest `{seconds}` in `$delayed/{seconds}/{topic}`, as EMQX has it.
pub const DELAY_SECONDS_MAX: u64 = 4_294_967;
/// Messages of QoS 0 that wait in memory for their time under `$delayed`, per worker. Those of clients without a user
/// may be a part of them ([`ANONYMOUS_PART`]).
pub const VOLATILE_DELAYED_MAX: usize = 65_536;
/// How long an outbox may make no progress before it counts as stuck, not as flowing, in milliseconds.
pub const FLOWING_MS: u64 = 200;
/// How long a connection that is to be closed waits for its client to take the last bytes, in milliseconds: the reason
/// stands behind them.
pub const LAST_BYTES_MS: u64 = 1_000;
/// Answers of a session that wait, in Receive Maximums: what connections before the one there is left behind is among
/// them.
pub const ANSWERS_PER_RECEIVE_MAXIMUM: usize = 2;
/// QoS 2 publications of a session that are not released, in Receive Maximums. A client that comes back releases what
/// is open before it sends more.
pub const OPEN_PER_RECEIVE_MAXIMUM: usize = 4;
/// How late a message whose expiry interval has passed is still delivered at once, in milliseconds: the way from worker
/// to worker takes some. With an interval of 0 this is all the time it has.
pub const AT_ONCE_MS: u64 = 100;
/// How often members of share groups are looked at that have something to take, in milliseconds.
pub const SHARES_LOOK_MS: u64 = 100;
/// Sessions that one such look is about.
pub const SHARES_LOOKS: usize = 4_096;
/// How often it is looked for what waits for members of share groups that do not take it, in milliseconds.
pub const PASS_LOOK_MS: u64 = 250;
/// Members that one such look is about, and others that it considers for one.
pub const PASS_LOOKS: usize = 64;
/// Messages that a look gives to another member.
pub const PASS_MESSAGES: usize = 64;
/// Entries of an inbox that a look visits.
pub const PASS_VISITS: usize = 4_096;
/// Nodes of the tree of subscriptions that such a look visits, to find by which of a member's subscriptions messages
/// came, and filters of members: two milliseconds, or so.
pub const PASS_MATCHES: usize = 1 << 14;
/// Entries and nodes that are visited in a step for members that unsubscribe. The next ones wait for the next step.
pub const PASS_UNSENT_LOOKS: usize = 1 << 16;
/// Looks, one after the other, at what was not sent to a member that unsubscribes: more than there are in an inbox of a
/// hundred thousand messages on few topics.
pub const PASS_UNSENT_ROUNDS: usize = 32;
/// Messages that a look gives to others of a member that is over.
pub const PASS_LAST_MESSAGES: usize = 1_024;
/// How often what a member has that is over is offered again at once, to others than before, if those did not take it;
/// after that, once in each [`PASS_LOOK_MS`]...
pub const PASS_AT_ONCE: u64 = 8;
/// ... for so long, in milliseconds...
pub const PASS_ENDING_MS: u64 = 60_000;
/// ... unless more than so many end: each is among what is due until it has ended, and others are due behind them.
pub const PASS_ENDINGS_MAX: usize = DUE_LOOKED_AT_MAX / 4;
/// Members that are over and waited for, which one step looks at.
pub const PASS_ENDINGS: usize = 8;
/// How long a CONNECT, or an operator, waits until others have what a member has that it ends, in milliseconds.
pub const PASS_WAIT_MS: u64 = 3_000;
/// Messages that members have left whose sessions live in memory alone, which one step gives to others.
pub const LEFT_PER_STEP: usize = 256;
/// Nodes, members and receivers that are looked at for these in one step.
pub const LEFT_STEPS: u64 = 4_096;
/// Messages that are left, in one work.
pub const LEFT_PER_WORK: u64 = 16;
/// After so many of clients that take nothing, the others are looked at in the next look.
pub const LEFT_PER_LOOK: usize = 4_096;
/// A member for whom more than this waits is given nothing that was another's.
pub const PASS_WAITING_MAX: usize = 64;
/// How often it is tried to write them, in milliseconds.
pub const LAST_BYTES_EVERY_MS: u64 = 10;
/// Connections that wait so, per worker; of more, the oldest are closed at once.
pub const CLOSING_MAX: usize = 1_024;
/// How long what is due is left alone after somebody had no room on the disk for it, in milliseconds.
pub const DUE_AGAIN_MS: u64 = 1_000;
/// How long a CONNECT waits for the will of its session that is under way, in milliseconds: a record of each receiver
/// takes some, and clients wait for CONNACK for several seconds.
pub const WILL_WAIT_MS: u64 = 1_000;
/// How many due things of a topic shard (expiries, wills, delayed messages) one step does before it serves others.
pub const DUE_PER_STEP: usize = 256;
/// Due things of a topic shard among which a step looks for those: what it has done waits for room on a full disk.
pub const DUE_LOOKED_AT_MAX: usize = 4 * DUE_PER_STEP;
/// Rows of one page that an operator gets.
pub const OPERATOR_ROWS_MAX: usize = 1_000;
/// Calls of operators that wait, per worker.
pub const OPERATOR_CALLS_MAX: usize = 4_096;
/// Calls of operators that one step does, and the copies after which it does no more of them.
pub const OPERATOR_CALLS_PER_STEP: usize = 32;
/// See [`OPERATOR_CALLS_PER_STEP`].
pub const OPERATOR_COPIES_PER_STEP: u64 = 4_096;
/// Lists that are being made for operators, per worker. Each holds the names of a page.
pub const OPERATOR_SCANS_MAX: usize = 16;
/// Places of sessions that one step of such a list looks at.
pub const OPERATOR_PLACES_PER_STEP: u32 = 1_024;
/// Rows that one step of such a list makes.
pub const OPERATOR_ROWS_PER_STEP: usize = 64;
/// Filters of a session that an operator is shown.
pub const OPERATOR_FILTERS_MAX: usize = 1_000;
/// Their bytes.
pub const OPERATOR_FILTER_BYTES_MAX: usize = 256 << 10;
/// Bytes of a CONNECT: a client id, a user name, a token, a will of some size. Buffered for every new connection.
pub const CONNECT_BYTES_MAX: u32 = 64 << 10;
/// Bytes of the topics to which one client may have set aliases: one topic of any length, or hundreds of usual ones.
pub const ALIAS_BYTES_MAX: usize = 64 << 10;
/// Bytes of those to which the broker sets aliases for one client; the topics after them are written out.
pub const ALIAS_BYTES_OUT_MAX: usize = 16 << 10;
/// Bytes of a client id.
pub const CLIENT_ID_BYTES_MAX: usize = 1_024;
/// Nodes of the retained tree that one step of a walk visits.
pub const RETAINED_NODES_PER_STEP: usize = 256;
/// What a walk that begins costs, in nodes.
pub const NODES_OF_SCAN: usize = 8;
/// Walks of a session that wait, for one node more of each that is gone on with.
pub const SCANS_PER_NODE: usize = 64;
/// Walks of a session that wait, for one work of a filter that is removed: its own is looked for among them.
pub const SCANS_PER_WORK: u64 = 32;
/// Bytes of filters that wait for the retained messages of one session. A filter beyond is refused.
pub const SCAN_BYTES_MAX: usize = 1 << 20;
/// What became durable and is gone on with in one step, in work.
pub const RELEASED_WORK_PER_STEP: u64 = 1_024;
/// Retained messages handed to one session in one go.
pub const RETAINED_PER_PUMP: usize = 64;
/// Sessions of a shard for whom one record takes a message; more are served by more records. Part of what a journal
/// means: an origin names its part by it, so it never changes.
pub const PART_SLOTS: usize = 16 << 10;
/// Parts of an origin from this one on are those of share groups: this and the low 31 bits of the hash of the group's
/// subscription. It never changes either.
pub const GROUP_PARTS: u32 = 1 << 31;
/// Bytes of a packet that always fits a record, with all receivers of its part. A larger one is delivered live, and
/// refused with 0x97 to receivers for whom it would have to be kept.
pub const KEPT_PACKET_BYTES_MAX: usize = RECORD_BYTES_MAX / 2;

/// The bounds that a config may set. [`Default`] is what a config that is silent gets.
#[derive(Clone, Debug, PartialEq)]
pub struct BrokerLimits {
    /// Connections of this worker.
    pub connections_max: usize,
    /// From accept to CONNECT, in milliseconds.
    pub handshake_ms: u64,
    /// Bytes of a packet from a client; told to MQTT 5 clients. What is above [`KEPT_PACKET_BYTES_MAX`] may be too
    /// large to be kept.
    pub packet_bytes_max: u32,
    /// QoS 1 and 2 publications that a client may have unanswered; told to MQTT 5 clients as Receive Maximum.
    pub receive_maximum: u16,
    /// Publications of QoS 1 and 2 in flight to one client, also if it allows more.
    pub window_max: u16,
    /// Topic aliases that a client may set, per connection.
    pub topic_alias_maximum: u16,
    /// Topic aliases that the broker sets for a client that allows them.
    pub topic_aliases_out_max: u16,
    /// Longest keep-alive in seconds; a client that asks for more or none gets this one, 0 for no bound. MQTT 5 clients
    /// are told; MQTT 3.1.1 has no word for it, and those clients must be set up with no more.
    pub keep_alive_max_s: u16,
    /// Longest life of a session without a connection, in seconds.
    pub session_expiry_max_s: u32,
    /// Bytes that wait in one connection's outbox. Beyond it QoS 0 is dropped and QoS 1 and 2 wait in the inbox.
    pub outbox_bytes_max: usize,
    /// Bytes in flowing outboxes of one worker above which publishers are not read.
    pub pressure_bytes_max: u64,
    /// Bytes that wait in memory for the clients of one worker, of all together: in outboxes, and in the inboxes of
    /// clean sessions.
    pub waiting_bytes_max: u64,
    /// Messages that wait for one clean session.
    pub clean_inbox_messages_max: u32,
    /// Bytes that wait for one clean session.
    pub clean_inbox_bytes_max: usize,
    /// What happens to a message for a clean session whose inbox is full.
    pub clean_inbox_policy: InboxPolicy,
    /// How long a connected client may take nothing of what it is sent before its full inbox in the journal refuses
    /// nothing more, in milliseconds; `None` where inboxes refuse nothing anyway.
    pub refuse_stalled_ms: Option<u64>,
    /// What happens to a client that is connected and loses a message, because it does not take what is sent to it.
    pub slow_reader: SlowReader,
    /// How share groups divide their messages.
    pub share_strategy: ShareStrategy,
    /// How long a connected member of a share group may take nothing before it counts as away, and for how long what
    /// waits for one that is away is left to it, in milliseconds; 0 for no bound.
    pub share_stalled_ms: u64,
    /// Subscriptions of one session.
    pub subscriptions_max: usize,
    /// Publications per second and client; 0 for no bound.
    pub publishes_per_s: u32,
    /// Bytes of publications per second and client; 0 for no bound.
    pub publish_bytes_per_s: u64,
    /// Interval of `$SYS`, in milliseconds; 0 for none.
    pub sys_interval_ms: u64,
}

/// What happens when one more message than fits is to wait.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum InboxPolicy {
    /// The oldest that waits makes room.
    DropOldest,
    /// The new one is dropped.
    DropNewest,
    /// The client is disconnected with 0x97.
    Refuse,
}

/// What happens to a client that takes its messages so slowly that one is lost to it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum SlowReader {
    /// Nothing: the message is counted.
    Drop,
    /// It is disconnected with 0x97, so that it knows.
    Disconnect,
}

impl Default for BrokerLimits {
    fn default() -> BrokerLimits {
        BrokerLimits {
            connections_max: 1 << 21,
            handshake_ms: 10_000,
            packet_bytes_max: KEPT_PACKET_BYTES_MAX as u32,
            receive_maximum: 1_024,
            window_max: 1_024,
            topic_alias_maximum: 32,
            topic_aliases_out_max: 16,
            keep_alive_max_s: 0,
            session_expiry_max_s: 7 * 24 * 3600,
            outbox_bytes_max: 1 << 20,
            pressure_bytes_max: 64 << 20,
            waiting_bytes_max: 1 << 30,
            clean_inbox_messages_max: 1_000,
            clean_inbox_bytes_max: 1 << 20,
            clean_inbox_policy: InboxPolicy::DropNewest,
            refuse_stalled_ms: None,
            slow_reader: SlowReader::Drop,
            share_strategy: ShareStrategy::RoundRobin,
            share_stalled_ms: 30_000,
            subscriptions_max: 10_000,
            publishes_per_s: 0,
            publish_bytes_per_s: 0,
            sys_interval_ms: 10_000,
        }
    }
}

/// Size of a segment file of a log of topics. Smaller than a ledger's, because there are more of them, and because what
/// is forgotten goes by whole segments.
pub const SEGMENT_BYTES: u64 = 64 << 20;
/// Commands that wait to be decided by a shard of topics before it has no room for more.
pub const COMMANDS_WAITING_MAX: usize = 16_384;
/// Their bytes, messages included.
pub const COMMAND_BYTES_WAITING_MAX: usize = 16 << 20;

// The window never spans all packet ids, so that an id names one message.
const _: () = assert!((u16::MAX as u64) <= PACKET_IDS);
const _: () = assert!(DELIVERIES_UNDER_WAY_MAX * RECEIVERS_OF_SESSION_MAX < PACKET_IDS as usize / 16);
const _: () = assert!(IDS_LEFT_TO_INBOX < PACKET_IDS / 4, "ids are left for messages of queues");
// Packet ids of feeds go around, and those under way are few among them.
const _: () = assert!(FEED_WINDOW as usize * FEEDS_OF_SESSION_MAX < PACKET_IDS as usize / 16);
// No slot is in a part of a share group.
const _: () = assert!(u32::MAX / (PART_SLOTS as u32) < GROUP_PARTS);
// A receiver takes a slot of up to five bytes, a byte of flags and a count of up to five; identifiers of subscriptions
// come besides.
const _: () = assert!(KEPT_PACKET_BYTES_MAX + PART_SLOTS * (5 + 1 + 5) + (64 << 10) <= RECORD_BYTES_MAX);
const _: () = assert!(POOLED_BUFFERS_MAX * POOLED_BUFFER_BYTES_MAX <= 16 << 20);
