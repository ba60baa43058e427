//! What happens by the clock: keep-alive and slow handshakes (`sweep.rs`), a drain (`drain.rs`), delayed messages
//! (`delayed.rs`), clients whose time is over (`connect_time.rs`), what is due in the shards (`due.rs`), wills that are
//! sent (`wills.rs`), who waits for one (`will_wait.rs`), and `$SYS` (`sys.rs`). Spent rates are the intake's.

use tidegate_journal::LogStore;
use tidegate_machines::TimeMs;

use super::Broker;
use super::connect_time::ConnectTimes;
use super::delayed::Delayed;
use super::drain::Drain;
use super::due::DueAgain;
use super::sweep::Sweep;
use super::sys::Sys;
use super::wills::Wills;

/// The state of all of it.
#[derive(Debug, Default)]
pub(super) struct Timing {
    pub delayed: Delayed,
    pub again: DueAgain,
    pub wills: Wills,
    pub sweep: Sweep,
    pub connect_times: ConnectTimes,
    pub drain: Option<Drain>,
    pub sys: Sys,
}

impl<L: LogStore> Broker<L> {
    /// Does what the time has come for, before clients are looked at.
    pub(super) fn step_timing(&mut self, now: TimeMs) {
        self.step_due(now);
        self.step_wills(now);
        self.step_will_wait(now);
        self.step_delayed(now);
        self.step_sweep(now);
        self.step_connect_times(now);
        self.step_drain(now);
        self.step_shares(now);
        self.step_pass_on(now);
        self.step_left(now);
        self.step_endings(now);
    }
}
