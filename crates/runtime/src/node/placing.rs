//! Where everything lives: each worker gets its ports, with their clocks, and its residents.

use std::sync::Arc;
use std::sync::atomic::AtomicU16;

use anyhow::Result;
use tidegate_journal::Family;
use tidegate_machines::TimeMs;

use super::{Member, Room, Site};
use crate::address::{Address, EndpointIndex};
use crate::clock::{ClockKeeper, ClockMetrics};
use crate::metrics::LoopMetrics;
use crate::placement::Home;
use crate::port_clock::PortClock;
use crate::start_clock::{self, Told};
use crate::worker::{Worker, WorkerGroup};

/// Gives each worker its ports and its residents.
pub(super) fn place<P: Send + 'static>(
    site: &mut Site<P>,
    rooms: &mut [Box<dyn Room<P>>],
    residents: Vec<Member<P>>,
    told: &[Told],
) -> Result<Vec<Worker<P>>> {
    let clock = site.clock.clone();
    let began = clock.now();
    let metrics = ClockMetrics::register(&site.registry);
    let mut keeper = Some(ClockKeeper::new(clock.clone(), metrics, site.status.clone()));
    let group = WorkerGroup {
        status: site.status.clone(),
        clock,
        quiet: Arc::new(AtomicU16::new(0)),
        count: site.placement.workers(),
    };
    let mut residents = residents.into_iter().peekable();
    let mut workers = Vec::new();
    for endpoint in std::mem::take(&mut site.endpoints) {
        let worker = endpoint.index();
        let mut ports = Vec::new();
        for room in rooms.iter_mut().filter(|room| room.has_port()) {
            let me = Address::new(worker.0, ports.len() as u16);
            let clock = port_clock(site, &**room, told, began, worker);
            ports.push((room.port(site, me)?, clock));
        }
        let mut own = Vec::new();
        while let Some((address, resident)) = residents.next_if(|(address, _)| address.endpoint == worker) {
            assert!(usize::from(address.member.0) == ports.len() + own.len(), "a member stands where its parcels go");
            own.push(resident);
        }
        assert!(ports.len() + own.len() == usize::from(site.placement.members(worker.0)), "every member is there");
        let metrics = LoopMetrics::register(&site.registry, worker.0);
        let made = Worker::new(ports, own, endpoint, group.clone(), metrics)?;
        workers.push(match keeper.take() {
            Some(keeper) => made.with_clock_keeper(keeper),
            None => made,
        });
    }
    Ok(workers)
}

/// The clock of a room's port, which began with the node at `began`; that of the first worker tells.
fn port_clock<P>(site: &Site<P>, room: &dyn Room<P>, told: &[Told], began: TimeMs, worker: EndpointIndex) -> PortClock {
    let of_room = room.families().into_iter();
    let inside: Vec<Family> = of_room.filter(|(_, home)| *home != Home::Member).map(|(family, _)| family).collect();
    let newest = start_clock::newest_of(told, &inside);
    match inside.first() {
        Some(family) if worker.0 == 0 => PortClock::of_family(family, newest, began, &site.registry),
        _ => PortClock::starting(newest, began),
    }
}
