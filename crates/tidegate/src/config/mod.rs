//! The configuration: turns what an operator wrote into what the server uses, or into an error that says which line to
//! change.
//!
//! ```text
//!   rows of each owner ─▶ schema ─▶ Document (known keys, types, lines) ─▶ Config (validated)
//!   data, http, mqtt …                  ▲ file                               ▲ flags of the command line
//! ```
//!
//! Each file here holds the rows of one owner, and what its keys demand together. `config/dev.toml` has the comments of
//! keys, and `docs/configuration.md` its tables, from the same rows; tests hold them equal.
//!
//! Why two steps: a missing value is a decision (its default) that belongs in one place. An unknown key is an error:
//! otherwise the author of a misspelt key would believe that it has an effect.

mod access;
mod accounts;
mod archive;
mod audit;
mod auth;
mod auth_hook;
mod binary;
mod data;
mod demo;
mod handshakes;
mod http;
mod identity_providers;
mod kept;
mod ledger;
mod listen;
mod listeners;
mod log;
mod memory;
mod mqtt;
mod openrtb;
mod proxy;
mod quota;
mod seed;
mod settled;
mod sqs_keys;
mod tls;
mod topics;
mod workers;

#[cfg(test)]
mod tests;

use tidegate_config::{Schema, Section};

pub use archive::ArchiveSettings;
pub use demo::candidate_places;
pub use identity_providers::is_safe;
pub use listeners::Door;
pub use openrtb::{deadline_warning, openrtb_settings};
pub use seed::Seed;
pub use settled::{Address, Config, Overrides};
pub use tls::Tls;
pub use topics::TopicsKeys;

/// The rows of all owners, in the order in which people read about them.
const OWNERS: &[&[Section]] = &[
    listen::ListenKeys::SECTIONS,
    listen::MqttListenKeys::SECTIONS,
    proxy::ProxyKeys::SECTIONS,
    tls::TlsKeys::SECTIONS,
    data::DataKeys::SECTIONS,
    audit::AuditKeys::SECTIONS,
    archive::ArchiveKeys::SECTIONS,
    log::LogKeys::SECTIONS,
    workers::WorkerKeys::SECTIONS,
    memory::MemoryKeys::SECTIONS,
    ledger::LedgerKeys::SECTIONS,
    tidegate_queue::QueuesKeys::SECTIONS,
    tidegate_queue::QueueKeys::SECTIONS,
    tidegate_link::LinkKeys::SECTIONS,
    tidegate_link::SmppKeys::SECTIONS,
    tidegate_link::WebhookKeys::SECTIONS,
    tidegate_link::RouteKeys::SECTIONS,
    tidegate_link::RuleKeys::SECTIONS,
    tidegate_pacer::limits::PacingKeys::SECTIONS,
    tidegate_pacer::limits::PacingDemoKeys::SECTIONS,
    crate::pacing::PacingLedgerKeys::SECTIONS,
    crate::pacing::PacingPeerKeys::SECTIONS,
    openrtb::OpenRtbKeys::SECTIONS,
    binary::BinaryKeys::SECTIONS,
    http::HttpKeys::SECTIONS,
    handshakes::HandshakeKeys::SECTIONS,
    auth::LoginKeys::SECTIONS,
    listeners::ListenerKeys::SECTIONS,
    listeners::PacketKeys::SECTIONS,
    listeners::WebSocketKeys::SECTIONS,
    http::CorsKeys::SECTIONS,
    access::TopicAccessKeys::SECTIONS,
    mqtt::MqttKeys::SECTIONS,
    kept::PrincipalKeptKeys::SECTIONS,
    kept::AddressKeptKeys::SECTIONS,
    kept::AllKeptKeys::SECTIONS,
    topics::TopicsKeys::SECTIONS,
    access::AclKeys::SECTIONS,
    auth::AuthKeys::SECTIONS,
    demo::DemoKeys::SECTIONS,
    demo::DemoCandidateKeys::SECTIONS,
    quota::ViewerQuotaKeys::SECTIONS,
    quota::ServiceQuotaKeys::SECTIONS,
    quota::AddressQuotaKeys::SECTIONS,
    accounts::UserKeys::SECTIONS,
    accounts::ServiceKeys::SECTIONS,
    sqs_keys::SqsKeyKeys::SECTIONS,
    identity_providers::IdentityProviderKeys::SECTIONS,
    auth_hook::AuthHookKeys::SECTIONS,
    seed::SeedAssetKeys::SECTIONS,
    seed::SeedAccountKeys::SECTIONS,
    seed::SeedTransferKeys::SECTIONS,
];

/// Every key that a file can have, those of `others` included.
pub fn schema(others: &[&[Section]]) -> Schema {
    Schema::of(&[OWNERS, others].concat(), "config/dev.toml")
}
