//! What a client sends ahead of its answers, and how it ends.

use std::net::Shutdown;

use super::*;

#[test]
fn a_frame_that_is_longer_than_its_senders_bounds_allow_is_refused_by_its_length() {
    let requests = Rate { per_s: 1, burst: 20 };
    let mut door = Door::with_quota(QuotaLimits { requests, ..QuotaLimits::NONE });
    let token = door.token_of("dave");
    let mut client = clients(&mut door, 1, &token).remove(0);
    let whole = empty_transfers(40_000);
    // Its length and one byte are enough.
    client.write_all(&whole[..5]).unwrap();
    let begun = std::time::Instant::now();
    while door.port.refused.refusals.get("frame_too_large") == 0 {
        assert!(begun.elapsed() < Duration::from_secs(20), "it waits for the rest");
        door.turn();
    }
}

/// Turns until the port has ended this many connections.
fn until_left(door: &mut Door, count: usize) {
    let begun = Instant::now();
    while door.port.sessions.len() > count {
        assert!(begun.elapsed() < Duration::from_secs(20), "{} connections stay", door.port.sessions.len());
        door.turn();
    }
}

#[test]
fn the_end_of_a_client_is_met_although_it_came_with_its_last_request() {
    let mut door = Door::open();
    let mut frames = Vec::new();
    encode_request(&mut frames, 1, request_frame::Body::Hello(proto::Hello { token: door.token() }));
    frames.extend_from_slice(&pings(1));
    let mut client = TcpStream::connect(door.address).unwrap();
    // Taken and met before anything is sent: what comes then is one event.
    while door.port.sessions.is_empty() {
        door.turn();
    }
    door.turn();
    client.write_all(&frames).unwrap();
    client.shutdown(Shutdown::Write).unwrap();
    until_left(&mut door, 0);
    let mut heard = Vec::new();
    client.read_to_end(&mut heard).unwrap();
    assert_eq!(frames_in(&heard), 2, "both are answered");
}

#[test]
fn half_frames_of_one_viewer_take_a_bounded_part_of_memory_and_leave_others_theirs() {
    const BYTES: usize = 400_000;
    let fit = HELD_BYTES.of_viewer_max / BYTES;
    let requests = Rate { per_s: 1_000, burst: 8_190 };
    let mut door = Door::with_quota(QuotaLimits { requests, ..QuotaLimits::NONE });
    let (flood, mine) = (door.token_of("dave"), door.token_of("erin"));
    let mut flooders = clients(&mut door, fit + 5, &flood);
    let mut me = clients(&mut door, 1, &mine).remove(0);
    let half = &empty_transfers(BYTES)[..BYTES];
    for sender in flooders.iter_mut().chain([&mut me]) {
        sender.set_nonblocking(false).unwrap();
        // The port must read for all of it to leave.
        let mut rest = half;
        sender.set_nonblocking(true).unwrap();
        while !rest.is_empty() {
            match sender.write(rest) {
                Ok(count) => rest = &rest[count..],
                // It is ended by now.
                Err(error) if error.kind() != std::io::ErrorKind::WouldBlock => break,
                Err(_) => {}
            }
            door.turn();
        }
    }
    until_left(&mut door, fit + 1);
    assert_eq!(door.port.refused.refusals.get("busy"), 5);
    // Mine is not among those that are ended: the rest of it is read.
    assert!(me.read(&mut [0; 100]).is_err_and(|error| error.kind() == std::io::ErrorKind::WouldBlock));
}
