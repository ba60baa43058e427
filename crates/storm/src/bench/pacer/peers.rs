//! The packets of ten, to a banker in Redis and to a pacer in Go; and OpenRTB, to the latter.

use super::{Bench, PACKET};
use crate::hammer::{Campaigns, Measured, Target, find};
use crate::peer::banker::Banker;
use crate::peer::pacer_go::PacerGo;
use crate::report::Report;
use anyhow::{Result, ensure};

/// Bid requests a second at which the searches begin.
const FIRST_REDIS: f64 = 50_000.0;
const FIRST_GO: f64 = 200_000.0;

/// The banker, which is driven without a process in between.
pub fn redis(bench: &Bench<'_>, report: &mut Report) -> Result<()> {
    let campaigns = numbered(bench);
    let banker = Banker::start(&bench.out.join("banker"), &campaigns)?;
    let packets = banker.packets(&campaigns, PACKET)?;
    let processor_time = || banker.processor_time();
    let target = Target { address: banker.address(), processor_time: &processor_time };
    let peak = find(&target, bench.load(FIRST_REDIS), bench.p99_max(), || packets.clone())?;
    all_bid(&peak)?;
    report.add("peer_redis_bids_per_s", peak.bids_per_s());
    report.add("peer_redis_bid_server_cpu_ns", peak.server_cpu_ns());
    Ok(())
}

/// The pacer in Go, which answers our frames.
pub fn go(bench: &Bench<'_>, report: &mut Report) -> Result<()> {
    let campaigns = numbered(bench);
    let pacer = PacerGo::start(&bench.settings.pacer_go, &bench.out.join("pacer-go.log"), &campaigns)?;
    let processor_time = || pacer.processor_time();
    let target = Target { address: pacer.address(), processor_time: &processor_time };
    let peak = bench.peak(&target, FIRST_GO, || bench.frames(&campaigns, PACKET))?;
    all_bid(&peak)?;
    report.add("peer_go_bids_per_s", peak.bids_per_s());
    report.add("peer_go_bid_server_cpu_ns", peak.server_cpu_ns());
    let half = bench.at_half(&target, peak.load.bids_per_s, bench.frames(&campaigns, PACKET))?;
    report.add("peer_go_bid_latency_p99_ms", half.latency_ms(0.99));
    report.add("peer_go_bid_latency_p9999_ms", half.latency_ms(0.9999));
    Ok(())
}

/// The pacer in Go over HTTP.
pub fn go_openrtb(bench: &Bench<'_>, report: &mut Report) -> Result<()> {
    let campaigns = numbered(bench);
    let pacer = PacerGo::start(&bench.settings.pacer_go, &bench.out.join("pacer-go.log"), &campaigns)?;
    let processor_time = || pacer.processor_time();
    let target = Target { address: pacer.http(), processor_time: &processor_time };
    let peak = bench.openrtb_peak(&target)?;
    report.add("peer_go_openrtb_bids_per_s", peak.bids_per_s());
    report.add("peer_go_openrtb_server_cpu_ns", peak.server_cpu_ns());
    Ok(())
}

fn numbered(bench: &Bench<'_>) -> Campaigns {
    Campaigns((1..=bench.settings.campaigns).collect())
}

/// Peers have money for every run.
fn all_bid(measured: &Measured) -> Result<()> {
    let (bids, requests) = (measured.answers.bids, measured.answers.requests());
    ensure!(bids == requests, "of {requests} requests only {bids} were bid for");
    Ok(())
}
