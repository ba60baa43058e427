//! The load against a small server that answers as Tidegate does, but stores nothing.

use super::binary::Transfers;
use super::holds::HoldPairs;
use crate::load::{self, Outcomes, Pressure, Tally};
use crate::workload::{Names, Pattern, Workload};
use std::collections::HashSet;
use std::io::{ErrorKind, Read, Write};
use std::net::{SocketAddr, TcpListener, TcpStream};
use std::sync::{Arc, Mutex};
use tidegate_wire::proto::{Welcome, reply_frame};
use tidegate_wire::{BodyRef, OutcomesEncoder, Split, decode_request, encode_reply, limits, split};

/// The ids that the server has seen; without it every transfer is applied.
type Seen = Option<Arc<Mutex<HashSet<Vec<u8>>>>>;

fn door(seen: Seen) -> SocketAddr {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let address = listener.local_addr().unwrap();
    std::thread::spawn(move || {
        for socket in listener.incoming() {
            let seen = seen.clone();
            std::thread::spawn(move || serve(socket.unwrap(), &seen));
        }
    });
    address
}

fn serve(mut socket: TcpStream, seen: &Seen) {
    let (mut inbox, mut filled, mut out) = (vec![0; 1 << 20], 0, Vec::new());
    loop {
        let mut taken = 0;
        while let Split::Frame(range) = split(&inbox[taken..filled], limits::FRAME_BYTES_MAX).unwrap() {
            answer(&inbox[taken..filled][range.clone()], seen, &mut out);
            taken += range.end;
        }
        if socket.write_all(&out).is_err() {
            return;
        }
        out.clear();
        inbox.copy_within(taken..filled, 0);
        filled -= taken;
        match socket.read(&mut inbox[filled..]) {
            Ok(0) => return,
            Ok(bytes) => filled += bytes,
            Err(error) if error.kind() == ErrorKind::Interrupted => {}
            Err(_) => return,
        }
    }
}

fn answer(frame: &[u8], seen: &Seen, out: &mut Vec<u8>) {
    let request = decode_request(frame).unwrap();
    let mut ids: Vec<Vec<u8>> = Vec::new();
    let mut count = 0;
    match request.body {
        BodyRef::Hello { .. } => {
            return encode_reply(out, request.correlation, reply_frame::Body::Welcome(Welcome::default()));
        }
        BodyRef::Transfers(transfers) => {
            transfers
                .read(|item| {
                    count += 1;
                    if seen.is_some() {
                        ids.push(item.id.of(frame).as_bytes().to_vec());
                    }
                })
                .unwrap();
        }
        BodyRef::Holds(holds) => {
            holds
                .read(|hold| {
                    count += 1;
                    ids.push([b"hold ", hold.id.as_bytes()].concat());
                })
                .unwrap();
        }
        BodyRef::PostHolds(posts) => {
            posts
                .read(|id, amount| {
                    assert_eq!(amount, None, "a pair posts the whole hold");
                    count += 1;
                    let hold = [b"hold ", id.as_bytes()].concat();
                    let held = seen.as_ref().is_none_or(|seen| seen.lock().unwrap().contains(&hold));
                    assert!(held, "a post before its hold was answered");
                    ids.push([b"post ", id.as_bytes()].concat());
                })
                .unwrap();
        }
        other => panic!("not asked by a load: {other:?}"),
    }
    let mut outcomes = OutcomesEncoder::begin(out, request.correlation, count);
    match seen {
        None => (0..count).for_each(|_| outcomes.applied()),
        Some(seen) => {
            for id in ids {
                if seen.lock().unwrap().insert(id) { outcomes.applied() } else { outcomes.duplicate() }
            }
        }
    }
    outcomes.finish();
}

fn pay(address: SocketAddr, names: &Names, transfers: u64, batch: usize, pressure: Pressure) -> Tally {
    let work = Workload::new(Pattern::Uniform, names.wallets(), transfers, 0);
    load::run(address, pressure, &mut Transfers::new(names, work, batch)).unwrap()
}

#[test]
fn every_transfer_is_sent_once_and_its_outcome_counted() {
    let address = door(Some(Arc::default()));
    let names = Names::new(100);
    for (batch, connections, in_flight) in [(1, 1, 1), (1, 7, 16), (8_190, 2, 2)] {
        // An odd number, so that the last request is a short one; the same ids each time.
        let tally = pay(address, &names, 10_007, batch, Pressure { connections, in_flight });
        let expected = match connections {
            1 => Outcomes { applied: 10_007, ..Outcomes::default() },
            _ => Outcomes { duplicate: 10_007, ..Outcomes::default() },
        };
        assert_eq!(tally.outcomes(), expected);
    }
}

#[test]
fn a_pair_is_a_hold_and_then_its_post() {
    let seen = Arc::default();
    let names = Names::new(100);
    let work = Workload::new(Pattern::Uniform, names.wallets(), 5_003, 0);
    let mut pairs = HoldPairs::new(&names, work, 64);
    let tally =
        load::run(door(Some(Arc::clone(&seen))), Pressure { connections: 3, in_flight: 2 }, &mut pairs).unwrap();
    assert_eq!(tally.outcomes(), Outcomes { applied: 5_003, ..Outcomes::default() });
    assert_eq!(seen.lock().unwrap().len(), 2 * 5_003, "every hold and every post, once");
}
