//! What comes under TLS at the HTTP door waits for its turn before it is opened, for as long as that costs.
//!
//! ```text
//!   socket ─┬─ of a handshake ─▶ read ─▶ the turn of its address, few handshakes in each ─▶ TLS ─▶ signature
//!           └─ of records ─────▶ as many rounds as the records before were worth ─▶ read ─▶ TLS ─▶ requests
//! ```
//!
//! Promise: however many clients begin a handshake at once, requests wait for few of them in each turn of the thread,
//! and a handshake waits for one of each other address. Whoever sends records with nothing in them is charged for them
//! as for requests. When nobody else asks, nothing waits.
//!
//! Why what was read waits, and not the read: a place in a turn is for a handshake that goes on, so a client that says
//! nothing takes none; and one that sends its hello in pieces pays for each of them.

use std::io;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll, ready};

use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};

use super::turns::RequestTurns;
use crate::turns::CallerMark;

/// Bytes of a handshake that are read at once: a hello is shorter.
const SHAKING_READ_BYTES: usize = 4 << 10;
/// Bytes of ciphertext that cost as much to open as a small request costs to answer: about ten microseconds.
const BYTES_PER_ROUND: u64 = 16 << 10;
/// What a record is worth beside its bytes, in bytes: about a quarter of a microsecond.
const RECORD_COST: u64 = 512;
/// The header of a record: its type, its version, its length.
const RECORD_HEADER_BYTES: usize = 5;

/// A connection below its TLS.
pub(super) struct Ciphertext<S> {
    stream: S,
    turns: Arc<RequestTurns>,
    /// The client's address.
    caller: CallerMark,
    records: Records,
    /// What was opened and not waited for, in bytes.
    owed: u64,
    waits: Option<Pin<Box<dyn Future<Output = ()> + Send>>>,
    is_shaking: bool,
    /// Of the handshake, read and not given to TLS.
    held: Vec<u8>,
}

impl<S> Ciphertext<S> {
    /// Of a handshake that begins, until [`Ciphertext::shaken`].
    pub fn new(stream: S, turns: Arc<RequestTurns>, caller: CallerMark) -> Ciphertext<S> {
        let (records, held) = (Records::default(), Vec::new());
        Ciphertext { stream, turns, caller, records, owed: 0, waits: None, is_shaking: true, held }
    }

    /// The handshake is over.
    pub fn shaken(&mut self) {
        self.is_shaking = false;
    }

    /// The connection alone; `None` if something was read of it that TLS has not seen.
    pub fn into_inner(self) -> Option<S> {
        self.held.is_empty().then_some(self.stream)
    }

    /// Waits for the rounds of what was opened.
    fn poll_rounds(&mut self, context: &mut Context<'_>) -> Poll<()> {
        let rounds = self.owed / BYTES_PER_ROUND;
        if rounds == 0 {
            return Poll::Ready(());
        }
        let waits = self.waits.get_or_insert_with(|| {
            let (turns, caller) = (self.turns.clone(), self.caller);
            Box::pin(async move { turns.take(caller, rounds).await })
        });
        ready!(waits.as_mut().poll(context));
        self.waits = None;
        self.owed %= BYTES_PER_ROUND;
        Poll::Ready(())
    }

    /// Waits until a handshake of this address may go on.
    fn poll_handshake(&mut self, context: &mut Context<'_>) -> Poll<()> {
        let waits = self.waits.get_or_insert_with(|| {
            let (turns, caller) = (self.turns.clone(), self.caller);
            Box::pin(async move { turns.take_handshake(caller).await })
        });
        ready!(waits.as_mut().poll(context));
        self.waits = None;
        Poll::Ready(())
    }

    /// Gives what is held to TLS, as much of it as there is room for.
    fn give(&mut self, into: &mut ReadBuf<'_>) {
        let bytes = self.held.len().min(into.remaining());
        into.put_slice(&self.held[..bytes]);
        self.held.drain(..bytes);
        if self.held.is_empty() {
            // Given back: it is needed no more behind the handshake.
            self.held = Vec::new();
        }
    }
}

impl<S: AsyncRead + Unpin> Ciphertext<S> {
    /// Reads something of the handshake; `true` if nothing comes any more.
    fn poll_hold(&mut self, context: &mut Context<'_>) -> Poll<io::Result<bool>> {
        let mut room = [0; SHAKING_READ_BYTES];
        let mut read = ReadBuf::new(&mut room);
        ready!(Pin::new(&mut self.stream).poll_read(context, &mut read))?;
        self.held = read.filled().to_vec();
        self.records.count(&self.held);
        Poll::Ready(Ok(self.held.is_empty()))
    }
}

impl<S: AsyncRead + Unpin> AsyncRead for Ciphertext<S> {
    fn poll_read(mut self: Pin<&mut Self>, context: &mut Context<'_>, into: &mut ReadBuf<'_>) -> Poll<io::Result<()>> {
        let this = &mut *self;
        if this.is_shaking {
            if this.held.is_empty() && ready!(this.poll_hold(context))? {
                return Poll::Ready(Ok(()));
            }
            ready!(this.poll_handshake(context));
        }
        if !this.held.is_empty() {
            this.give(into);
            return Poll::Ready(Ok(()));
        }
        ready!(this.poll_rounds(context));
        let before = into.filled().len();
        ready!(Pin::new(&mut this.stream).poll_read(context, into))?;
        let came = &into.filled()[before..];
        this.owed += came.len() as u64 + this.records.count(came) * RECORD_COST;
        Poll::Ready(Ok(()))
    }
}

impl<S: AsyncWrite + Unpin> AsyncWrite for Ciphertext<S> {
    fn poll_write(mut self: Pin<&mut Self>, context: &mut Context<'_>, bytes: &[u8]) -> Poll<io::Result<usize>> {
        Pin::new(&mut self.stream).poll_write(context, bytes)
    }

    fn poll_write_vectored(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
        parts: &[io::IoSlice<'_>],
    ) -> Poll<io::Result<usize>> {
        Pin::new(&mut self.stream).poll_write_vectored(context, parts)
    }

    fn is_write_vectored(&self) -> bool {
        self.stream.is_write_vectored()
    }

    fn poll_flush(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.stream).poll_flush(context)
    }

    fn poll_shutdown(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.stream).poll_shutdown(context)
    }
}

/// Finds where records begin, by their headers, which are not encrypted.
#[derive(Default)]
struct Records {
    header: Vec<u8>,
    /// Bytes to come of the record that has begun.
    left: usize,
}

impl Records {
    /// How many records have begun in the bytes that come next.
    fn count(&mut self, mut bytes: &[u8]) -> u64 {
        let mut begun = 0;
        while !bytes.is_empty() {
            let skipped = self.left.min(bytes.len());
            self.left -= skipped;
            bytes = &bytes[skipped..];
            let of_header = bytes.len().min(RECORD_HEADER_BYTES - self.header.len());
            self.header.extend_from_slice(&bytes[..of_header]);
            bytes = &bytes[of_header..];
            if let [_, _, _, high, low] = self.header[..] {
                self.left = usize::from(u16::from_be_bytes([high, low]));
                self.header.clear();
                begun += 1;
            }
        }
        begun
    }
}

#[cfg(test)]
mod tests;
