//! The clocks of a simulated host: a wall clock that jumps, and the time of the process, which follows it as that of a
//! real process does.
//!
//! ```text
//!   fault ─▶ wall clock, jumps by up to ten years
//!                │ read at each start; followed slowly while the process lives (tidegate_runtime::clock::Follower)
//!                ▼
//!   time since boot ─▶ now_ms, which shards decide by ─▶ aged_ms: by how much they may have grown older at most
//! ```

use tidegate_runtime::clock::Follower;

/// When the simulated clock begins: late 2023, in milliseconds.
const BEGINNING_MS: i64 = 1_700_000_000_000;
/// How far ahead of everything before a wall clock may be at a start; beyond, the start is refused and an operator
/// corrects the clock.
const AHEAD_AT_START_MS_MAX: i64 = 366 * 86_400_000;

/// The clocks of one host and of the process on it.
pub struct Clock {
    wall_ms: i64,
    /// What the wall clock should show.
    right_ms: i64,
    since_boot_ms: i64,
    follower: Follower,
    now_ms: i64,
    latest_ms: i64,
    /// In twentieths of a millisecond: time may run by one in twenty too fast.
    aged_twentieths: i64,
    stands: bool,
}

impl Clock {
    /// A host that was just started.
    pub(super) fn new() -> Clock {
        Clock {
            wall_ms: BEGINNING_MS,
            right_ms: BEGINNING_MS,
            since_boot_ms: 0,
            follower: Follower::new(BEGINNING_MS, 0),
            now_ms: BEGINNING_MS,
            latest_ms: BEGINNING_MS,
            aged_twentieths: 0,
            stands: false,
        }
    }

    /// The process's time, in milliseconds since the Unix epoch. It goes on steadily but over a restart.
    pub fn now_ms(&self) -> u64 {
        self.now_ms as u64
    }

    /// Milliseconds since the host was started: what has passed, whatever its wall clock shows.
    pub fn since_boot_ms(&self) -> u64 {
        self.since_boot_ms as u64
    }

    /// How long anything may have lasted by the process's time since the beginning, at most, in milliseconds.
    pub fn aged_ms(&self) -> u64 {
        self.aged_twentieths as u64 / 20
    }

    /// Time does not pass until [`Clock::go_on`], not even over a restart: an operator has set the wall clock right.
    pub fn stand_still(&mut self) {
        self.stands = true;
        self.wall_ms = self.now_ms;
    }

    /// Time passes again.
    pub fn go_on(&mut self) {
        self.stands = false;
    }

    /// What the wall clock should show, in milliseconds since the Unix epoch.
    pub fn right_ms(&self) -> u64 {
        self.right_ms as u64
    }

    /// Whether time passes.
    pub(super) fn passes(&self) -> bool {
        !self.stands
    }

    /// Lets so many milliseconds pass.
    pub fn pass(&mut self, ms: u64) {
        self.wall_ms += ms as i64;
        self.right_ms += ms as i64;
        self.since_boot_ms += ms as i64;
        self.follower.observe(self.since_boot_ms, self.wall_ms);
        self.aged_twentieths += 21 * ms as i64;
        self.show(self.follower.time_ms(self.since_boot_ms));
    }

    /// So many milliseconds pass while the host is off.
    pub fn pass_off(&mut self, ms: u64) {
        self.wall_ms += ms as i64;
        self.right_ms += ms as i64;
    }

    /// The wall clock jumps by so many milliseconds.
    pub fn jump(&mut self, by_ms: i64) {
        self.wall_ms = (self.wall_ms + by_ms).max(0);
    }

    /// The wall clock is set right.
    pub(super) fn correct(&mut self) {
        self.wall_ms = self.right_ms;
    }

    /// The wall clock is set right by an operator who says so in the logs: what they said before counts no more.
    pub fn mend(&mut self) {
        self.correct();
        self.latest_ms = self.wall_ms;
    }

    /// Whether the wall clock is behind.
    pub(super) fn is_behind(&self) -> bool {
        self.wall_ms < self.right_ms
    }

    /// A process starts and takes the wall clock's time. `false` if it refuses to, and an operator has corrected the
    /// clock.
    pub(super) fn process_starts(&mut self) -> bool {
        let is_right = self.wall_ms <= self.latest_ms + AHEAD_AT_START_MS_MAX;
        if !is_right {
            self.wall_ms = self.latest_ms;
        }
        self.follower = Follower::new(self.wall_ms - self.since_boot_ms, self.since_boot_ms);
        self.aged_twentieths += 20 * (self.wall_ms - self.now_ms).max(0);
        self.show(self.wall_ms);
        is_right
    }

    fn show(&mut self, now_ms: i64) {
        self.now_ms = now_ms;
        self.latest_ms = self.latest_ms.max(now_ms);
    }
}
