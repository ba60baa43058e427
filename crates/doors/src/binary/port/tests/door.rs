//! A port with its poll, and no worker: a test turns it, and answers for the shards.

use std::collections::VecDeque;
use std::net::{SocketAddr, TcpListener};
use std::time::{Duration, Instant};

use mio::{Events, Poll};
use tidegate_ledger::message::Unavailable;
use tidegate_ledger::operation::Operation;
use tidegate_ledger::router::CursorKey;
use tidegate_machines::ShardIndex;
use tidegate_runtime::threads::now_ms;
use tidegate_runtime::{Endpoint, Envelope, ShardAddresses, mesh, parcels};
use tidegate_telemetry::Registry as Metrics;

use super::super::*;
use crate::auth::quota::QuotaLimits;
use crate::auth::tests::nobody;
use crate::auth::{AuthSettings, Rights, UserSettings, hash_password};
use crate::binary::BINARY;

parcels! {
    pub(super) enum Parcel { Ledger(Message) }
}

/// Where the port lives, and where the shard would.
pub(super) const PORT: Address = Address::new(0, 0);
pub(super) const SHARD: Address = Address::new(0, 1);

/// One worker's port and its poll.
pub(super) struct Door {
    pub port: BinaryPort<Parcel>,
    pub endpoint: Endpoint<Parcel>,
    pub own: VecDeque<Envelope<Parcel>>,
    pub poll: Poll,
    pub address: SocketAddr,
    pub authenticator: Arc<Authenticator>,
}

impl Door {
    pub fn open() -> Door {
        Door::with_quota(QuotaLimits::NONE)
    }

    pub fn with_quota(viewer_quota: QuotaLimits) -> Door {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        listener.set_nonblocking(true).unwrap();
        let address = listener.local_addr().unwrap();
        let authenticator = Arc::new(Authenticator::new(settings(&["dave", "erin"], viewer_quota)));
        let registry = Metrics::of(&[BinaryMetrics::ROWS, RefusalMetrics::ROWS, RequestMetrics::ROWS]);
        let metrics = (
            BinaryMetrics::register(&registry, BINARY, 0),
            RefusalMetrics::register(&registry, BINARY, 0),
            RequestMetrics::register(&registry, BINARY),
        );
        let settings = BinarySettings {
            address: None,
            tls: None,
            proxy: ProxyRule::default(),
            connections_max: 1_000,
            connections_per_address_max: 1_000,
        };
        let addresses = settings.of_connections(1).addresses();
        let router = Router::new(PORT, ShardAddresses::new([SHARD]), CursorKey([1, 2]));
        let mut port = BinaryPort::new(
            PORT,
            router,
            (Some(listener), addresses),
            &settings,
            authenticator.clone(),
            metrics,
            Vec::new(),
        );
        let poll = Poll::new().unwrap();
        Port::<Parcel>::register(&mut port, PortSockets::new(poll.registry(), 0).unwrap()).unwrap();
        let endpoint = mesh(1, 0).pop().unwrap();
        Door { port, endpoint, own: VecDeque::new(), poll, address, authenticator }
    }

    pub fn token(&self) -> String {
        self.token_of("dave")
    }

    pub fn token_of(&self, name: &str) -> String {
        let runtime = tokio::runtime::Builder::new_current_thread().build().unwrap();
        runtime.block_on(self.authenticator.log_in(name, name, HERE)).unwrap().token
    }

    /// Looks at the sockets, and serves one turn.
    pub fn turn(&mut self) {
        self.poll_for(Duration::from_millis(1));
        self.port.now_ms = now_ms().0;
        Resident::<Parcel>::tick(&mut self.port, now_ms());
        self.port.accept();
        self.port.serve_sessions();
        self.port.write_sessions();
    }

    pub fn poll_for(&mut self, time: Duration) -> usize {
        let mut events = Events::with_capacity(1_024);
        self.poll.poll(&mut events, Some(time)).unwrap();
        for event in &events {
            let (_, token) = PortSockets::owner(event.token());
            Port::<Parcel>::on_event(&mut self.port, token, event);
        }
        events.iter().count()
    }

    /// Turns until the shard is asked something: the ticket of the question, and the question.
    pub fn question(&mut self) -> (u64, Operation) {
        let until = Instant::now() + Duration::from_secs(20);
        while self.own.is_empty() {
            assert!(Instant::now() < until, "the client's request does not come");
            self.poll_for(Duration::from_millis(1));
            Resident::<Parcel>::tick(&mut self.port, now_ms());
            let mut context = Context::new(PORT, now_ms(), &mut self.endpoint, &mut self.own);
            self.port.serve(&mut context);
            self.port.flush(&mut context);
        }
        let Envelope { from, to, body: Parcel::Ledger(message) } = self.own.pop_front().unwrap();
        assert!((from, to) == (PORT, SHARD.member) && self.own.is_empty());
        let Message::Call { ticket, operation, .. } = message else { panic!("{message:?}") };
        (ticket, operation)
    }

    pub fn turn_away(&mut self, ticket: u64, reason: Unavailable) {
        self.deliver(Message::Answer { ticket, shard: ShardIndex(0), answer: Err(reason) });
    }

    pub fn deliver(&mut self, answer: Message) {
        let mut context = Context::new(PORT, now_ms(), &mut self.endpoint, &mut self.own);
        self.port.deliver(SHARD, Parcel::Ledger(answer), &mut context);
        self.port.flush(&mut context);
        assert!(self.own.is_empty(), "nothing else is asked");
    }
}

pub(super) const HERE: std::net::IpAddr = std::net::IpAddr::V4(std::net::Ipv4Addr::LOCALHOST);

pub(super) fn settings(users: &[&str], viewer_quota: QuotaLimits) -> AuthSettings {
    AuthSettings { users: users.iter().map(|name| user(name)).collect(), viewer_quota, ..nobody() }
}

pub(super) fn user(name: &str) -> UserSettings {
    UserSettings {
        name: name.into(),
        password_hash: hash_password(name),
        rights: Rights::Viewer { wallets: vec![format!("wallet:{name}").into()] },
    }
}
