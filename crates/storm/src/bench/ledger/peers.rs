//! The same payments through Redis and PostgreSQL.

use crate::load::{self, Outcomes, Pressure};
use crate::peer::postgres::Postgres;
use crate::peer::redis::{Redis, RedisWallet};
use crate::report::Report;
use crate::workload::{Names, Pattern, Workload};
use anyhow::{Result, ensure};
use std::path::Path;

/// As for our single-transfer case: 64 connections, 16 deep.
const PIPELINED: Pressure = Pressure { connections: 64, in_flight: 16 };

/// The Redis wallet.
pub fn redis(out: &Path, names: &Names, transfers: u64, report: &mut Report) -> Result<()> {
    let redis = Redis::start(&out.join("redis"))?;
    redis.fund(names)?;
    let work = Workload::new(Pattern::Uniform, names.wallets(), transfers, 0);
    let tally = load::run(redis.address(), PIPELINED, &mut RedisWallet::new(&redis, names, work)?)?;
    all_applied(tally.outcomes(), transfers)?;
    redis.verify(names, transfers)?;
    report.add("peer_redis_transfers_per_s", tally.per_second());
    report.add("peer_redis_latency_p99_ms", tally.latency_ms(0.99));
    Ok(())
}

/// The PostgreSQL wallet.
pub fn postgres(out: &Path, names: &Names, transfers: u64, report: &mut Report) -> Result<()> {
    let postgres = Postgres::start(&out.join("postgres"))?;
    postgres.fund(names)?;
    let (outcomes, elapsed) = postgres.pay(names, transfers)?;
    all_applied(outcomes, transfers)?;
    postgres.verify(names, transfers)?;
    report.add("peer_postgres_transfers_per_s", outcomes.applied as f64 / elapsed.as_secs_f64());
    Ok(())
}

/// A bench that measures refusals is worthless.
pub fn all_applied(outcomes: Outcomes, transfers: u64) -> Result<()> {
    ensure!(outcomes.applied == transfers, "{transfers} transfers were sent but {outcomes}");
    Ok(())
}
