//! A commit group. Raw bytes rarely pass its checksums, so they are also sealed as the records of a group that is right
//! in all else; with a count of zero, as a notice. The code behind the checksums must be as careful as they are.

use tidegate_journal::group::{self, GROUP_HEADER_BYTES, GroupHeader, RECORD_HEADER_BYTES};
use tidegate_journal::limits::GROUP_BYTES_MAX;
use tidegate_journal::segment::{Mark, SegmentHeader};
use tidegate_journal::{ChainHash, LogId, Position, Sequence};

/// The part of a header that the chain hash covers, as docs/formats/journal.md says.
const HASHED_BYTES: usize = 80;

/// Reads the bytes as a group, a segment header and a mark; then as the records of a well-sealed group.
pub fn check(bytes: &[u8]) {
    if let Ok(decoded) = group::decode(bytes) {
        assert_eq!(decoded.records().count(), decoded.header.record_count as usize);
    }
    let _ = SegmentHeader::decode(bytes);
    let _ = Mark::decode(bytes);

    let Some((head, body)) = bytes.split_first_chunk::<4>() else { return };
    if body.len() > GROUP_BYTES_MAX - GROUP_HEADER_BYTES {
        return;
    }
    let mut header = GroupHeader {
        log: LogId { directory: 7, family: 1, shard: 0 },
        first_sequence: Sequence(1),
        base: Position(0),
        synced_up_to: Position(0),
        record_count: u32::from_le_bytes(*head),
        body_bytes: body.len() as u32,
        previous: ChainHash::default(),
        chain: ChainHash::default(),
    };
    let mut hasher = blake3::Hasher::new();
    hasher.update(&header.encode()[..HASHED_BYTES]).update(body);
    header.chain = ChainHash(hasher.finalize().into());
    let sealed = [&header.encode()[..], body].concat();
    if let Ok(decoded) = group::decode(&sealed) {
        assert_eq!(decoded.records().count(), header.record_count as usize);
        if header.is_notice() {
            return;
        }
        let bytes: usize = decoded.records().map(|(_, _, payload)| RECORD_HEADER_BYTES + payload.len()).sum();
        assert_eq!(bytes, body.len(), "records fill their group");
    }
}
