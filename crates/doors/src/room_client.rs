//! The way of a room's requests from the HTTP door to its shards.

use tidegate_runtime::Client;
use tidegate_runtime::pump::EdgeHandle;
use tidegate_shard::Unavailable;

use crate::http::Door;
use crate::json::Problem;

/// A room's client and the door that its requests come through. Cheap to clone: handlers take it as their state.
pub struct RoomClient<C: Client> {
    /// Says who a caller is, and reads bodies.
    pub door: Door,
    /// Asks the shards.
    pub client: EdgeHandle<C>,
}

impl<C: Client> Clone for RoomClient<C> {
    fn clone(&self) -> Self {
        RoomClient { door: self.door.clone(), client: self.client.clone() }
    }
}

impl<T: Send + 'static, C: Client<Reply = Result<T, Unavailable>>> RoomClient<C> {
    /// Asks by `client` for requests that come through `door`.
    pub fn new(door: Door, client: EdgeHandle<C>) -> RoomClient<C> {
        RoomClient { door, client }
    }

    /// Asks, and waits as long as a request may take.
    pub async fn ask(&self, request: C::Request) -> Result<T, Problem> {
        let reply = self.door.in_time(self.client.ask(request)).await?;
        Ok(reply.unwrap_or_else(|unasked| Err(unasked.into()))?)
    }
}
