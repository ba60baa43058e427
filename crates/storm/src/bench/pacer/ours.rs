//! The cases of our server.

use super::{Bench, PACKET};
use crate::hammer::{Answers, Campaigns, Measured, Target};
use crate::report::Report;
use crate::tidegate::pacer::CampaignSet;
use crate::tidegate::server::{Configuration, Tidegate};
use anyhow::{Result, ensure};
use std::sync::atomic::{AtomicBool, Ordering};
use tidegate_wire::pacer::NoticeOutcome;

/// Bid requests a second at which searches begin.
const FIRST: f64 = 500_000.0;
/// The same for packets of one.
const FIRST_SINGLES: f64 = 100_000.0;

/// Packets of ten: the highest rate, and the latency at half of it.
pub fn bids(bench: &Bench<'_>, report: &mut Report) -> Result<()> {
    let set = CampaignSet { count: bench.settings.campaigns, ..CampaignSet::default() };
    let (tidegate, campaigns) = server(bench, set)?;
    let processor_time = || tidegate.processor_time();
    let target = Target { address: tidegate.binary(), processor_time: &processor_time };
    let frames = || bench.frames_with_token(&campaigns, PACKET);
    let peak = bench.peak(&target, FIRST, frames)?;
    nearly_all_bid(&peak)?;
    report.add("bids_per_s", peak.bids_per_s());
    report.add("bid_share", peak.answers.bids as f64 / peak.answers.requests() as f64);
    report.add("bid_server_cpu_ns", peak.server_cpu_ns());
    report.add("bid_client_cpu_ns", peak.own_time.as_nanos() as f64 / peak.answers.requests() as f64);
    report.add("wins_per_s", peak.notices_per_s(NoticeOutcome::Taken));
    report.add("pacer_rss_bytes", tidegate.resident_bytes()? as f64);
    let half = bench.at_half(&target, peak.load.bids_per_s, frames())?;
    nearly_all_bid(&half)?;
    for (key, quantile) in [("p50", 0.5), ("p99", 0.99), ("p999", 0.999), ("p9999", 0.9999), ("max", 1.0)] {
        report.add(&format!("bid_latency_{key}_ms"), half.latency_ms(quantile));
    }
    Ok(())
}

/// Packets of one.
pub fn singles(bench: &Bench<'_>, report: &mut Report) -> Result<()> {
    let set = CampaignSet { count: bench.settings.campaigns, ..CampaignSet::default() };
    let (tidegate, campaigns) = server(bench, set)?;
    let processor_time = || tidegate.processor_time();
    let target = Target { address: tidegate.binary(), processor_time: &processor_time };
    let peak = bench.peak(&target, FIRST_SINGLES, || bench.frames_with_token(&campaigns, 1))?;
    nearly_all_bid(&peak)?;
    report.add("single_bids_per_s", peak.bids_per_s());
    report.add("single_server_cpu_ns", peak.server_cpu_ns());
    Ok(())
}

/// Many campaigns with frequency caps: the highest rate, and the latency at half of it while all are reloaded.
pub fn campaigns(bench: &Bench<'_>, report: &mut Report) -> Result<()> {
    let set = CampaignSet { count: bench.settings.many_campaigns, is_capped: true, ..CampaignSet::default() };
    let (tidegate, campaigns) = server(bench, set)?;
    let processor_time = || tidegate.processor_time();
    let target = Target { address: tidegate.binary(), processor_time: &processor_time };
    let frames = || bench.frames_with_token(&campaigns, PACKET);
    let peak = bench.peak(&target, FIRST, frames)?;
    report.add("bids_10k_campaigns_per_s", peak.bids_per_s());
    let (is_over, http) = (AtomicBool::new(false), tidegate.http());
    let (half, reloaded) = std::thread::scope(|scope| {
        let reloader = scope.spawn(|| set.reload(http, &is_over));
        let half = bench.at_half(&target, peak.load.bids_per_s, frames());
        is_over.store(true, Ordering::Relaxed);
        (half, reloader.join().expect("the reloader does not panic"))
    });
    let (half, reloaded) = (half?, reloaded?);
    let count = u64::from(set.count);
    ensure!(reloaded >= count, "only {reloaded} of {count} campaigns were reloaded under load: raise --seconds");
    report.add("reload_latency_p999_ms", half.latency_ms(0.999));
    report.add("reload_latency_p9999_ms", half.latency_ms(0.9999));
    let elapsed = half.load.warm_up + half.load.measured;
    report.add("reload_campaigns_per_s", reloaded as f64 / elapsed.as_secs_f64());
    Ok(())
}

/// OpenRTB over HTTP: one request at a time on each connection.
pub fn openrtb(bench: &Bench<'_>, report: &mut Report) -> Result<()> {
    let set = CampaignSet { count: bench.settings.campaigns, is_auctioned: true, ..CampaignSet::default() };
    let (tidegate, _) = server(bench, set)?;
    let processor_time = || tidegate.processor_time();
    let target = Target { address: tidegate.http(), processor_time: &processor_time };
    let peak = bench.openrtb_peak(&target)?;
    let (bids, asked) = (peak.answers.bids, peak.answers.requests());
    report.add("openrtb_bids_per_s", peak.bids_per_s());
    report.add("openrtb_bid_share", bids as f64 / asked as f64);
    report.add("openrtb_server_cpu_ns", peak.server_cpu_ns());
    report.add("openrtb_client_cpu_ns", peak.own_time.as_nanos() as f64 / asked as f64);
    report.add("openrtb_wins_per_s", peak.notices_per_s(NoticeOutcome::Taken));
    Ok(())
}

/// A server of ours with campaigns.
fn server(bench: &Bench<'_>, set: CampaignSet) -> Result<(Tidegate, Campaigns)> {
    let tidegate = bench.settings.subject.start(&bench.out.join("tidegate"), Configuration::Pacer)?;
    let campaigns = set.make(tidegate.binary(), tidegate.http())?;
    Ok((tidegate, campaigns))
}

/// A server that does not bid is fast, and measured for nothing.
fn nearly_all_bid(measured: &Measured) -> Result<()> {
    let Answers { bids, no_bids, .. } = measured.answers;
    let requests = measured.answers.requests();
    ensure!(bids * 100 >= requests * 95, "of {requests} requests {bids} were bid for; no bids by reason: {no_bids:?}");
    Ok(())
}
