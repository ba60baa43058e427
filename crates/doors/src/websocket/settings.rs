//! Where MQTT over WebSocket is served, and for whom.

/// MQTT over WebSocket.
#[derive(Clone, Debug)]
pub struct WebSocketSettings {
    /// Path on the HTTP port.
    pub path: Box<str>,
    /// Pages of which origins may connect; see [`Origins`].
    pub origins: Origins,
    /// Whether a client without credentials may come in here.
    pub anonymous: bool,
    /// Clients at once, over all workers.
    pub connections_max: usize,
    /// Clients taken per second, over all workers; 0 for no bound. Who comes faster is answered with 503.
    pub connections_per_s: u32,
}

/// Pages of which origins may open a WebSocket. A browser says whose page asks; other programs send no `Origin` and
/// may.
///
/// Why this is checked: a page of another site could otherwise use the access of a visitor's browser, for example that
/// it is in the same network as the server.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Origins {
    /// Pages that came from the same host and port as they connect to; where clients need no credentials, only if that
    /// host is this machine by any resolver. What a config gets that says nothing.
    SameHost,
    /// Pages of these origins, as `https://example.org`, and those of the same host.
    Listed(Vec<Box<str>>),
    /// Every page.
    Any,
}
