//! The binary port of another Tidegate server, encrypted or not.

use std::net::TcpStream;
use std::path::PathBuf;

use anyhow::Result;
use rustls::{ClientConnection, StreamOwned};
use tidegate_client::{Client, ClientError, Hold, HoldState, Outcome, Page, Timeouts};
use tidegate_config::Document;

use crate::checks::Row;
use crate::tls::{self, Tls, TlsKeys, warn_if_open};

/// How another server is reached.
#[derive(Clone, Debug)]
pub struct OtherServer {
    /// Host and port.
    pub address: Box<str>,
    /// What is shown there.
    pub token: Box<str>,
    /// How it is encrypted.
    pub tls: Option<Tls>,
}

/// A connection to another server. It waits, so it is for threads that may.
pub enum Connected {
    /// As it is.
    Plain(Client<TcpStream>),
    /// Encrypted.
    Tls(Box<Client<StreamOwned<ClientConnection, TcpStream>>>),
}

/// What an operator says of another server, in a section of which there is one.
pub struct ServerKeys {
    /// Its binary port.
    pub address: Box<str>,
    /// The token for it.
    pub token: Option<Box<str>>,
    /// The file that has it.
    pub token_file: Option<PathBuf>,
    /// How it is encrypted.
    pub tls: TlsKeys,
}

impl ServerKeys {
    /// Checks what `[section]` says, and reads its files.
    ///
    /// # Errors
    ///
    /// If a key is wrong or a file cannot be read.
    pub fn settled(self, document: &Document, section: &'static str) -> Result<OtherServer> {
        let ServerKeys { address, token, token_file, tls } = self;
        let row = Row::only(document, section);
        row.address("address", &address)?;
        let tls = tls.settled(&row, &address)?;
        Ok(OtherServer { token: row.required_secret("token", token, token_file)?, address, tls })
    }
}

impl OtherServer {
    /// Connects, and shows the token. `Timeouts` hold for the connection as well.
    ///
    /// # Errors
    ///
    /// If the server is not reached, or lets nobody in with this token.
    pub fn connect(&self, timeouts: Timeouts) -> Result<Connected, ClientError> {
        let OtherServer { address, token, tls } = self;
        match tls {
            None => Client::connect_within(&**address, token, timeouts).map(Connected::Plain),
            Some(Tls { config, name }) => {
                let client = Client::connect_tls(&**address, name.clone(), config.clone(), token, timeouts);
                client.map(|client| Connected::Tls(Box::new(client)))
            }
        }
    }

    /// Why a request to it failed, for an operator: with what to do if only one side speaks TLS.
    pub fn why(&self, error: &ClientError) -> String {
        let why = why_of(error);
        match error {
            // The words of the other server are for people, and name a way to log in.
            ClientError::Server(error) if error.code == "unauthenticated" => {
                format!("{why}. A server shows the token of a [[service]] there: `token` or `token_file`")
            }
            ClientError::Io(error) if tls::is_ended(error) => tls::with_hint(why, self.tls.is_some()),
            ClientError::Closed { .. } | ClientError::Frame(_) => tls::with_hint(why, self.tls.is_some()),
            _ => why,
        }
    }

    /// Warns if its secret crosses a network that others may read.
    pub fn warn_if_open(&self, who: &str) {
        warn_if_open(who, &self.address, self.tls.as_ref());
    }
}

/// Why a request failed, for an operator.
pub fn why_of(error: &ClientError) -> String {
    match error {
        ClientError::Io(error) => format!("the connection failed: {}", tls::why(error)),
        ClientError::Tls(error) => tls::why_of(error),
        other => other.to_string(),
    }
}

/// Calls the same method of whichever client it is.
macro_rules! call {
    ($self:ident.$method:ident($($argument:expr),*)) => {
        match $self {
            Connected::Plain(client) => client.$method($($argument),*),
            Connected::Tls(client) => client.$method($($argument),*),
        }
    };
}

impl Connected {
    /// Asks a room.
    ///
    /// # Errors
    ///
    /// As [`Client::room`].
    pub fn room(&mut self, family: u32, body: &[u8]) -> Result<Vec<u8>, ClientError> {
        call!(self.room(family, body))
    }

    /// Asks whether the server answers.
    ///
    /// # Errors
    ///
    /// As [`Client::ping`].
    pub fn ping(&mut self) -> Result<(), ClientError> {
        call!(self.ping())
    }

    /// Places holds.
    ///
    /// # Errors
    ///
    /// As [`Client::holds`].
    pub fn holds(&mut self, holds: &[Hold<'_>]) -> Result<Vec<Outcome>, ClientError> {
        call!(self.holds(holds))
    }

    /// Posts holds.
    ///
    /// # Errors
    ///
    /// As [`Client::posts`].
    pub fn posts(&mut self, posts: &[(&str, Option<u64>)]) -> Result<Vec<Outcome>, ClientError> {
        call!(self.posts(posts))
    }

    /// Voids holds.
    ///
    /// # Errors
    ///
    /// As [`Client::voids`].
    pub fn voids(&mut self, ids: &[&str]) -> Result<Vec<Outcome>, ClientError> {
        call!(self.voids(ids))
    }

    /// Reads rows of an account's history, newest first.
    ///
    /// # Errors
    ///
    /// As [`Client::history`].
    pub fn history(&mut self, id: &str, before: &str, limit: u32) -> Result<Page, ClientError> {
        call!(self.history(id, before, limit))
    }

    /// Reads a hold.
    ///
    /// # Errors
    ///
    /// As [`Client::read_hold`].
    pub fn read_hold(&mut self, id: &str) -> Result<HoldState, ClientError> {
        call!(self.read_hold(id))
    }
}
