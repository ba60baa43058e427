//! A client, its socket, and its connection, if it has one.

use super::client::SimClient;
use super::node::Link;
use super::oracle::{Oracle, Parting};
use super::pipe::Socket;

/// See the module's description.
pub struct Peer {
    pub client: SimClient,
    pub socket: Socket,
    pub link: Option<Link>,
    /// The client has said good-bye: the connection closes when that is sent.
    pub leaving: bool,
}

impl Peer {
    /// A client without a connection.
    pub fn new(client: SimClient) -> Peer {
        Peer { client, socket: Socket::default(), link: None, leaving: false }
    }

    /// Whether it has said DISCONNECT 0x00, and the server has read that.
    pub fn is_heard_out(&self) -> bool {
        self.client.has_taken_leave() && self.socket.up.is_empty()
    }

    /// Its connection is gone, and it knows.
    pub fn disconnect(&mut self, parting: Parting, oracle: &mut Oracle) {
        self.leaving = false;
        self.socket = Socket::default();
        self.client.disconnected(parting, oracle);
    }
}
