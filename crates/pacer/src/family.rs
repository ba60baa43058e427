//! Campaigns as a family of shards: which files they are, how their commands are served, and who asks them.

use std::sync::Arc;

use slab::Slab;
use tidegate_journal::{Family, Retention};
use tidegate_machines::ShardIndex;
use tidegate_runtime::clock::NodeClock;
use tidegate_runtime::direct::{Direct, Ticket};
use tidegate_runtime::limits::CLIENT_REQUESTS_MAX;
use tidegate_runtime::{Address, Client, Outgoing, Replies, ShardAddresses};
use tidegate_shard::{Commands, CompactionRule, Decided, Durable, RecordClass, ShardFamily, Single, Unavailable};

use crate::limits::{
    COMMAND_BYTES_WAITING_MAX, COMMANDS_WAITING_MAX, SEGMENT_BYTES, WORK_IN_STEP_MAX, WORK_OF_CHANGE, WORK_OF_LEASE,
    WORK_OF_PAGE,
};
use crate::machine::{
    Allowed, Campaigns, Command, Event, Given, LeaseId, LeaseWanted, Outcome, PaidLease, PaidOnDay, Refusal, Regained,
    RetiredLease, Win,
};
use crate::token::Bid;

/// The logs of campaigns: what a snapshot holds is forgotten.
pub const CAMPAIGNS: Family = Family { number: 5, name: "campaigns", retention: Retention::SinceSnapshot };

/// What its logs fold into, and how its snapshots are kept.
pub struct CampaignsFamily;

impl ShardFamily for CampaignsFamily {
    type Machine = Campaigns;
    const FAMILY: Family = CAMPAIGNS;
    /// The newest, and the one before it, in case the newest is damaged.
    const SNAPSHOTS_KEPT: usize = 2;
    /// A snapshot is written once for four times its bytes of log.
    const COMPACTION: CompactionRule = CompactionRule { floor_bytes: 2 * SEGMENT_BYTES, ratio: 4 };
    const WHEN_LOST: &'static str = "campaigns have spent what they had before: what they have won since is paid \
                                     by nobody, and their budgets are spent that much more. See to the budgets before \
                                     bids come; what the ledger holds for leases since stays held until they end";
}

/// How calls are served: each is one command.
pub type CampaignService = Single<CampaignCommands>;

/// What threads send each other about campaigns.
pub type CampaignMessage = Direct<CampaignService>;

/// What shards of campaigns are served with.
#[derive(Clone, Debug)]
pub struct Serving {
    /// What may be.
    pub allowed: Allowed,
    /// By which is bid.
    pub clock: Arc<NodeClock>,
}

/// The commands of campaigns.
pub struct CampaignCommands;

impl Commands for CampaignCommands {
    type Command = Command;
    type Event = Event;
    type Machine = Campaigns;
    type Family = CampaignsFamily;
    type Context = Serving;
    type Ticket = Ticket;

    const COMMANDS_WAITING_MAX: usize = COMMANDS_WAITING_MAX;
    const COMMAND_BYTES_WAITING_MAX: usize = COMMAND_BYTES_WAITING_MAX;
    const WORK_IN_STEP_MAX: usize = WORK_IN_STEP_MAX;

    /// One is a win.
    fn work(command: &Command) -> usize {
        match command {
            Command::Put { .. } | Command::Delete { .. } => WORK_OF_CHANGE,
            Command::Win { wins } => wins.len(),
            Command::Lose { bids } => bids.len(),
            Command::Open { wanted } => WORK_OF_LEASE * wanted.len(),
            Command::Retire { leases } => WORK_OF_LEASE * leases.len(),
            Command::Close { leases } | Command::Settle { leases } => WORK_OF_LEASE * leases.len(),
            Command::Spending { campaigns } => campaigns.len(),
            Command::Forget { campaigns } => campaigns.len(),
            Command::Regain { regained: Regained { days, .. }, .. } => WORK_OF_LEASE * days.len().max(1),
            Command::Correct { leases } => leases.len(),
            _ => WORK_OF_PAGE,
        }
    }

    fn weight(command: &Command) -> usize {
        size_of::<Command>()
            + match command {
                Command::Put { id, plan, by } => id.len() + by.len() + plan.bytes(),
                Command::Delete { id, by } => id.len() + by.len(),
                Command::Read { id } | Command::List { after: id, .. } => id.len(),
                Command::Forget { campaigns } => campaigns.len() * 4,
                Command::Spending { campaigns } => campaigns.len() * 8,
                Command::Open { wanted } => wanted.len() * size_of::<LeaseWanted>(),
                Command::Win { wins } => wins.len() * size_of::<Win>(),
                Command::Lose { bids } => bids.len() * size_of::<Bid>(),
                Command::Retire { leases } => leases.len() * size_of::<RetiredLease>(),
                Command::Close { leases } | Command::Settle { leases } => leases.len() * size_of::<LeaseId>(),
                Command::Regain { regained: Regained { days, .. }, .. } => days.len() * size_of::<PaidOnDay>(),
                Command::Correct { leases } => leases.len() * size_of::<PaidLease>(),
                Command::Changed { .. }
                | Command::Leases { .. }
                | Command::Known { .. }
                | Command::Begin
                | Command::Openings => 0,
            }
    }

    fn class(command: &Command) -> RecordClass {
        match command {
            // What has happened is noted, and what ends something.
            Command::Win { .. }
            | Command::Close { .. }
            | Command::Settle { .. }
            | Command::Regain { .. }
            | Command::Correct { .. }
            | Command::Delete { .. }
            | Command::Forget { .. } => RecordClass::Note,
            // A loss has happened, too. But what it returns comes back without it, and wins need the room.
            _ => RecordClass::New,
        }
    }

    fn with(Serving { allowed, clock }: &Serving) -> Given {
        Given { allowed: *allowed, clock: clock.now() }
    }
}

/// A command, and the shard that it is for.
#[derive(Clone, Debug)]
pub struct CampaignRequest {
    /// Which shard.
    pub shard: ShardIndex,
    /// What.
    pub command: Command,
}

/// Asks the shards of campaigns.
pub struct CampaignClient {
    shards: ShardAddresses,
    /// The caller's token of each request; `None` once it was cancelled.
    asked: Slab<Option<u64>>,
}

impl CampaignClient {
    /// Of these shards.
    pub fn new(shards: ShardAddresses) -> CampaignClient {
        CampaignClient { shards, asked: Slab::new() }
    }

    /// How many shards there are.
    pub fn shards(&self) -> u16 {
        self.shards.count()
    }
}

impl Client for CampaignClient {
    type Request = CampaignRequest;
    type Reply = Result<Outcome, Unavailable>;
    type Message = CampaignMessage;

    fn has_room(&self) -> bool {
        self.asked.len() < CLIENT_REQUESTS_MAX
    }

    fn pending(&self) -> usize {
        self.asked.len()
    }

    fn start(
        &mut self,
        token: u64,
        CampaignRequest { shard, command }: CampaignRequest,
        out: &mut Outgoing<CampaignMessage>,
        replies: &mut Replies<Self::Reply>,
    ) {
        if !self.has_room() {
            return replies.push((token, Err(Unavailable::Busy)));
        }
        let number = self.asked.insert(Some(token)) as u64;
        out.push((self.shards.of(shard), Direct::Call { number, call: command }));
    }

    fn deliver(
        &mut self,
        _from: Address,
        message: CampaignMessage,
        _out: &mut Outgoing<CampaignMessage>,
        replies: &mut Replies<Self::Reply>,
    ) {
        let Direct::Answer { number, answer } = message else { unreachable!("nobody calls a client") };
        let Some(token) = self.asked.remove(number as usize) else { return };
        let outcome = answer.map(|answer| match Durable::into_inner(answer) {
            Decided::Done { outcome, .. } | Decided::Answered(outcome) => outcome,
            // A plan that does not fit a record has more of something than may be.
            Decided::TooLarge => Outcome::Refused(Refusal::IdInvalid),
        });
        replies.push((token, outcome));
    }

    fn cancel(&mut self, token: u64, _out: &mut Outgoing<CampaignMessage>) {
        let of_token = self.asked.iter_mut().map(|(_, asked)| asked).find(|asked| **asked == Some(token));
        if let Some(asked) = of_token {
            *asked = None;
        }
    }
}

/// The shard of a new campaign, or of the one that has this id. `{tag}` in an id puts campaigns together.
pub fn shard_of(id: &str, shards: u16) -> ShardIndex {
    tidegate_machines::shard_of(id, shards)
}
