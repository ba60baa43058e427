//! Listening sockets that several threads share without a lock: each thread has its own, the kernel spreads the clients.

use std::io;
use std::net::{SocketAddr, TcpListener};

use socket2::{Domain, Protocol, Socket, Type};

/// Clients that may wait to be accepted, per listening socket.
const BACKLOG: i32 = 4_096;

/// Opens `count` sockets on one address (`SO_REUSEPORT`). With port 0 the system chooses one port for all.
///
/// The error names the address and what to do about it.
pub fn listen(address: SocketAddr, count: usize) -> io::Result<Vec<TcpListener>> {
    let first = open(address)?;
    let address = first.local_addr()?;
    let mut listeners = vec![first];
    for _ in 1..count {
        listeners.push(open(address)?);
    }
    Ok(listeners)
}

fn open(address: SocketAddr) -> io::Result<TcpListener> {
    let listen = || {
        let socket = Socket::new(Domain::for_address(address), Type::STREAM, Some(Protocol::TCP))?;
        socket.set_reuse_address(true)?;
        socket.set_reuse_port(true)?;
        socket.set_nonblocking(true)?;
        socket.bind(&address.into())?;
        socket.listen(BACKLOG)?;
        Ok(socket.into())
    };
    listen().map_err(|error: io::Error| {
        let advice = match error.kind() {
            io::ErrorKind::AddrInUse => "another process has it; stop that one or choose another port",
            io::ErrorKind::PermissionDenied => "ports below 1024 need a privilege; choose a higher port",
            io::ErrorKind::AddrNotAvailable => "no interface of this machine has it",
            _ => "see the listen section of the configuration",
        };
        io::Error::new(error.kind(), format!("cannot listen on {address}: {error} ({advice})"))
    })
}
