//! What snapshots of topics are, beside what all snapshots are.

use tidegate_machines::topic::Topics;

use crate::snapshot::Snapshotted;

impl Snapshotted for Topics {
    const MAGIC: [u8; 8] = *b"TGTOPS\r\n";
    const FOLDER: &'static str = "topics";
    /// The newest, and the one before it, as far back as which the log reaches.
    const KEPT: usize = 2;

    fn write_body(&self, part: &mut dyn FnMut(&[u8])) {
        self.write_snapshot(part);
    }

    fn read_body(body: &[u8]) -> Result<Topics, String> {
        Topics::decode_snapshot(body).map_err(|error| error.to_string())
    }
}
