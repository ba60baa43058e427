//! Buffers that all clients of a thread share.

/// Bytes on their way through the layers of the client whose turn it is.
#[derive(Default)]
pub struct Scratch {
    /// As they came from the socket, behind what the client had kept.
    pub(super) wire: Vec<u8>,
    /// How much it had kept.
    pub(super) kept: usize,
    /// Without TLS.
    pub(super) plain: Vec<u8>,
    /// Without WebSocket frames.
    pub(super) data: Vec<u8>,
    /// For the wire.
    pub(super) out: Vec<u8>,
    /// What the last read was worth, in bytes.
    pub(super) cost: usize,
}

/// What one read gave.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Received {
    place: Place,
    /// There may be more to read at once: the read took all that it was allowed to. If not, the next bytes are an event
    /// of their own.
    pub more: bool,
    /// The client sends nothing more.
    pub ended: bool,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Place {
    Nowhere,
    Wire { len: usize },
    Data,
}

impl Received {
    pub(super) fn nothing() -> Received {
        Received { place: Place::Nowhere, more: false, ended: false }
    }

    pub(super) fn end() -> Received {
        Received { place: Place::Nowhere, more: false, ended: true }
    }
}

impl Scratch {
    /// Empty buffers.
    pub fn new() -> Scratch {
        Scratch::default()
    }

    /// The bytes of packets that a read gave, until the next one.
    pub fn bytes(&self, heard: &Received) -> &[u8] {
        match heard.place {
            Place::Nowhere => &[],
            Place::Wire { len } => &self.wire[..len],
            Place::Data => &self.data,
        }
    }

    /// What the last read was worth, also if it failed: so many bytes over plain TCP are as much work.
    pub fn cost(&self) -> usize {
        self.cost
    }

    /// Room for `bytes` from the wire, behind what was `kept`.
    pub(super) fn room(&mut self, kept: &[u8], bytes: usize) -> &mut [u8] {
        let end = kept.len() + bytes;
        if self.wire.len() < end {
            self.wire.resize(end, 0);
        }
        self.wire[..kept.len()].copy_from_slice(kept);
        self.kept = kept.len();
        &mut self.wire[kept.len()..end]
    }

    pub(super) fn received_from_wire(&self, len: usize, more: bool) -> Received {
        Received { place: Place::Wire { len }, more, ended: false }
    }

    pub(super) fn received_from_layers(&self, more: bool, ended: bool) -> Received {
        Received { place: Place::Data, more, ended }
    }

    /// What the layers have made for the wire.
    pub(super) fn for_wire(&self) -> &[u8] {
        &self.out
    }
}
