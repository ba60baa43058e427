//! What a node serves, as the node sees it.

use anyhow::{Result, anyhow};
use tidegate_journal::Family;

use super::Site;
use crate::address::Address;
use crate::member::Port;
use crate::placement::Home;

/// What a node serves: a part with logs, ports, shards and threads of its own. Hooks are called in the order in which
/// they stand here, each for all rooms before the next one.
pub trait Room<P>: Send {
    /// The families of its logs, and where their shards live on a worker.
    fn families(&self) -> Vec<(Family, Home)> {
        Vec::new()
    }

    /// Whether each worker has a port of this room.
    fn has_port(&self) -> bool {
        false
    }

    /// Endpoints that it takes for threads beside the workers.
    fn endpoints(&self) -> u16 {
        0
    }

    /// The directory is locked and nothing is recovered yet. A room that answers "recovering" to clients begins here.
    fn open(&mut self, _site: &mut Site<P>) -> Result<()> {
        Ok(())
    }

    /// Begins the recovery of its logs, by [`Site::recover_member`] or [`Site::recover_inside`].
    fn recover(&mut self, _site: &mut Site<P>) -> Result<()> {
        Ok(())
    }

    /// Makes the port of a worker. Asked of rooms with ports only, once for each worker, in order; `me` is its address.
    /// All logs are recovered.
    fn port(&mut self, _site: &mut Site<P>, _me: Address) -> Result<Box<dyn Port<P>>> {
        Err(anyhow!("this room has no port"))
    }

    /// The workers run, but health does not say so yet. A room begins here what needs shards that answer.
    fn begin(&mut self, _site: &mut Site<P>) -> Result<()> {
        Ok(())
    }

    /// The process stops: threads that the room has spawned must end, when they have finished what was accepted.
    fn stop(&mut self) {}
}
