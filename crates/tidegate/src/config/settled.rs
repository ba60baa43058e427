//! The configuration as the server uses it: validated, with every default filled in.

use std::net::SocketAddr;
use std::path::{Path, PathBuf};
use std::str::FromStr;
use std::sync::Arc;
use std::time::Duration;

use tidegate_config::{ConfigError, Document, Schema};
use tidegate_doors::auth::hook::HookSettings;
use tidegate_doors::auth::provider::ProviderSettings;
use tidegate_doors::auth::{
    AuthSettings, LoginLimits, Secret, ServiceSettings, SigningKeySettings, TopicAccess, UserSettings,
};
use tidegate_doors::handshakes::HandshakeLimits;
use tidegate_doors::http::{Cors, DemoShow, HttpLimits};
use tidegate_roster::Allowed;

use super::archive::ArchiveSettings;
use super::audit::AuditKeys;
use super::auth::Auth;
use super::binary::BinaryKeys;
use super::data::{Data, interval};
use super::ledger::LedgerKeys;
use super::listen::Listen;
use super::log::LogSettings;
use super::memory::Memory;
use super::mqtt::Mqtt;
use super::proxy::Proxies;
use super::quota::Quotas;
use super::seed::Seed;
use super::tls::Tls;
use super::{
    access, accounts, archive, auth, auth_hook, data, demo, handshakes, http, identity_providers, listen, log, memory,
    proxy, quota, seed, sqs_keys, tls, workers,
};
use crate::host::Host;
use crate::logging::LogFilter;

/// Everything that can be set, as the server uses it.
#[derive(Clone, Debug)]
pub struct Config {
    /// Where it listens.
    pub listen: Listen,
    /// Load balancers before the doors.
    pub proxies: Proxies,
    /// Certificates, if a door speaks TLS.
    pub tls: Option<Tls>,
    /// Where data lives and how it is kept.
    pub data: Data,
    /// Time between reconciliations; `None` for none.
    pub audit_interval: Option<Duration>,
    /// Bytes of stored journals that are read again each second; zero for none.
    pub scrub_bytes_per_s: u64,
    /// Where old segments are moved; `None` for nowhere.
    pub archive: Option<ArchiveSettings>,
    /// What it says.
    pub log: LogSettings,
    /// What the bounds of memory share.
    pub memory: Memory,
    /// Bounds.
    pub limits: Limits,
    /// Which web pages of others may use HTTP.
    pub cors: Cors,
    /// MQTT: listeners, bounds, topics.
    pub mqtt: Mqtt,
    /// Who may use which topics.
    pub topics: TopicAccess,
    /// What callers may use up.
    pub quotas: Quotas,
    /// People.
    pub users: Vec<UserSettings>,
    /// Programs.
    pub services: Vec<ServiceSettings>,
    /// With what services sign requests of SQS.
    pub sqs_keys: Vec<SigningKeySettings>,
    /// Who else signs people in.
    pub identity_providers: Vec<Arc<ProviderSettings>>,
    /// What decides on users who are not listed.
    pub auth_hook: Option<Arc<HookSettings>>,
    /// Tokens.
    pub auth: Auth,
    /// What the voting pages show.
    pub demo: DemoShow,
    /// What a new ledger begins with.
    pub seed: Seed,
    /// The file as it was read.
    document: Document,
    /// Keys that flags of the command line replace.
    replaced: Vec<&'static str>,
}

/// The bounds of `[limits]`. All others stand in the `limits` modules of the crates, with the relations between them.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Limits {
    /// Worker threads wanted; the server starts at most one per shard of its data directory.
    pub workers: usize,
    /// Threads that serve HTTP.
    pub edge_threads: u16,
    /// Memory of the filters over ids, over all shards.
    pub ids_filter_bytes_max: usize,
    /// Open binary connections per worker.
    pub binary_connections_max: usize,
    /// Those of one address, over all workers; 0 for a share of all.
    pub binary_connections_per_address_max: usize,
    /// Bounds of one edge thread.
    pub http: HttpLimits,
    /// TLS handshakes of one address.
    pub handshakes: HandshakeLimits,
    /// How many log-ins are worked on.
    pub logins: LoginLimits,
    /// Services and users that may be made through the API.
    pub api_allowed: Allowed,
}

/// An address of a door on the command line: `None` for `off`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Address(pub Option<SocketAddr>);

impl FromStr for Address {
    type Err = String;

    fn from_str(text: &str) -> Result<Address, String> {
        match text {
            "off" => Ok(Address(None)),
            _ => text
                .parse()
                .map(|address| Address(Some(address)))
                .map_err(|_| "expected an IP address and port such as 127.0.0.1:8080, or off".to_owned()),
        }
    }
}

/// Flags of the command line, which go before the file.
#[derive(Clone, Debug, Default)]
pub struct Overrides {
    /// `--data DIR`
    pub data: Option<PathBuf>,
    /// `--http ADDR`
    pub http: Option<Address>,
    /// `--binary ADDR`
    pub binary: Option<Address>,
    /// `--mqtt ADDR`
    pub mqtt: Option<Address>,
    /// `--mqtts ADDR`
    pub mqtts: Option<Address>,
    /// `--log FILTER`, or `TIDEGATE_LOG`
    pub log: Option<LogFilter>,
}

impl Overrides {
    /// The keys that these flags replace.
    fn replaced(&self) -> Vec<&'static str> {
        let flags = [
            ("data.dir", self.data.is_some()),
            ("listen.http", self.http.is_some()),
            ("listen.binary", self.binary.is_some()),
            ("listen.mqtt", self.mqtt.is_some()),
            ("listen.mqtts", self.mqtts.is_some()),
            ("log.filter", self.log.is_some()),
        ];
        flags.into_iter().filter(|(_, is_given)| *is_given).map(|(path, _)| path).collect()
    }
}

impl Config {
    /// Reads the file at `path`, or takes all defaults; the flags win over both.
    pub fn load(path: Option<&Path>, schema: &Schema, overrides: &Overrides) -> Result<Config, ConfigError> {
        let document = match path {
            Some(path) => Document::read(path, schema)?,
            None => Document::of("defaults", "", schema)?,
        };
        Config::settle(document, overrides, Host::this())
    }

    /// Validates one file for such a machine.
    pub fn settle(mut document: Document, overrides: &Overrides, host: Host) -> Result<Config, ConfigError> {
        let workers = workers::settle(&document, host.cores)?;
        // Before anybody reads a bound.
        let memory = memory::divide(&mut document, workers, host)?;
        let data = data::settle(&document, overrides)?;
        let listen = listen::settle(&document, overrides)?;
        let limits = limits(&document, workers)?;
        let users = accounts::users(&document)?;
        let quotas = quota::settle(&document)?;
        let services = accounts::services(&document, &users, quotas.service)?;
        let identity_providers = identity_providers::settle(&document, &users, &services)?;
        let auth_hook = auth_hook::settle(&document, &users, &services, &identity_providers)?;
        let auth = auth::settle(&document, &data.dir)?;
        let of_providers = identity_providers.iter().flat_map(|provider| &provider.wallets);
        let of_hook = auth_hook.iter().flat_map(|hook| &hook.wallets);
        auth::check_api_wallets(&document, &auth.api_wallets, of_providers.chain(of_hook))?;
        Ok(Config {
            audit_interval: interval(document.section::<AuditKeys>()?.audit_interval_s),
            scrub_bytes_per_s: document.section::<AuditKeys>()?.scrub_bytes_per_s,
            archive: archive::settle(&document)?,
            log: log::settle(&document, overrides)?,
            auth,
            demo: demo::settle(&document)?,
            cors: http::cors(&document)?,
            proxies: proxy::settle(&document)?,
            tls: tls::settle(&document, listen.mqtts.is_some())?,
            mqtt: Mqtt::settle(&document, &listen, limits.workers)?,
            topics: access::topics(&document)?,
            limits,
            memory,
            listen,
            auth_hook,
            identity_providers,
            services,
            sqs_keys: sqs_keys::settle(&document)?,
            quotas,
            users,
            seed: seed::settle(&document)?,
            data,
            document,
            replaced: overrides.replaced(),
        })
    }

    /// The file as it was read, for those who have sections of their own.
    pub fn document(&self) -> &Document {
        &self.document
    }

    /// What the doors need to know about callers, with the key that signs tokens.
    pub fn auth_settings(&self, secret: Secret) -> AuthSettings {
        AuthSettings {
            users: self.users.clone(),
            services: self.services.clone(),
            signing_keys: self.sqs_keys.clone(),
            identity_providers: self.identity_providers.clone(),
            auth_hook: self.auth_hook.clone(),
            secret,
            token_ttl: self.auth.token_ttl,
            expiry_ends_connections: self.auth.expiry_ends_connections,
            login_limits: self.limits.logins,
            topics: self.topics.clone(),
            viewer_quota: self.quotas.viewer,
            service_quota: self.quotas.service,
            api_grants: self.auth.api_grants.clone(),
            api_wallets: self.auth.api_wallets.clone(),
            strangers: self.quotas.strangers,
        }
    }

    /// The keys that have another value in `new` and that only a restart changes.
    pub fn waiting_for_restart(&self, new: &Config) -> Vec<String> {
        let changes = self.document.changes(&new.document).into_iter();
        let waiting = changes.filter(|changed| changed.change == tidegate_config::Change::Restart);
        waiting.map(|changed| changed.path).filter(|path| !self.replaced.contains(&path.as_str())).collect()
    }
}

fn limits(document: &Document, workers: usize) -> Result<Limits, ConfigError> {
    let (edge_threads, http) = http::settle(document)?;
    Ok(Limits {
        workers,
        edge_threads,
        ids_filter_bytes_max: document.section::<LedgerKeys>()?.ids_filter_bytes_max,
        binary_connections_max: document.section::<BinaryKeys>()?.binary_connections_max,
        binary_connections_per_address_max: document.section::<BinaryKeys>()?.binary_connections_per_address_max,
        http,
        handshakes: handshakes::settle(document)?,
        logins: auth::logins(document)?,
        api_allowed: auth::api_allowed(document)?,
    })
}
