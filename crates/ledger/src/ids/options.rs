//! The options of an index.

use tidegate_journal::LogId;

use super::IdSeed;

/// Where runs are built.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum BuilderKind {
    /// On a thread of its own.
    Thread,
    /// One step within each [`super::IdIndex::maintain`]: for the simulator.
    Stepped,
}

/// Sizes and places of an index. The defaults are for a shard that takes more than a million new ids a second.
#[derive(Clone, Copy, Debug)]
pub struct IdsOptions {
    /// Ids in a table before it is frozen and becomes a run. 24 bytes of memory each.
    pub freeze_at: usize,
    /// Full tables that may wait for the builder before [`super::IdIndex::is_behind`].
    pub frozen_max: usize,
    /// Runs of one size that are merged into one.
    pub fan_out: usize,
    /// Ids that the filter's first generation is made for; each further one makes the whole four times as large.
    pub filter_ids_first: usize,
    /// Memory for filters: a quarter for that of the younger ids, the rest for those of large runs. Beyond it false
    /// positives grow, and each costs some reads of pages.
    pub filter_bytes_max: usize,
    /// Where runs are built.
    pub builder: BuilderKind,
    /// Key of the hash for a new index; an existing one keeps its own. Random in production.
    pub seed: IdSeed,
    /// Whose records it has. An index that is found and that was made of another log is thrown away.
    pub log: LogId,
}

impl IdsOptions {
    /// Default sizes; `seed` should be random.
    pub fn new(seed: IdSeed, log: LogId) -> IdsOptions {
        IdsOptions {
            freeze_at: 1 << 19,
            frozen_max: 2,
            fan_out: 8,
            filter_ids_first: 1 << 20,
            filter_bytes_max: 800 << 20,
            builder: BuilderKind::Thread,
            seed,
            log,
        }
    }

    /// Memory for the filter of the younger ids.
    pub(super) fn young_filter_bytes_max(&self) -> usize {
        self.filter_bytes_max / 4
    }

    /// Memory for the filters of runs.
    pub(super) fn run_filter_bytes_max(&self) -> u64 {
        (self.filter_bytes_max - self.young_filter_bytes_max()) as u64
    }

    /// Panics on sizes that cannot work; they come from code or from a config that was validated.
    pub(super) fn check(&self) {
        assert!((1..=1 << 26).contains(&self.freeze_at), "ids: freeze_at {} is not in 1..=2^26", self.freeze_at);
        assert!(self.frozen_max >= 1, "ids: frozen_max is zero");
        assert!((2..=64).contains(&self.fan_out), "ids: fan_out {} is not in 2..=64", self.fan_out);
        assert!(self.filter_ids_first >= 1, "ids: filter_ids_first is zero");
        assert!(self.filter_bytes_max >= 4096, "ids: filter_bytes_max {} is below a page", self.filter_bytes_max);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const LOG: LogId = LogId { directory: 7, family: 1, shard: 0 };
    const GOOD: IdsOptions = IdsOptions {
        freeze_at: 4,
        frozen_max: 1,
        fan_out: 2,
        filter_ids_first: 1,
        filter_bytes_max: 4096,
        builder: BuilderKind::Stepped,
        seed: IdSeed([1, 2]),
        log: LOG,
    };

    #[test]
    fn young_ids_and_runs_share_the_memory_for_filters() {
        for options in [GOOD, IdsOptions::new(IdSeed([1, 2]), LOG)] {
            options.check();
            let (young, runs) = (options.young_filter_bytes_max() as u64, options.run_filter_bytes_max());
            assert_eq!((young + runs, runs), (options.filter_bytes_max as u64, 3 * young));
        }
    }

    #[test]
    fn sizes_that_cannot_work_are_a_bug() {
        for wrong in [
            IdsOptions { freeze_at: 0, ..GOOD },
            IdsOptions { freeze_at: (1 << 26) + 1, ..GOOD },
            IdsOptions { frozen_max: 0, ..GOOD },
            IdsOptions { fan_out: 1, ..GOOD },
            IdsOptions { fan_out: 65, ..GOOD },
            IdsOptions { filter_ids_first: 0, ..GOOD },
            IdsOptions { filter_bytes_max: 4095, ..GOOD },
        ] {
            assert!(std::panic::catch_unwind(|| wrong.check()).is_err(), "{wrong:?}");
        }
    }
}
