//! Reads the next part of a file on a thread of its own, while the one before it is looked at.
//!
//! Why not leave that to the system: what it reads ahead stays in its cache, and new memory for a cache that nobody
//! needs costs more than reading.

use std::io;
use std::sync::Arc;
use std::sync::mpsc::{Receiver, Sender, channel};
use std::thread;

use crate::disk::DiskFile;
use crate::folder::read_once_up_to;

/// So many bytes from an offset on, into this memory.
struct Wanted {
    memory: Vec<u8>,
    offset: u64,
    bytes: usize,
}

/// The thread, which ends with it.
pub(crate) struct Prefetch {
    wanted: Sender<Wanted>,
    read: Receiver<io::Result<Vec<u8>>>,
    /// From where on something is being read.
    coming: Option<u64>,
    /// Memory of what was looked at.
    spare: Vec<u8>,
}

impl Prefetch {
    pub fn new(file: Arc<dyn DiskFile>) -> Prefetch {
        let (wanted, requests) = channel::<Wanted>();
        let (answers, read) = channel();
        thread::spawn(move || {
            while let Ok(Wanted { mut memory, offset, bytes }) = requests.recv() {
                memory.resize(bytes, 0);
                let answer = read_once_up_to(&*file, &mut memory, offset).map(|filled| {
                    memory.truncate(filled);
                    memory
                });
                if answers.send(answer).is_err() {
                    break;
                }
            }
        });
        Prefetch { wanted, read, coming: None, spare: Vec::new() }
    }

    /// Appends to `into` what stands at `offset`: up to so many bytes, and none at or behind `limit`. What follows is
    /// on its way then.
    pub fn read(&mut self, offset: u64, bytes: usize, limit: u64, into: &mut Vec<u8>) -> io::Result<usize> {
        if self.coming.is_some_and(|coming| coming != offset) {
            // Somebody went elsewhere: what comes, or why it does not, is wanted no more.
            self.coming = None;
            drop(self.receive());
        }
        if self.coming.is_none() {
            self.want(offset, bytes, limit);
        }
        if self.coming.take().is_none() {
            return Ok(0);
        }
        let part = self.receive()?;
        let read = part.len();
        if read > 0 {
            self.want(offset + read as u64, bytes, limit);
        }
        into.extend_from_slice(&part);
        self.spare = part;
        Ok(read)
    }

    fn want(&mut self, offset: u64, bytes: usize, limit: u64) {
        let bytes = bytes.min(usize::try_from(limit.saturating_sub(offset)).unwrap_or(usize::MAX));
        if bytes > 0 {
            let wanted = Wanted { memory: std::mem::take(&mut self.spare), offset, bytes };
            self.wanted.send(wanted).expect("the thread ends with its owner");
            self.coming = Some(offset);
        }
    }

    fn receive(&mut self) -> io::Result<Vec<u8>> {
        self.read.recv().expect("the thread answers until its owner ends")
    }
}
