//! WebSocket frames in pieces: the result must not depend on where the bytes were cut.
//!
//! The first byte says whose frames they are and how long a piece is; the others are the frames.

use tidegate_wire::websocket::{Event, FrameDecoder, Violation};

/// What a stream of frames says: its MQTT bytes, everything else, and how it broke the protocol.
type Told = (Vec<u8>, Vec<Event>, Option<Violation>);

/// Reads the bytes whole and in pieces.
pub fn check(bytes: &[u8]) {
    let Some((&choice, frames)) = bytes.split_first() else { return };
    let decoder = if choice & 1 == 0 { FrameDecoder::server } else { FrameDecoder::client };
    let whole = read(decoder(), frames, frames.len().max(1));
    let pieces = read(decoder(), frames, usize::from(choice >> 1) + 1);
    assert_eq!(whole, pieces);
    assert!(whole.0.len() <= frames.len());
}

fn read(mut decoder: FrameDecoder, frames: &[u8], piece: usize) -> Told {
    let (mut data, mut events) = (Vec::new(), Vec::new());
    for chunk in frames.chunks(piece) {
        let mut chunk = chunk.to_vec();
        let mut at = 0;
        while at < chunk.len() {
            let step = match decoder.next(&mut chunk[at..]) {
                Ok(step) => step,
                Err(violation) => {
                    assert!(violation.code.may_be_sent());
                    return (data, events, Some(violation));
                }
            };
            assert!(step.used > 0, "each call takes something");
            match step.event {
                Some(Event::Data(range)) => {
                    assert!(range.end <= step.used && !range.is_empty());
                    data.extend_from_slice(&chunk[at..][range]);
                }
                Some(event) => events.push(event),
                None => assert_eq!(at + step.used, chunk.len()),
            }
            at += step.used;
        }
    }
    (data, events, None)
}
