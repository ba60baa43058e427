//! What an MQTT port asks about a client, and who answers it.

use std::net::IpAddr;
use std::sync::Arc;
use std::sync::atomic::AtomicBool;

use rustls::pki_types::CertificateDer;
use tidegate_broker::{Admitted, Denied, Principal, Rights};

use super::identity::Identity;

/// The credentials of a client.
pub struct Credentials {
    /// Client id; one that the server chose if the client has none.
    pub client_id: Box<str>,
    /// User name of CONNECT.
    pub user_name: Option<Box<str>>,
    /// Password of CONNECT: a password, or a token.
    pub password: Option<Box<[u8]>>,
    /// The client's certificate, which TLS has verified against the listener's authorities.
    pub certificate: Option<CertificateDer<'static>>,
    /// Where the client comes from.
    pub address: IpAddr,
    /// Name of its listener; `websocket` for the HTTP port.
    pub listener: Box<str>,
    /// Whether its listener takes clients without credentials.
    pub anonymous_allowed: bool,
}

/// The client is admitted with these rights, or denied for this reason.
pub type Verdict = Result<Admitted, Denied>;

/// Takes a verdict that comes later, from any thread.
pub struct VerdictReply {
    answer: Box<dyn FnOnce(Verdict) + Send>,
    is_gone: Arc<AtomicBool>,
}

impl VerdictReply {
    /// `answer` takes it, unless `is_gone` says that the client is gone.
    pub fn new(answer: impl FnOnce(Verdict) + Send + 'static, is_gone: Arc<AtomicBool>) -> VerdictReply {
        VerdictReply { answer: Box::new(answer), is_gone }
    }

    /// Becomes true when nobody waits for the verdict any more.
    pub fn is_gone(&self) -> Arc<AtomicBool> {
        self.is_gone.clone()
    }

    /// Gives the verdict.
    pub fn give(self, verdict: Verdict) {
        (self.answer)(verdict);
    }
}

/// Who decides on clients. Shared by all workers; never waits.
pub trait MqttAuthenticator: Send + Sync {
    /// Decides. `Some` at once where that takes no more than microseconds (anonymous, token, certificate); `reply` is
    /// dropped then. `None` where it takes longer (argon2): `reply` gets the verdict, from another thread.
    fn begin(&self, credentials: Credentials, reply: VerdictReply) -> Option<Verdict>;

    /// The ledger's user or service behind these rights; `None` if there is none.
    fn identity(&self, rights: &dyn Rights) -> Option<Identity>;

    /// The rights that their owner has by the current configuration; `None` if the owner has none any more and must be
    /// disconnected.
    fn renew(&self, rights: &dyn Rights) -> Option<Arc<dyn Rights>>;

    /// The rights that a principal has by the current configuration, connected or not; `None` if it has none any more.
    fn rights_of(&self, principal: &Principal) -> Option<Arc<dyn Rights>>;

    /// Changes with each reload: a worker that sees another number than before renews the rights of all its clients.
    fn generation(&self) -> u64;
}
