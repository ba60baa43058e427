//! Servers that are used today for the same task, configured as well as we can: a necessary choice favours the peer,
//! and each file says which. Redis and PostgreSQL do the same as the ledger for every transfer: balance check, exactly
//! once by id, a history row, synced to disk before the reply. Mosquitto and mochi-mqtt are brokers. Redis' streams,
//! RabbitMQ, beanstalkd and NATS are queues that are on disk before a sender is answered; ElasticMQ keeps its queues in
//! memory. The banker and the pacer in Go reserve money for bids.

pub mod amqp;
pub mod banker;
pub mod beanstalkd;
pub mod elasticmq;
pub mod mochi;
pub mod mosquitto;
pub mod nats;
pub mod pacer_go;
pub mod postgres;
pub mod queue;
pub mod rabbitmq;
pub mod redis;
pub mod redis_stream;
pub mod window;
