//! The other server's binary port over TCP, encrypted or not.

use tidegate_client::{ClientError, Timeouts};

use super::{Exchange, Transport};
use crate::server::{Connected, OtherServer};

/// The family of frames of queues.
const FAMILY: u32 = 4;

/// A connection. `None` while a thread waits on it, and once nobody waits for that thread any more.
pub struct Open(Option<Connected>);

impl Transport for OtherServer {
    type Exchange = Open;

    async fn connect(&self) -> Result<Open, ClientError> {
        let server = self.clone();
        Ok(Open(Some(blocking(move || server.connect(Timeouts::default())).await?)))
    }

    fn why(&self, error: &ClientError) -> String {
        self.why(error)
    }
}

impl Exchange for Open {
    async fn exchange(&mut self, request: Vec<u8>) -> Result<Vec<u8>, ClientError> {
        let mut connected = self.0.take().ok_or(ClientError::Closed { in_flight: 0 })?;
        let (connected, reply) = blocking(move || {
            let reply = connected.room(FAMILY, &request);
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
