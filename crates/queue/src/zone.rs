//! Time zones, from the database that is compiled into the program: what a text says of a moment does not depend on
//! the files of a host.

use std::sync::LazyLock;

use jiff::Timestamp;
use jiff::tz::{TimeZone, TimeZoneDatabase};
use tidegate_machines::TimeMs;

static DATABASE: LazyLock<TimeZoneDatabase> = LazyLock::new(TimeZoneDatabase::bundled);

/// A zone by its name of the IANA database, such as `Europe/Berlin`, in any case.
pub(crate) fn zone_of(name: &str) -> Option<TimeZone> {
    DATABASE.get(name).ok()
}

/// A moment, if it is before the year 10,000.
pub(crate) fn moment(at: TimeMs) -> Option<Timestamp> {
    Timestamp::from_millisecond(i64::try_from(at.0).ok()?).ok()
}

/// The time of a moment, if it is behind 1970.
pub(crate) fn time_of(moment: Timestamp) -> Option<TimeMs> {
    u64::try_from(moment.as_millisecond()).ok().map(TimeMs)
}
