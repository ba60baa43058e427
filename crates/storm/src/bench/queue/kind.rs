//! The servers that are measured.

use super::Settings;
use crate::peer::beanstalkd::Beanstalkd;
use crate::peer::elasticmq::Elasticmq;
use crate::peer::nats::Nats;
use crate::peer::rabbitmq::Rabbitmq;
use crate::peer::redis::Redis;
use anyhow::Result;

/// Which server.
#[derive(Clone, Copy, Debug, PartialEq, Eq, clap::ValueEnum)]
pub enum Kind {
    /// Ours.
    Tidegate,
    /// A stream in Redis, with a consumer group.
    Redis,
    /// A quorum queue in RabbitMQ.
    RabbitmqQuorum,
    /// A classic durable queue in RabbitMQ.
    RabbitmqClassic,
    /// The work queue of that name.
    Beanstalkd,
    /// A work queue in NATS JetStream.
    Nats,
    /// For the protocol of SQS.
    Elasticmq,
}

impl Kind {
    /// All, ours first.
    pub const ALL: [Kind; 7] = [
        Kind::Tidegate,
        Kind::Redis,
        Kind::RabbitmqQuorum,
        Kind::RabbitmqClassic,
        Kind::Beanstalkd,
        Kind::Nats,
        Kind::Elasticmq,
    ];
    /// Those that have protocols of their own.
    pub const QUEUE_PEERS: &[Kind] =
        &[Kind::Redis, Kind::RabbitmqQuorum, Kind::RabbitmqClassic, Kind::Beanstalkd, Kind::Nats];

    /// As keys of figures have it.
    pub fn name(self) -> &'static str {
        match self {
            Kind::Tidegate => "tidegate",
            Kind::Redis => "redis",
            Kind::RabbitmqQuorum => "rabbitmq_quorum",
            Kind::RabbitmqClassic => "rabbitmq_classic",
            Kind::Beanstalkd => "beanstalkd",
            Kind::Nats => "nats",
            Kind::Elasticmq => "elasticmq",
        }
    }

    /// The key of a figure of this server.
    pub fn key(self, figure: &str) -> String {
        match self {
            Kind::Tidegate => figure.to_owned(),
            peer => format!("peer_{}_{figure}", peer.name()),
        }
    }

    /// What it says it is; for one that is not installed, the error says how to install it.
    pub fn version(self, settings: &Settings) -> Result<String> {
        match self {
            Kind::Tidegate => settings.subject.version(),
            Kind::Redis => Redis::version(),
            Kind::RabbitmqQuorum | Kind::RabbitmqClassic => Rabbitmq::version(),
            Kind::Beanstalkd => Beanstalkd::version(),
            Kind::Nats => Nats::version(&settings.nats),
            Kind::Elasticmq => Elasticmq::version(&settings.elasticmq),
        }
    }
}

impl std::fmt::Display for Kind {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        clap::ValueEnum::to_possible_value(self).expect("no server is skipped").get_name().fmt(f)
    }
}
