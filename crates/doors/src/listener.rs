//! Listening sockets for several threads without a lock: each thread has its own socket on the same address, and the
//! kernel distributes the clients.

use std::io;
use std::net::{SocketAddr, TcpListener};
use std::time::Duration;

use socket2::{Domain, Protocol, Socket, TcpKeepalive, Type};

/// Clients that may wait to be accepted, per listening socket.
const BACKLOG: i32 = 4_096;

/// When the kernel asks a silent client whether it is still there, and how often until it takes it for dead. So a
/// connection whose other end is gone without a word ends within four minutes, whatever its protocol bounds.
const KEEPALIVE: TcpKeepalive =
    TcpKeepalive::new().with_time(Duration::from_secs(120)).with_interval(Duration::from_secs(30)).with_retries(4);

/// Opens `count` sockets on one address (`SO_REUSEPORT`). With port 0 the system chooses one port for all.
///
/// The error names the address and what to do about it.
pub fn listen(address: SocketAddr, count: usize) -> io::Result<Vec<TcpListener>> {
    // Sockets with `SO_REUSEPORT` would also share the address with another process of the same user, and each process
    // would get half of the clients. A first bind without that option finds this out.
    drop(open(address, false)?);
    let first = open(address, true)?;
    let address = first.local_addr()?;
    let mut listeners = vec![first];
    for _ in 1..count {
        listeners.push(open(address, true)?);
    }
    Ok(listeners)
}

fn open(address: SocketAddr, shared: bool) -> io::Result<TcpListener> {
    let listen = || {
        let socket = Socket::new(Domain::for_address(address), Type::STREAM, Some(Protocol::TCP))?;
        socket.set_reuse_address(true)?;
        socket.set_reuse_port(shared)?;
        socket.set_nonblocking(true)?;
        // Accepted sockets have it from here: what is written is whole, waiting for more would only add Nagle's delay.
        socket.set_tcp_nodelay(true)?;
        // This, too.
        socket.set_tcp_keepalive(&KEEPALIVE)?;
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_accepted_does_not_wait_for_more_and_is_asked_whether_it_is_there() {
        let ours = listen("127.0.0.1:0".parse().unwrap(), 1).unwrap().remove(0);
        let _client = std::net::TcpStream::connect(ours.local_addr().unwrap()).unwrap();
        let accepted = std::iter::repeat_with(|| ours.accept()).find_map(Result::ok).unwrap();
        assert!(accepted.0.nodelay().unwrap());
        let accepted = socket2::SockRef::from(&accepted.0);
        assert!(accepted.keepalive().unwrap(), "the kernel asks whether it is still there");
        assert_eq!(accepted.tcp_keepalive_time().unwrap(), Duration::from_secs(120));
    }

    #[test]
    fn threads_share_an_address_but_processes_do_not() {
        let ours = listen("127.0.0.1:0".parse().unwrap(), 3).unwrap();
        let address = ours[0].local_addr().unwrap();
        assert!(ours.iter().all(|listener| listener.local_addr().unwrap() == address));
        let error = listen(address, 1).unwrap_err();
        assert_eq!(error.kind(), io::ErrorKind::AddrInUse);
        assert!(error.to_string().contains("another process has it"), "{error}");
    }
}
