//! One connection: requests are numbered when they are sent, and replies are matched by that number.

use crate::error::ClientError;
use crate::inbox::Inbox;
use crate::outbox::Outbox;
use crate::reply::Reply;
use crate::request::{Hold, Transfer};
use std::collections::VecDeque;
use std::io::{ErrorKind, Read, Write};
use tidegate_wire::proto::{self, AccountKind, Welcome, request_frame::Body};
use tidegate_wire::{
    HoldsEncoder, OpenAccountsEncoder, PostHoldsEncoder, RoomRef, TransfersEncoder, encode_request, encode_room, limits,
};

/// Frames that wait are written once they are this long, without being asked to.
const FLUSH_BYTES: usize = 64 << 10;

/// A connection that was let in. Not for several threads at once; connections are cheap, so open one for each.
///
/// After an error other than [`ClientError::TimedOut`], [`ClientError::Server`], [`ClientError::TooManyInFlight`],
/// [`ClientError::RequestTooLarge`], [`ClientError::TooManyItems`] and [`ClientError::NoItems`], the connection is of
/// no more use.
#[derive(Debug)]
pub struct Client<S> {
    stream: S,
    outbox: Outbox,
    inbox: Inbox,
    welcome: Welcome,
    last_correlation: u64,
    /// Requests whose reply was not read from the socket yet.
    unanswered: usize,
    /// Replies that came while [`Client::receive_reply_to`] waited for another one.
    parked: VecDeque<(u64, Reply)>,
}

impl<S: Read + Write> Client<S> {
    /// Shows `token` over a stream that is connected already, and waits for the welcome. The stream must block; its
    /// time-outs become [`ClientError::TimedOut`].
    pub fn over(stream: S, token: &str) -> Result<Client<S>, ClientError> {
        // The bounds that hold before the server has told its own.
        let welcome = Welcome {
            frame_bytes_max: limits::FRAME_BYTES_MAX_UNAUTHENTICATED as u32,
            transfers_max: 0,
            in_flight_max: 1,
            server: String::new(),
        };
        let mut client = Client {
            stream,
            outbox: Outbox::new(),
            inbox: Inbox::new(),
            welcome,
            last_correlation: 0,
            unanswered: 0,
            parked: VecDeque::new(),
        };
        let hello = client.send_body(Body::Hello(proto::Hello { token: token.to_owned() }))?;
        match client.receive_reply_to(hello)? {
            Reply::Welcome(welcome) => client.welcome = welcome,
            other => return Err(mismatch("welcome", &other)),
        }
        Ok(client)
    }

    /// The server's bounds and version.
    pub fn welcome(&self) -> &Welcome {
        &self.welcome
    }

    /// The stream below.
    pub fn stream(&self) -> &S {
        &self.stream
    }

    /// Requests whose reply [`Client::receive`] has not given out yet.
    pub fn in_flight(&self) -> usize {
        self.unanswered + self.parked.len()
    }

    /// Sends transfers, decided one by one, or all or nothing if `linked`. Answered by [`Reply::Outcomes`]. Returns the
    /// correlation that the reply will carry, as all `send_*` do; nothing may be written before [`Client::flush`].
    pub fn send_transfers(&mut self, transfers: &[Transfer<'_>], linked: bool) -> Result<u64, ClientError> {
        self.send(transfers.len(), |out, correlation| {
            let mut frame = TransfersEncoder::begin(out, correlation, linked);
            transfers.iter().for_each(|transfer| frame.push(&transfer.as_wire()));
            frame.finish();
        })
    }

    /// Sends holds, decided one by one, or all or nothing if `linked`. Answered by [`Reply::Outcomes`].
    pub fn send_holds(&mut self, holds: &[Hold<'_>], linked: bool) -> Result<u64, ClientError> {
        self.send(holds.len(), |out, correlation| {
            let mut frame = HoldsEncoder::begin(out, correlation, linked);
            holds.iter().for_each(|hold| frame.push(&hold.transfer.as_wire(), hold.expires_in_ms));
            frame.finish();
        })
    }

    /// Sends posts: of each hold all (`None`) or so much. Answered by [`Reply::Outcomes`].
    pub fn send_posts(&mut self, posts: &[(&str, Option<u64>)]) -> Result<u64, ClientError> {
        self.send(posts.len(), |out, correlation| {
            let mut frame = PostHoldsEncoder::begin(out, correlation);
            posts.iter().for_each(|(id, amount)| frame.push(id.as_bytes(), *amount));
            frame.finish();
        })
    }

    /// Sends voids. Answered by [`Reply::Outcomes`].
    pub fn send_voids(&mut self, ids: &[&str]) -> Result<u64, ClientError> {
        let body =
            Body::VoidHolds(proto::VoidHolds { ids: ids.iter().map(|id| (*id).to_owned()).collect(), id_space: None });
        self.send(ids.len(), |out, correlation| encode_request(out, correlation, body))
    }

    /// Asks to open an account. Answered by [`Reply::Opened`].
    pub fn send_open_account(&mut self, id: &str, asset: &str, kind: AccountKind) -> Result<u64, ClientError> {
        let (id, asset) = (id.to_owned(), asset.to_owned());
        self.send_body(Body::OpenAccount(proto::OpenAccount { id, asset, kind: kind as i32 }))
    }

    /// Asks to open accounts (id, asset, kind) one by one. Answered by [`Reply::Outcomes`]: a duplicate was open
    /// already with the same content.
    pub fn send_open_accounts(&mut self, accounts: &[(&str, &str, AccountKind)]) -> Result<u64, ClientError> {
        self.send(accounts.len(), |out, correlation| {
            let mut frame = OpenAccountsEncoder::begin(out, correlation);
            accounts.iter().for_each(|(id, asset, kind)| frame.push(id.as_bytes(), asset.as_bytes(), *kind));
            frame.finish();
        })
    }

    /// Asks for one account. Answered by [`Reply::Account`].
    pub fn send_read_account(&mut self, id: &str) -> Result<u64, ClientError> {
        self.send_body(Body::ReadAccount(proto::ReadAccount { id: id.to_owned() }))
    }

    /// Asks for accounts whose ids begin with `prefix` and come after `after`. Answered by [`Reply::Accounts`].
    pub fn send_list_accounts(&mut self, prefix: &str, after: &str, limit: u32) -> Result<u64, ClientError> {
        let (prefix, after) = (prefix.to_owned(), after.to_owned());
        self.send_body(Body::ListAccounts(proto::ListAccounts { prefix, after, limit }))
    }

    /// Asks for history, newest first, from `before` on (`""` for the newest). Answered by [`Reply::History`].
    pub fn send_read_history(&mut self, id: &str, before: &str, limit: u32) -> Result<u64, ClientError> {
        self.send_read_history_of(id, before, limit, (None, None))
    }

    /// The same, only rows of the times from the first to the second, both included, milliseconds since the epoch;
    /// `None` is no bound. A page may be short, even empty, and still have a `next`. With limit 1 and an end, the row
    /// that is found first and `held` are balance and holds of that time.
    pub fn send_read_history_of(
        &mut self,
        id: &str,
        before: &str,
        limit: u32,
        (from_ms, to_ms): (Option<u64>, Option<u64>),
    ) -> Result<u64, ClientError> {
        let (id, before) = (id.to_owned(), before.to_owned());
        self.send_body(Body::ReadHistory(proto::ReadHistory { id, before, limit, from_ms, to_ms }))
    }

    /// Asks what became of a transfer. Answered by [`Reply::Transfer`].
    pub fn send_read_transfer(&mut self, id: &str) -> Result<u64, ClientError> {
        self.send_body(Body::ReadTransfer(proto::ReadTransfer { id: id.to_owned(), id_space: None }))
    }

    /// Asks for a hold and its state. Answered by [`Reply::Hold`].
    pub fn send_read_hold(&mut self, id: &str) -> Result<u64, ClientError> {
        self.send_body(Body::ReadHold(proto::ReadHold { id: id.to_owned(), id_space: None }))
    }

    /// Asks for a page of the open holds on an account. Answered by [`Reply::OpenHolds`].
    pub fn send_list_holds(&mut self, account: &str, after: &str, limit: u32) -> Result<u64, ClientError> {
        let (account, after) = (account.to_owned(), after.to_owned());
        self.send_body(Body::ListHolds(proto::ListHolds { account, after, limit }))
    }

    /// Asks to change an account. Answered by [`Reply::Changed`].
    pub fn send_change_account(&mut self, change: proto::ChangeAccount) -> Result<u64, ClientError> {
        self.send_body(Body::ChangeAccount(change))
    }

    /// Asks to declare the decimals of an asset. Answered by [`Reply::AssetDeclared`].
    pub fn send_declare_asset(&mut self, asset: &str, decimals: u32) -> Result<u64, ClientError> {
        self.send_body(Body::DeclareAsset(proto::DeclareAsset { asset: asset.to_owned(), decimals }))
    }

    /// Asks for all assets. Answered by [`Reply::Assets`].
    pub fn send_list_assets(&mut self) -> Result<u64, ClientError> {
        self.send_body(Body::ListAssets(proto::ListAssets {}))
    }

    /// Asks for the last reconciliations. Answered by [`Reply::Audit`].
    pub fn send_read_audit(&mut self) -> Result<u64, ClientError> {
        self.send_body(Body::ReadAudit(proto::ReadAudit {}))
    }

    /// Asks whether the server is there. Answered by [`Reply::Pong`].
    pub fn send_ping(&mut self) -> Result<u64, ClientError> {
        self.send_body(Body::Ping(proto::Ping {}))
    }

    /// Asks a room of the server that this client does not know: `family` is its number, `body` what only the room
    /// understands. Answered by [`Reply::Room`]; the pacer, which it knows, by replies of its own.
    pub fn send_room(&mut self, family: u32, body: &[u8]) -> Result<u64, ClientError> {
        self.send(0, |out, correlation| encode_room(out, correlation, RoomRef { family, body }))
    }

    /// Writes all that was sent and waits in the buffer. After [`ClientError::TimedOut`] it can be called again.
    pub fn flush(&mut self) -> Result<(), ClientError> {
        while !self.outbox.is_empty() {
            match self.stream.write(self.outbox.unsent()) {
                Ok(0) => return Err(ClientError::Closed { in_flight: self.in_flight() }),
                Ok(count) => self.outbox.sent(count),
                Err(error) if error.kind() == ErrorKind::Interrupted => {}
                Err(error) => return Err(self.lost(error)),
            }
        }
        self.stream.flush().map_err(|error| self.lost(error))
    }

    /// The next reply and its correlation, in the order in which they come; writes what waits first. The server's error
    /// about one request is a [`Reply::Error`] here. Without requests in flight it waits for its time-out.
    pub fn receive(&mut self) -> Result<(u64, Reply), ClientError> {
        match self.parked.pop_front() {
            Some(parked) => Ok(parked),
            None => self.read_reply(),
        }
    }

    /// Waits for the reply to the request of this correlation; others that come before it are kept for
    /// [`Client::receive`]. The server's error is [`ClientError::Server`] here.
    pub fn receive_reply_to(&mut self, correlation: u64) -> Result<Reply, ClientError> {
        let parked = self.parked.iter().position(|(of, _)| *of == correlation);
        let mut reply = parked.and_then(|index| self.parked.remove(index));
        loop {
            match reply {
                Some((_, Reply::Error(error))) => return Err(ClientError::Server(error)),
                Some((_, reply)) => return Ok(reply),
                None => {}
            }
            let next = self.read_reply()?;
            // Zero is the server's word about the connection itself, before it closes it.
            if next.0 == correlation || next.0 == 0 {
                reply = Some(next);
            } else {
                self.parked.push_back(next);
            }
        }
    }

    fn read_reply(&mut self) -> Result<(u64, Reply), ClientError> {
        self.flush()?;
        loop {
            if let Some(reply) = self.inbox.next_reply()? {
                let correlation = reply.correlation;
                let reply = Reply::from_wire(reply)?;
                if correlation != 0 {
                    self.unanswered = self.unanswered.saturating_sub(1);
                }
                return Ok((correlation, reply));
            }
            match self.stream.read(self.inbox.room()) {
                Ok(0) => return Err(ClientError::Closed { in_flight: self.in_flight() }),
                Ok(count) => self.inbox.filled(count),
                Err(error) if error.kind() == ErrorKind::Interrupted => {}
                Err(error) => return Err(self.lost(error)),
            }
        }
    }

    fn send_body(&mut self, body: Body) -> Result<u64, ClientError> {
        self.send(0, |out, correlation| encode_request(out, correlation, body))
    }

    /// Numbers and encodes a request within the server's bounds, and writes once enough is together.
    pub(crate) fn send(&mut self, items: usize, encode: impl FnOnce(&mut Vec<u8>, u64)) -> Result<u64, ClientError> {
        let in_flight_max = self.welcome.in_flight_max as usize;
        if self.in_flight() >= in_flight_max {
            return Err(ClientError::TooManyInFlight { in_flight_max });
        }
        let items_max = self.welcome.transfers_max as usize;
        if items > items_max {
            return Err(ClientError::TooManyItems { items, items_max });
        }
        let correlation = self.last_correlation + 1;
        let frames = self.outbox.frames();
        let before = frames.len();
        encode(frames, correlation);
        let (bytes, bytes_max) = (frames.len() - before, self.welcome.frame_bytes_max as usize);
        if bytes > bytes_max {
            frames.truncate(before);
            return Err(ClientError::RequestTooLarge { bytes, bytes_max });
        }
        self.last_correlation = correlation;
        self.unanswered += 1;
        if self.outbox.unsent().len() >= FLUSH_BYTES {
            self.flush()?;
        }
        Ok(correlation)
    }

    /// What an error of the stream means.
    fn lost(&self, error: std::io::Error) -> ClientError {
        match error.kind() {
            ErrorKind::ConnectionReset
            | ErrorKind::ConnectionAborted
            | ErrorKind::BrokenPipe
            | ErrorKind::UnexpectedEof => ClientError::Closed { in_flight: self.in_flight() },
            _ => error.into(),
        }
    }
}

/// The reply is of another kind than the request asks for.
pub(crate) fn mismatch(expected: &str, reply: &Reply) -> ClientError {
    ClientError::ReplyMismatch(format!("{expected} expected, {} received", reply.name()))
}

#[cfg(test)]
mod tests;
