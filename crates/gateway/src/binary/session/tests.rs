//! A session over a real socket.

use std::io::Read;
use std::net::{TcpListener, TcpStream};

use super::*;

#[test]
fn who_reads_steadily_but_never_all_costs_one_outbox() {
    const PAGE: usize = 100 << 10;
    const READ: usize = 256 << 10;
    /// So much goes through an outbox that is never empty.
    const TOTAL: usize = 64 << 20;
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let mut client = TcpStream::connect(listener.local_addr().unwrap()).unwrap();
    let (accepted, _) = listener.accept().unwrap();
    accepted.set_nonblocking(true).unwrap();
    let mut session = Session::new(Stream::Plain(mio::net::TcpStream::from_std(accepted)), 0);

    let mut read = 0;
    let mut some = vec![0; READ];
    while read < TOTAL {
        // Pages come as long as the door lets the client ask; then the socket takes what it has room for.
        loop {
            while session.may_ask() {
                session.outbox().extend_from_slice(&[7; PAGE]);
            }
            if session.flush().unwrap() == 0 {
                break;
            }
        }
        assert!(session.has_unsent(), "the client never reads all");
        let kept = session.outbox.capacity();
        assert!(kept <= 4 * OUTBOX_BYTES_MAX, "after {read} bytes the outbox keeps {kept}");
        client.read_exact(&mut some).unwrap();
        assert!(some.iter().all(|byte| *byte == 7));
        read += READ;
    }
}
