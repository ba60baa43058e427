//! The shard of the services and users that are managed while the server runs, as a room of a node, and how a change
//! comes into force.
//!
//! ```text
//!   recovery ─────────────────────────▶ Authenticator::put_in_force          before anything is served
//!   PUT ─▶ shard ─▶ log ─▶ sync ─▶ tick: all of it durable? ─▶ thread ─▶ put_in_force ─▶ whoever waits is answered
//! ```
//!
//! Promise: what is in force is durable, and what was answered is in force at every door. Why a thread: a roster comes
//! into force as a reload does, which takes longer than a worker may wait.

use std::sync::Arc;
use std::sync::mpsc::{SyncSender, sync_channel};
use std::thread;

use anyhow::Result;
use tidegate_journal::{Family, Options};
use tidegate_machines::ShardIndex;
use tidegate_roster::limits::SEGMENT_BYTES;
use tidegate_roster::{Allowed, Command, ROSTER, Roster, RosterFamily, RosterService};
use tidegate_runtime::direct::{Direct, DirectClient, DirectProtocol, Ticket};
use tidegate_runtime::shard_resident::ShardResident;
use tidegate_runtime::{Carries, Home, Room, Site};
use tidegate_shard::{NothingDerived, Shard};

use crate::auth::Authenticator;
use crate::http_room::OpenHttpRoom;
use crate::roster_http::RosterHttp;

/// What threads send each other about them.
pub type RosterParcel = Direct<RosterService<Ticket>>;

/// Their shard.
pub struct RosterRoom {
    allowed: Allowed,
    authenticator: Arc<Authenticator>,
}

impl RosterRoom {
    /// A room of at most so many, who may come in by `authenticator`.
    pub fn new(allowed: Allowed, authenticator: Arc<Authenticator>) -> RosterRoom {
        RosterRoom { allowed, authenticator }
    }
}

/// The services and users at the HTTP door.
pub fn open_roster<P: Carries<RosterParcel>>() -> OpenHttpRoom<P> {
    Box::new(|site, pump| {
        let shards = site.placement().shards(ROSTER);
        Box::new(RosterHttp(pump.client(|_| DirectClient::new(shards, |_: &Command, _| ShardIndex(0)))))
    })
}

impl<P: Carries<RosterParcel>> Room<P> for RosterRoom {
    fn families(&self) -> Vec<(Family, Home)> {
        vec![(ROSTER, Home::Member)]
    }

    fn recover(&mut self, site: &mut Site<P>) -> Result<()> {
        let logs: Vec<_> = site.directory().logs(ROSTER).collect();
        for log in logs {
            let (allowed, authenticator) = (self.allowed, self.authenticator.clone());
            let changes = in_force_from(self.authenticator.clone())?;
            site.recover_member::<RosterFamily>(log, Options::small(SEGMENT_BYTES), move |recovery| {
                let back = recovery.replay(recovery.open()?, &mut NothingDerived)?;
                let mut told = back.state.sequence();
                authenticator.put_in_force(Arc::new(back.state.clone()));
                let service = RosterService::new(allowed);
                let shard = Shard::new(ShardIndex(log.shard), back.state, service, back.log)?;
                let resident = ShardResident::new(shard, DirectProtocol, recovery.into_metrics());
                Ok(Box::new(resident.on_tick(move |shard, _| {
                    let (state, durable) = (shard.state_ahead(), shard.durable());
                    let is_news = told < state.sequence() && state.sequence() <= durable.0;
                    // With one on its way, the next tick tells of both.
                    if is_news && changes.try_send(Arc::new(state.clone())).is_ok() {
                        told = state.sequence();
                    }
                })))
            })?;
        }
        Ok(())
    }
}

/// Starts the thread that puts rosters in force. It ends when the shard does, which sends them.
fn in_force_from(authenticator: Arc<Authenticator>) -> Result<SyncSender<Arc<Roster>>> {
    let (changes, rosters) = sync_channel(1);
    let put = move || rosters.into_iter().for_each(|roster| authenticator.put_in_force(roster));
    thread::Builder::new().name("roster".into()).spawn(put)?;
    Ok(changes)
}
