//! A stream of the binary port, decoded as the server decodes it and as the client does.

use tidegate_wire::limits::FRAME_BYTES_MAX;
use tidegate_wire::{BodyRef, ReplyBodyRef, Split, decode_reply, decode_request, split};

/// Cuts the bytes into frames and reads each as a request and as a reply.
pub fn check(bytes: &[u8]) {
    let mut rest = bytes;
    while let Ok(Split::Frame(range)) = split(rest, FRAME_BYTES_MAX) {
        let end = range.end;
        let frame = &rest[range];
        read_request(frame);
        read_reply(frame);
        assert!(end > 0, "a frame takes at least its length prefix");
        rest = &rest[end..];
    }
    // Without the length prefix nearly every mutation reaches the decoders.
    read_request(bytes);
    read_reply(bytes);
}

fn read_request(frame: &[u8]) {
    let Ok(request) = decode_request(frame) else { return };
    match request.body {
        BodyRef::Transfers(transfers) => {
            // Every text that is handed out lies in the frame and is text: `of` would panic otherwise.
            let _ = transfers.read(|item| {
                for span in [item.id, item.debit, item.credit, item.memo] {
                    assert!(span.of(frame).len() <= frame.len());
                }
            });
        }
        BodyRef::OpenAccounts(accounts) => {
            let _ = accounts.read(|open| {
                for span in [open.id, open.asset] {
                    assert!(span.of(frame).len() <= frame.len());
                }
            });
        }
        BodyRef::Holds(holds) => drop(holds.read(|_| {})),
        BodyRef::PostHolds(posts) => drop((posts.id_space(), posts.read(|_, _| {}))),
        BodyRef::VoidHolds(voids) => drop((voids.id_space(), voids.read(|_| {}))),
        BodyRef::Room(room) => assert!(room.body.is_empty() || frame.as_ptr_range().contains(&room.body.as_ptr())),
        _ => {}
    }
}

fn read_reply(frame: &[u8]) {
    let Ok(reply) = decode_reply(frame) else { return };
    if let ReplyBodyRef::Outcomes(outcomes) = reply.body {
        assert!(outcomes.take(frame.len() + 1).count() <= frame.len(), "an outcome takes at least one byte");
    }
}
