//! Collects small writes into larger pieces.

/// Bytes are handed on in pieces of about this size.
const CHUNK_BYTES: usize = 64 * 1024;

/// Gathers small writes into chunks for the sink.
pub(crate) struct Chunks<'s, S: FnMut(&[u8]) + ?Sized> {
    buffer: Vec<u8>,
    sink: &'s mut S,
}

impl<S: FnMut(&[u8]) + ?Sized> Drop for Chunks<'_, S> {
    fn drop(&mut self) {
        assert!(self.buffer.is_empty() || std::thread::panicking(), "the last chunk was never handed on");
    }
}

impl<'s, S: FnMut(&[u8]) + ?Sized> Chunks<'s, S> {
    pub fn new(sink: &'s mut S) -> Chunks<'s, S> {
        Chunks { buffer: Vec::with_capacity(CHUNK_BYTES + 1024), sink }
    }

    pub fn put(&mut self, write: impl FnOnce(&mut Vec<u8>)) {
        write(&mut self.buffer);
        if self.buffer.len() >= CHUNK_BYTES {
            self.flush();
        }
    }

    pub fn flush(&mut self) {
        (self.sink)(&self.buffer);
        self.buffer.clear();
    }
}
