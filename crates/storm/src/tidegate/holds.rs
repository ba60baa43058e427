//! Pairs over the binary port: reserve, then post what was reserved. A pair counts when its post is applied.

use super::binary::{outcomes, transfer};
use super::session;
use crate::load::{Answer, Dialect, Outcomes};
use crate::workload::{Id, Names, Workload};
use anyhow::{Context, Result, ensure};
use std::collections::HashMap;
use std::net::TcpStream;
use tidegate_wire::{HoldsEncoder, PostHoldsEncoder};

/// Long enough that no hold expires in a run.
const EXPIRES_IN_MS: u64 = 600_000;

/// Sends a workload as requests of `batch` holds, each followed by a request that posts them.
pub struct HoldPairs<'a> {
    names: &'a Names,
    work: Workload,
    batch: usize,
    requests: u64,
    /// By correlation: holds that were sent and not answered.
    placing: HashMap<u64, Vec<Id>>,
    /// Holds that stand and wait for their post.
    placed: Vec<Vec<Id>>,
}

impl<'a> HoldPairs<'a> {
    /// Takes on `work`.
    pub fn new(names: &'a Names, work: Workload, batch: usize) -> HoldPairs<'a> {
        HoldPairs { names, work, batch, requests: 0, placing: HashMap::new(), placed: Vec::new() }
    }

    /// Sum of all amounts held.
    pub fn paid(&self) -> u128 {
        self.work.paid()
    }

    /// The tag in the low half, a number of its own in the high half.
    fn correlation(&mut self, tag: u32) -> u64 {
        self.requests += 1;
        self.requests << 32 | u64::from(tag)
    }
}

impl Dialect for HoldPairs<'_> {
    const IN_ORDER: bool = false;

    fn greet(&mut self, socket: &mut TcpStream) -> Result<()> {
        session::log_in(socket)
    }

    fn transfers_left(&self) -> u64 {
        self.work.left()
    }

    fn ask(&mut self, tag: u32, out: &mut Vec<u8>) -> Result<bool> {
        let correlation = self.correlation(tag);
        if let Some(ids) = self.placed.pop() {
            let mut frame = PostHoldsEncoder::begin(out, correlation);
            for id in &ids {
                frame.push(id.as_str().as_bytes(), None);
            }
            frame.finish();
            return Ok(true);
        }
        if self.work.left() == 0 {
            return Ok(false);
        }
        let mut ids = Vec::with_capacity(self.batch);
        let mut frame = HoldsEncoder::begin(out, correlation, false);
        while ids.len() < self.batch
            && let Some(payment) = self.work.next()
        {
            frame.push(&transfer(&payment, &self.names.parties(&payment)), EXPIRES_IN_MS);
            ids.push(payment.id);
        }
        frame.finish();
        self.placing.insert(correlation, ids);
        Ok(true)
    }

    fn answer(&mut self, bytes: &[u8]) -> Result<Option<Answer>> {
        let Some((correlation, mut answer)) = outcomes(bytes)? else { return Ok(None) };
        answer.tag = correlation as u32;
        if let Some(ids) = self.placing.remove(&correlation) {
            let placed = usize::try_from(answer.outcomes.applied).context("more outcomes than memory")?;
            ensure!(placed == ids.len(), "{} holds were placed but {}", ids.len(), answer.outcomes);
            self.placed.push(ids);
            answer.outcomes = Outcomes::default();
        }
        Ok(Some(answer))
    }
}
