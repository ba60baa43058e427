//! What is used: validated, with every default filled in.

use std::net::{IpAddr, Ipv4Addr, SocketAddr};
use std::path::{Path, PathBuf};
use std::time::Duration;

use tidegate_gateway::auth::{AuthSettings, Secret, ServiceSettings, TopicAccess, UserSettings};
use tidegate_machines::ledger::AccountKind;

use super::error::ConfigError;
use super::limits::{Limits, in_range};
use super::mqtt::Mqtt;
use super::raw::{RawConfig, RawData, RawListen, RawTls};
use super::source::Source;
use super::{access, accounts};

/// Everything that can be set, as the server uses it.
#[derive(Clone, Debug)]
pub struct Config {
    /// Where it listens.
    pub listen: Listen,
    /// Certificates, if a door speaks TLS.
    pub tls: Option<Tls>,
    /// Where data lives and how it is kept.
    pub data: Data,
    /// Bounds.
    pub limits: Limits,
    /// MQTT: listeners, bounds, topics.
    pub mqtt: Mqtt,
    /// Who may use which topics.
    pub topics: TopicAccess,
    /// People.
    pub users: Vec<UserSettings>,
    /// Programs.
    pub services: Vec<ServiceSettings>,
    /// File with the key that signs tokens.
    pub jwt_secret_file: PathBuf,
    /// How long a log-in is good for.
    pub token_ttl: Duration,
    /// Paths served without a token.
    pub open_paths: Vec<Box<str>>,
    /// What a new ledger begins with.
    pub seed: Seed,
}

/// Addresses of the doors; `None` is a door that stays shut.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Listen {
    /// HTTP/JSON.
    pub http: Option<SocketAddr>,
    /// Binary.
    pub binary: Option<SocketAddr>,
    /// MQTT over TCP.
    pub mqtt: Option<SocketAddr>,
    /// MQTT over TLS.
    pub mqtts: Option<SocketAddr>,
}

/// Certificates and the doors that use them.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Tls {
    /// PEM file with the chain.
    pub cert_file: PathBuf,
    /// PEM file with the private key.
    pub key_file: PathBuf,
    /// Whether the HTTP door speaks TLS.
    pub http: bool,
    /// Whether the binary door speaks TLS.
    pub binary: bool,
    /// Client certificates, if they are looked at.
    pub clients: Option<ClientCertificates>,
}

/// Which client certificates are good.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ClientCertificates {
    /// PEM file with the authorities that sign them.
    pub ca_file: PathBuf,
    /// Whether a client must show one.
    pub required: bool,
}

/// The data directory.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Data {
    /// Where.
    pub dir: PathBuf,
    /// Shards, if it is new.
    pub shards: u16,
    /// Bytes of one journal segment.
    pub segment_bytes: u64,
    /// Time between snapshots; `None` for none by time.
    pub snapshot_interval: Option<Duration>,
    /// Time between reconciliations; `None` for none.
    pub audit_interval: Option<Duration>,
}

/// Accounts and transfers that are asked of the ledger at each start. Their ids make every time after the first a duplicate.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Seed {
    /// Accounts to open, before the transfers.
    pub accounts: Vec<SeedAccount>,
    /// Transfers to make, in this order.
    pub transfers: Vec<SeedTransfer>,
}

/// An account to open.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SeedAccount {
    /// Account id.
    pub id: Box<str>,
    /// Unit of measure.
    pub asset: Box<str>,
    /// Kind.
    pub kind: AccountKind,
}

/// A transfer to make.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SeedTransfer {
    /// Transfer id.
    pub id: Box<str>,
    /// Account to debit.
    pub debit: Box<str>,
    /// Account to credit.
    pub credit: Box<str>,
    /// Minor units.
    pub amount: u64,
    /// Memo, empty for none.
    pub memo: Box<str>,
}

/// Flags of the command line, which go before the file.
#[derive(Clone, Debug, Default)]
pub struct Overrides {
    /// `--data DIR`
    pub data: Option<PathBuf>,
    /// `--http ADDR`
    pub http: Option<SocketAddr>,
    /// `--binary ADDR`
    pub binary: Option<SocketAddr>,
    /// `--mqtt ADDR`
    pub mqtt: Option<SocketAddr>,
    /// `--mqtts ADDR`
    pub mqtts: Option<SocketAddr>,
}

impl Config {
    /// Reads the file at `path`, or takes all defaults; the flags win over both.
    pub fn load(path: Option<&Path>, overrides: &Overrides) -> Result<Config, ConfigError> {
        let source = match path {
            Some(path) => Source::read(path)?,
            None => Source::new("defaults", ""),
        };
        let cores = std::thread::available_parallelism().map_or(1, usize::from);
        Config::settle(&source, overrides, cores)
    }

    /// Validates one file's text for a machine with `cores` cores.
    pub fn settle(source: &Source, overrides: &Overrides, cores: usize) -> Result<Config, ConfigError> {
        let raw: RawConfig = source.parse()?;
        let data = settle_data(&raw.data, source, overrides)?;
        let listen = settle_listen(&raw.listen, source, overrides)?;
        let limits = Limits::settle(&raw.limits, source, cores)?;
        let jwt_secret_file = raw.auth.jwt_secret_file.as_ref().map_or_else(|| data.dir.join("jwt.key"), PathBuf::from);
        let token_ttl_s = in_range(source, "auth.token_ttl_s", raw.auth.token_ttl_s, 86_400, 60..=31_536_000)?;
        Ok(Config {
            tls: settle_tls(&raw.tls, listen.mqtts.is_some(), source)?,
            mqtt: Mqtt::settle(&raw, source, &listen, limits.workers)?,
            topics: access::topics(&raw, source)?,
            limits,
            listen,
            users: accounts::users(&raw.user, source)?,
            services: accounts::services(&raw.service, source)?,
            jwt_secret_file,
            token_ttl: Duration::from_secs(token_ttl_s),
            open_paths: open_paths(raw.auth.open_paths.as_deref().unwrap_or_default(), source)?,
            seed: accounts::seed(&raw.seed, source)?,
            data,
        })
    }

    /// What the doors need to know about callers, with the key that signs tokens.
    pub fn auth_settings(&self, secret: Secret) -> AuthSettings {
        AuthSettings {
            users: self.users.clone(),
            services: self.services.clone(),
            secret,
            token_ttl: self.token_ttl,
            login_limits: self.limits.logins,
            topics: self.topics.clone(),
        }
    }
}

fn settle_data(raw: &RawData, source: &Source, overrides: &Overrides) -> Result<Data, ConfigError> {
    let seconds = |key: &str, written: Option<u64>, default: u64| {
        let seconds = in_range(source, &format!("data.{key}"), written, default, 0..=31_536_000)?;
        Ok((seconds > 0).then(|| Duration::from_secs(seconds)))
    };
    let dir = raw.dir.as_deref().unwrap_or("data");
    if dir.is_empty() {
        return Err(source.error_at("data.dir", "data.dir = \"\": expected a directory"));
    }
    let segment_bytes = in_range(source, "data.segment_bytes", raw.segment_bytes, 256 << 20, 16 << 20..=64 << 30)?;
    Ok(Data {
        dir: overrides.data.clone().unwrap_or_else(|| dir.into()),
        shards: in_range(source, "data.shards", raw.shards, 1, 1..=1_024)? as u16,
        segment_bytes,
        snapshot_interval: seconds("snapshot_interval_s", raw.snapshot_interval_s, 300)?,
        audit_interval: seconds("audit_interval_s", raw.audit_interval_s, 60)?,
    })
}

fn settle_listen(raw: &RawListen, source: &Source, overrides: &Overrides) -> Result<Listen, ConfigError> {
    let at =
        |key: &str, written: &Option<String>, port| address(source, &format!("listen.{key}"), written.as_deref(), port);
    // No default: without certificates it could not serve.
    let mqtts = raw.mqtts.as_ref().map_or(Ok(None), |_| at("mqtts", &raw.mqtts, 8883))?;
    Ok(Listen {
        http: overrides.http.or(at("http", &raw.http, 8080)?),
        binary: overrides.binary.or(at("binary", &raw.binary, 7420)?),
        mqtt: overrides.mqtt.or(at("mqtt", &raw.mqtt, 1883)?),
        mqtts: overrides.mqtts.or(mqtts),
    })
}

fn settle_tls(raw: &RawTls, mqtts: bool, source: &Source) -> Result<Option<Tls>, ConfigError> {
    let (http, binary) = (raw.http.unwrap_or(false), raw.binary.unwrap_or(false));
    let clients = settle_client_certificates(raw, mqtts, source)?;
    match (&raw.cert_file, &raw.key_file) {
        (Some(cert_file), Some(key_file)) if http || binary || mqtts => {
            Ok(Some(Tls { cert_file: cert_file.into(), key_file: key_file.into(), http, binary, clients }))
        }
        (Some(_), Some(_)) => Err(source.error_at(
            "tls",
            "tls: no door uses the certificate; set http or binary to true or listen.mqtts, or remove [tls]",
        )),
        (None, None) if !http && !binary && !mqtts => Ok(None),
        (None, _) => Err(source.error_at("tls", "tls.cert_file is missing: PEM file with the certificate chain")),
        (_, None) => Err(source.error_at("tls", "tls.key_file is missing: PEM file with the private key")),
    }
}

fn settle_client_certificates(
    raw: &RawTls,
    mqtts: bool,
    source: &Source,
) -> Result<Option<ClientCertificates>, ConfigError> {
    let path = "tls.client_certificate";
    let required = match raw.client_certificate.as_deref() {
        None | Some("optional") => false,
        Some("required") => true,
        Some(other) => {
            let message = format!("{path} = {other:?}: expected \"optional\" or \"required\"");
            return Err(source.error_at(path, message));
        }
    };
    match &raw.client_ca_file {
        Some(_) if !mqtts => Err(source.error_at(
            "tls.client_ca_file",
            "tls.client_ca_file: only listen.mqtts looks at client certificates; give it an address",
        )),
        Some(ca_file) => Ok(Some(ClientCertificates { ca_file: ca_file.into(), required })),
        None if required => {
            Err(source.error_at(path, "tls.client_ca_file is missing: PEM file with the authorities that sign clients"))
        }
        None => Ok(None),
    }
}

fn address(source: &Source, path: &str, written: Option<&str>, port: u16) -> Result<Option<SocketAddr>, ConfigError> {
    match written {
        None => Ok(Some(SocketAddr::new(IpAddr::V4(Ipv4Addr::LOCALHOST), port))),
        Some("off") => Ok(None),
        Some(text) => text.parse().map(Some).map_err(|_| {
            let message =
                format!("{path} = {text:?}: expected an IP address and port such as \"127.0.0.1:{port}\", or \"off\"");
            source.error_at(path, message)
        }),
    }
}

fn open_paths(raw: &[String], source: &Source) -> Result<Vec<Box<str>>, ConfigError> {
    let known = |path: &String| match path.as_str() {
        "/openapi.json" | "/metrics" | "/demo" => Ok(path.as_str().into()),
        _ => {
            let message = format!(
                "auth.open_paths: {path:?} cannot be opened; only \"/openapi.json\", \"/metrics\" and \"/demo\" can"
            );
            Err(source.error_at("auth.open_paths", message))
        }
    };
    raw.iter().map(known).collect()
}
