//! How the shell and the broker name connections.

/// One connection of one worker. `index` is dense, so that the shell can keep its sockets in a vector; `generation`
/// tells a late word about a connection that is gone from one about the connection that took its place.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct ConnectionKey {
    /// Place in the table of connections, used again after the connection is gone.
    pub index: u32,
    /// Which of the connections that stood at this place.
    pub generation: u32,
}
