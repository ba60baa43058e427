//! A message of a log in a stream. Raw bytes rarely pass the checksum, so they are also taken as the fields of a
//! message that is sealed well: what follows the checksum must be as careful.

use tidegate_journal::limits::MESSAGE_BYTES_MAX;
use tidegate_journal::stream::message::{MESSAGE_HEADER_BYTES, MessageHeader, MessageKind, decode};
use tidegate_journal::{ChainHash, LogId};

/// Reads the bytes as a message; then as fields and payload of one.
pub fn check(bytes: &[u8]) {
    if let Ok((header, payload)) = decode(bytes) {
        assert_eq!(&header.encode(payload)[..], bytes, "what is read is what was written");
    }
    let Some((fields, payload)) = bytes.split_first_chunk::<32>() else { return };
    if payload.len() > MESSAGE_BYTES_MAX - MESSAGE_HEADER_BYTES {
        return;
    }
    let number = |at: usize| u64::from_le_bytes(fields[at..at + 8].try_into().expect("eight bytes"));
    let short = |at: usize| u16::from_le_bytes([fields[at], fields[at + 1]]);
    let log = LogId { directory: number(0), family: fields[30], shard: short(28) };
    let (epoch, settled, first) = (number(0) >> 20, number(8), number(16));
    let (part, parts) = (short(24), short(26));
    let Some(own) = first.checked_add(u64::from(part)) else { return };
    let kind = MessageKind::Part { epoch, settled, first, part, parts, chain: ChainHash([fields[31]; 32]) };
    let header = MessageHeader { log, number: own, kind };
    if let Ok((read, body)) = decode(&header.encode(payload)) {
        assert_eq!((read, body), (header, payload));
        assert!(part < parts && epoch >= 1 && epoch <= settled && settled < first && !payload.is_empty());
    }
    let epoch = MessageHeader { log, number: first, kind: MessageKind::Epoch { writer: settled } };
    if let Ok((read, _)) = decode(&epoch.encode(&[])) {
        assert_eq!(read, epoch);
        assert!(first >= 1, "messages are numbered from 1");
    }
}
