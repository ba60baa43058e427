//! The other server's binary port over TCP, encrypted or not.

use std::net::TcpStream;

use rustls::{ClientConnection, StreamOwned};
use tidegate_client::{Client, ClientError, Timeouts};

use super::remote::why_of;
use super::{Exchange, Transport};
use crate::tls::{self, Tls};

/// The family of frames of queues.
const FAMILY: u32 = 4;

/// The way to a server.
#[derive(Clone)]
pub struct Tcp {
    /// Host and port.
    pub address: Box<str>,
    /// What is shown there.
    pub token: Box<str>,
    /// How it is encrypted.
    pub tls: Option<Tls>,
}

/// A connection. `None` while a thread waits on it, and once nobody waits for that thread any more.
pub struct Open(Option<Connected>);

enum Connected {
    /// As it is.
    Plain(Client<TcpStream>),
    /// Encrypted.
    Tls(Box<Client<StreamOwned<ClientConnection, TcpStream>>>),
}

impl Transport for Tcp {
    type Exchange = Open;

    async fn connect(&self) -> Result<Open, ClientError> {
        let Tcp { address, token, tls } = self.clone();
        let connect = move || match tls {
            None => Client::connect(&*address, &token).map(Connected::Plain),
            Some(Tls { config, name }) => {
                let client = Client::connect_tls(&*address, name, config, &token, Timeouts::default());
                client.map(|client| Connected::Tls(Box::new(client)))
            }
        };
        Ok(Open(Some(blocking(connect).await?)))
    }

    fn why(&self, error: &ClientError) -> String {
        let why = why_of(error);
        match error {
            ClientError::Io(error) if tls::is_ended(error) => tls::with_hint(why, self.tls.is_some()),
            ClientError::Closed { .. } | ClientError::Frame(_) => tls::with_hint(why, self.tls.is_some()),
            _ => why,
        }
    }
}

impl Exchange for Open {
    async fn exchange(&mut self, request: Vec<u8>) -> Result<Vec<u8>, ClientError> {
        let mut connected = self.0.take().ok_or(ClientError::Closed { in_flight: 0 })?;
        let (connected, reply) = blocking(move || {
            let reply = match &mut connected {
                Connected::Plain(client) => client.room(FAMILY, &request),
                Connected::Tls(client) => client.room(FAMILY, &request),
            };
            (connected, reply)
        })
        .await;
        self.0 = Some(connected);
        reply
    }
}

/// Does what waits on a thread that may: the client of the binary port does.
async fn blocking<R: Send + 'static>(what: impl FnOnce() -> R + Send + 'static) -> R {
    tokio::task::spawn_blocking(what).await.expect("the client of the binary port does not panic")
}
