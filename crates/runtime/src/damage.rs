//! The places of this process's files that were found damaged: told once, kept for all who ask, taken back when mended.
//!
//! ```text
//!   fetch threads ──┐                        ┌─▶ log: an error for each place, once
//!   scrub ──────────┼─ note ─▶ Damages ──────┼─▶ /healthz, metrics, audit reports
//!   id index ───────┘   ▲ mend, read again   └─▶ &'static DamagedPlace, for the refusal of whoever needed it
//! ```
//!
//! Promise: a place is damaged until it was read again and was sound. It is looked at again every few seconds, as
//! whoever found it did: the record that somebody needed, the group that a pass over the log could not read, the header
//! or mark of a segment. A pass over the log finds the rest.
//!
//! Why interned for ever: a refusal is copied with every outcome, so it can own no text. A place costs some hundred
//! bytes once, and there are at most [`PLACES_MAX`] of them.

use std::collections::{HashMap, HashSet};
use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering};
use std::sync::{Arc, LazyLock, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use tidegate_journal::archive::ARCHIVE_FILE;
use tidegate_journal::segment::parse_segment_name;
use tidegate_journal::{Cursor, Durability, JournalError, LogId, LogReader, Mending, Position};
use tidegate_machines::DamagedPlace;

use crate::mended::MendedBytes;

/// Places that are told apart; more damage than that is told as one.
pub const PLACES_MAX: usize = 4_096;

/// Of one file, places are told in the log so often at most.
const TOLD_EVERY: Duration = Duration::from_secs(60);
/// Places of one log that are looked at again at a time: some megabytes are read for each at most.
const LOOKED_AT_MAX: usize = 64;

/// What all places beyond [`PLACES_MAX`] are.
static MANY: LazyLock<DamagedPlace> = LazyLock::new(|| DamagedPlace {
    file: "journal".into(),
    offset: 0,
    what: "more places are damaged than are told apart".into(),
    lost: "see the server's log, and run `tidegate audit`".into(),
    is_away: false,
});

/// The damage that this process has met.
#[derive(Debug, Default)]
pub struct Damages {
    places: Mutex<HashMap<(Box<str>, u64), Found>>,
    /// The last pass over a log that was begun.
    pass: AtomicU64,
    /// Places that are damaged now: whoever must not wait looks here first.
    damaged: AtomicUsize,
    /// How often places were looked at again: whose turn it is, if there are more than are looked at at a time.
    looks: AtomicUsize,
    /// By file: when a place of it was last told in the log, and how many were found since.
    told: Mutex<HashMap<Box<str>, (Instant, u64)>>,
    mended: MendedBytes,
}

/// Where somebody met a damaged place, by which it can be looked at again.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Met {
    /// At this record.
    Record(Position),
    /// The same, where the file that had it may be gone: no pass over what is there tells.
    Needed(Position),
    /// At a file that cannot be opened, and that has this place of the log.
    File(Position),
    /// At the group behind this place, in a reading that was to go on to the other one.
    Group(Cursor, Durability),
    /// The same in a segment that is still being written, which a pass over the log does not read to its end.
    Tail(Cursor, Durability),
    /// At the header or the mark of the segment that begins here.
    Ends(Position),
}

impl Met {
    /// Whether a pass over the log that ended at `end` has read it. It opens all files, whatever it reads of the last.
    fn was_passed(&self, end: Position) -> bool {
        match *self {
            Met::Record(at) | Met::Group(Cursor { position: at, .. }, _) => at < end,
            Met::Tail(..) | Met::Needed(_) => false,
            Met::File(_) | Met::Ends(_) => true,
        }
    }

    /// Whether what stands at `place`, in a segment's file, is sound by now.
    fn is_sound<R: LogReader>(&self, reader: &R, place: &DamagedPlace) -> bool {
        let DamagedPlace { file, offset, .. } = place;
        match *self {
            Met::Record(at) | Met::Needed(at) => reader.read_right(at, &mut Vec::new()).is_ok(),
            // What is wrong behind its beginning is another place: a log may have no records, or damaged ones.
            Met::File(at) => match reader.examine(at) {
                Err(JournalError::Damaged { segment, offset: at, .. }) => {
                    segment_of(&segment) == segment_of(file) && at != *offset
                }
                examined => examined.is_ok(),
            },
            // A new reader opens the file anew: it may have been put right by another one of its name.
            Met::Group(from, up_to) | Met::Tail(from, up_to) => {
                reader.groups(from, &up_to).and_then(|mut groups| Ok(groups.next_group()?.is_some())).unwrap_or(false)
            }
            Met::Ends(first) => {
                let Ok(next) = reader.next_readable(first) else { return false };
                // Behind the last segment there is none.
                let end = next.map_or(Position(u64::MAX), |next| next.position);
                let is_here = |error: &JournalError| match error {
                    JournalError::Damaged { segment, offset: at, .. } => {
                        (segment_of(segment), *at) == (Some(first), *offset)
                    }
                    _ => true,
                };
                reader.rotten_ends(first, end).is_ok_and(|rotten| !rotten.iter().any(is_here))
            }
        }
    }
}

/// One place, in whose log, and whether it is still damaged.
#[derive(Clone, Copy, Debug)]
struct Found {
    place: &'static DamagedPlace,
    owner: Owner,
    met: Option<Met>,
    /// The pass that had begun last when it was last met; `None` once it was found sound.
    seen: Option<u64>,
}

/// What a damaged file belongs to.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Owner {
    /// A log.
    Log(LogId),
    /// The index of ids beside a log.
    Ids(LogId),
}

/// Why a record cannot be had.
#[derive(Clone, Debug)]
pub enum Unreadable {
    /// Its place is damaged. Whoever needs it is refused; everybody else is served.
    Damaged(&'static DamagedPlace),
    /// All is sound around it: no record begins there.
    Nothing(&'static DamagedPlace),
    /// The log as a whole has failed.
    Failed(JournalError),
}

impl Damages {
    fn places(&self) -> MutexGuard<'_, HashMap<(Box<str>, u64), Found>> {
        self.places.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Tells this of bytes that are put right.
    pub fn mending(self: &Arc<Damages>) -> Mending {
        let damages = self.clone();
        Mending::new(move |byte| {
            damages.mended.note(&byte, Instant::now());
        })
    }

    /// Bytes of a log that were put right since the process started.
    pub fn mended_of(&self, log: LogId) -> usize {
        self.mended.of(log)
    }

    /// Keeps `place`, and says so in the log if it was not known to be damaged. `shard`: whose, for the log.
    pub fn note(&self, owner: Owner, shard: u16, place: DamagedPlace) -> &'static DamagedPlace {
        self.note_met(owner, shard, place, None)
    }

    /// The same, and by which record it can be looked at again.
    fn note_met(&self, owner: Owner, shard: u16, place: DamagedPlace, met: Option<Met>) -> &'static DamagedPlace {
        let mut places = self.places();
        let key = (place.file.clone(), place.offset);
        let is_new = places.get(&key).is_none_or(|found| found.seen.is_none());
        if is_new {
            self.tell(shard, &place, Instant::now());
        }
        if !places.contains_key(&key) && places.len() >= PLACES_MAX {
            return &MANY;
        }
        let found = places.entry(key).or_insert_with(|| {
            let place: &'static DamagedPlace = Box::leak(Box::new(place));
            Found { place, owner, met, seen: None }
        });
        found.met = met.or(found.met);
        if found.seen.is_none() {
            self.damaged.fetch_add(1, Ordering::SeqCst);
        }
        found.seen = Some(self.pass.load(Ordering::SeqCst));
        found.place
    }

    /// Says in the log that `place` is damaged, unless another place of its file was told less than a minute ago: then
    /// it is counted. Whether it was said.
    fn tell(&self, shard: u16, place: &DamagedPlace, now: Instant) -> bool {
        let mut told = self.told.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some((at, more)) = told.get_mut(&place.file)
            && now.duration_since(*at) < TOLD_EVERY
        {
            *more += 1;
            return false;
        }
        let more = told.insert(place.file.clone(), (now, 0)).map_or(0, |(_, more)| more);
        let DamagedPlace { file, offset, what, lost, is_away } = place;
        let advice = match is_away {
            true => "a file cannot be opened: what needs it is refused, all else is served; mount its disk or archive",
            false => "a file is damaged: what needs it is refused, all else is served; restore the file from a copy",
        };
        tracing::error!(shard, %file, offset, %what, %lost, more_places_since_the_last_line = more, "{advice}");
        true
    }

    /// Looks again at places of the log of `owner` that somebody has met, and forgets those that are sound by now.
    /// How many these are.
    pub fn look_again<R: LogReader>(&self, owner: Owner, reader: &R) -> usize {
        let is_its = |found: &&Found| found.owner == owner && found.seen.is_some();
        let mut met: Vec<(&'static DamagedPlace, Met)> = {
            let places = self.places();
            places.values().filter(is_its).filter_map(|found| Some((found.place, found.met?))).collect()
        };
        met.sort_unstable_by_key(|(place, _)| (&place.file, place.offset));
        if met.is_empty() {
            return 0;
        }
        // As whoever has none of the files open: a reader goes on to read a file that was open when it was moved away.
        let Ok(reader) = &reader.another() else { return 0 };
        // All have their turn.
        let turn = self.looks.fetch_add(1, Ordering::Relaxed).wrapping_mul(LOOKED_AT_MAX) % met.len();
        met.rotate_left(turn);
        let mut sound = 0;
        for (place, met) in met.into_iter().take(LOOKED_AT_MAX) {
            if met.is_sound(reader, place)
                && let Some(found) = self.places().get_mut(&(place.file.clone(), place.offset))
            {
                sound += usize::from(self.forget(found));
            }
        }
        sound
    }

    /// The place was found sound. Whether it was damaged before.
    fn forget(&self, found: &mut Found) -> bool {
        if found.seen.take().is_none() {
            return false;
        }
        self.damaged.fetch_sub(1, Ordering::SeqCst);
        let DamagedPlace { file, offset, .. } = found.place;
        tracing::info!(%file, offset, "a file that was damaged or away can be read again");
        true
    }

    /// The place at `offset` of `file`, if it is known to be damaged.
    pub fn find(&self, file: &str, offset: u64) -> Option<&'static DamagedPlace> {
        let places = self.places();
        places.get(&(file.into(), offset)).filter(|found| found.seen.is_some()).map(|found| found.place)
    }

    /// A pass over some log begins; its number, for [`Damages::mend`].
    pub fn begin_pass(&self) -> u64 {
        self.pass.fetch_add(1, Ordering::SeqCst) + 1
    }

    /// Forgets the damage of files of `owner` in which none was met since `pass` began, which has read all before
    /// `end`. What stands behind that, in a file that is still being written, was not read.
    pub fn mend(&self, owner: Owner, pass: u64, end: Position) {
        let mut places = self.places();
        let met = |found: &&Found| found.owner == owner && found.seen.is_some_and(|seen| seen >= pass);
        let still: HashSet<&'static str> = places.values().filter(met).map(|found| &*found.place.file).collect();
        let was_read = |found: &Found| found.owner == owner && found.met.is_none_or(|met| met.was_passed(end));
        for found in places.values_mut().filter(|found| was_read(found) && found.seen.is_some()) {
            if !still.contains(&*found.place.file) {
                self.forget(found);
            }
        }
    }

    /// What is damaged of `owner`, in order of files and offsets.
    pub fn of(&self, owner: Owner) -> Vec<&'static DamagedPlace> {
        if self.count() == 0 {
            return Vec::new();
        }
        let places = self.places();
        let is_its = |found: &&Found| found.owner == owner && found.seen.is_some();
        let mut of: Vec<_> = places.values().filter(is_its).map(|found| found.place).collect();
        of.sort_unstable_by_key(|place| (&place.file, place.offset));
        of
    }

    /// Places that are damaged now, in all files.
    pub fn count(&self) -> usize {
        self.damaged.load(Ordering::SeqCst)
    }

    /// Reads the record at `at`. If it cannot be had, all around it is read: to put it right, or to say what is lost.
    pub fn read<R: LogReader>(
        &self,
        reader: &R,
        whose: (&str, LogId),
        at: Position,
        into: &mut Vec<u8>,
    ) -> Result<(), Unreadable> {
        let Err(error) = reader.read(at, into) else { return Ok(()) };
        self.judge(reader, whose, (at, into), error).map_or(Ok(()), Err)
    }

    /// What `error` says about the place `at`, whose log of `family` `reader` reads: `None` if the record there is back
    /// by now, or was put right, and is in `into`. May wait for the disk: the first time that a place is met, all
    /// around it is read.
    pub fn judge<R: LogReader>(
        &self,
        reader: &R,
        (family, log): (&str, LogId),
        (at, into): (Position, &mut Vec<u8>),
        error: JournalError,
    ) -> Option<Unreadable> {
        let (mut met, mut told) = (Met::Record(at), None);
        let (segment, offset, what) = match error {
            JournalError::NoRecord { segment, offset, what, .. } => (segment, offset, what),
            // A file that is missing, or its header.
            JournalError::Damaged { segment, offset, what, lost } => {
                (met, told) = (Met::File(at), Some(lost));
                (segment, offset, what)
            }
            JournalError::Io { doing: "read", cause, .. } => {
                let (segment, offset) = reader.place_of(at);
                (segment, offset, format!("cannot read: {cause}"))
            }
            // A header with another version, where a log was served: it has rotted.
            JournalError::UnknownVersion { ref path, .. } => {
                met = Met::File(at);
                (path.to_string_lossy().into_owned(), 0, error.to_string())
            }
            // Not a place in the file, but the file: it is one place, whoever needs a record of it.
            JournalError::Io { path, doing, cause } => {
                met = Met::File(at);
                (path.to_string_lossy().into_owned(), 0, format!("cannot {doing}: {cause}"))
            }
            JournalError::Forgotten { .. } | JournalError::BadCursor { .. } => {
                ("no segment".into(), at.0, error.to_string())
            }
            failed => return Some(Unreadable::Failed(failed)),
        };
        let file = file_of(family, log, &segment);
        if let Some(known) = self.find(&file, offset) {
            return Some(Unreadable::Damaged(self.note_met(Owner::Log(log), log.shard, known.clone(), Some(met))));
        }
        if reader.read_right(at, into).is_ok() {
            return None;
        }
        let around = reader.examine(at);
        let is_of_file = matches!(met, Met::File(_));
        let is_away = is_of_file && told.is_none();
        let lost = match &around {
            _ if told.is_some() => told.unwrap_or_default(),
            _ if is_away => "all records of this part of the log".into(),
            Ok(()) => format!("nothing: the log is sound there, but no record begins at position {at}"),
            Err(JournalError::Damaged { lost, .. }) => lost.clone(),
            Err(_) => format!("the record at position {at}"),
        };
        let place = DamagedPlace { file: file.into(), offset, what: what.into(), lost: lost.into(), is_away };
        Some(match around {
            // The file is back by now: whoever needed it asks again, and nothing is known to be wrong.
            Ok(()) if is_of_file => Unreadable::Damaged(self.intern(Owner::Log(log), place)),
            Ok(()) => Unreadable::Nothing(self.intern(Owner::Log(log), place)),
            Err(_) => Unreadable::Damaged(self.note_met(Owner::Log(log), log.shard, place, Some(met))),
        })
    }

    /// Keeps what a reading of a whole log found at `place`, a segment's name and an offset: what is wrong, what is
    /// lost, and how it can be looked at again.
    pub fn note_at(
        &self,
        family: &str,
        log: LogId,
        (segment, offset): (&str, u64),
        (what, lost): (String, String),
        met: Option<Met>,
    ) -> &'static DamagedPlace {
        let file = file_of(family, log, segment).into();
        let place = DamagedPlace { file, offset, what: what.into(), lost: lost.into(), is_away: false };
        self.note_met(Owner::Log(log), log.shard, place, met)
    }

    /// Keeps what is wrong with the header or the mark of a segment that the log goes on behind.
    pub fn note_ends(&self, family: &str, log: LogId, damage: &JournalError) -> &'static DamagedPlace {
        let first = match damage {
            JournalError::Damaged { segment, .. } => segment_of(segment),
            _ => None,
        };
        self.note_of_segment(family, log, damage, first.map(Met::Ends))
    }

    /// Keeps what is wrong with a segment that the log goes on behind, until a pass over the log looks at it.
    pub fn note_segment(&self, family: &str, log: LogId, damage: &JournalError) -> &'static DamagedPlace {
        self.note_of_segment(family, log, damage, None)
    }

    fn note_of_segment(
        &self,
        family: &str,
        log: LogId,
        damage: &JournalError,
        met: Option<Met>,
    ) -> &'static DamagedPlace {
        let (segment, offset, what, lost) = match damage {
            JournalError::Damaged { segment, offset, what, lost } => {
                (segment.clone(), *offset, what.clone(), lost.clone())
            }
            JournalError::Io { path, doing, cause } => {
                let lost = "perhaps all records of this segment".into();
                (path.to_string_lossy().into_owned(), 0, format!("cannot {doing} it: {cause}"), lost)
            }
            other => (String::new(), 0, other.to_string(), "perhaps all records of a segment".into()),
        };
        self.note_at(family, log, (&segment, offset), (what, lost), met)
    }

    /// Keeps that the record at `at` is not what it should be although its checksum is right.
    pub fn note_record(&self, family: &str, log: LogId, at: Position, what: &str) -> &'static DamagedPlace {
        let (file, lost) = (format!("journal/{family}-{}", log.shard), format!("the record at position {at}"));
        let (what, lost) = (what.into(), lost.into());
        let place = DamagedPlace { file: file.into(), offset: at.0, what, lost, is_away: false };
        self.note(Owner::Log(log), log.shard, place)
    }

    /// Keeps that the record at `at`, which somebody needs, cannot be read.
    pub fn note_needed(&self, family: &str, log: LogId, at: Position, what: &str) -> &'static DamagedPlace {
        let folder = format!("{family}-{}", log.shard);
        let lost = format!("the record at position {at}");
        self.note_at(family, log, (&folder, at.0), (what.to_owned(), lost), Some(Met::Needed(at)))
    }

    /// Text for a refusal that is no damage of a file.
    fn intern(&self, owner: Owner, place: DamagedPlace) -> &'static DamagedPlace {
        let mut places = self.places();
        let key = (place.file.clone(), place.offset);
        if let Some(found) = places.get(&key) {
            return found.place;
        }
        if places.len() >= PLACES_MAX {
            return &MANY;
        }
        let place: &'static DamagedPlace = Box::leak(Box::new(place));
        places.insert(key, Found { place, owner, met: None, seen: None });
        place
    }
}

/// Where the segment begins that has this file.
fn segment_of(file: &str) -> Option<Position> {
    file.rsplit('/').next().and_then(parse_segment_name)
}

/// A segment's file, from the data directory on, or from its archive on.
pub fn file_of(family: &str, log: LogId, segment: &str) -> String {
    // Whoever asked from outside need not know where the data directory is, or the archive.
    let name = segment.rsplit('/').next().unwrap_or(segment);
    if name == ARCHIVE_FILE {
        return ARCHIVE_FILE.into();
    }
    if name == format!("{family}-{}", log.shard) {
        return format!("journal/{name}");
    }
    let is_archived = name.starts_with("segment-") && parse_segment_name(name).is_none();
    let parts: Vec<&str> = segment.rsplit('/').take(3).collect();
    match parts[..] {
        [name, log, directory] if is_archived => format!("archive: {directory}/{log}/{name}"),
        _ => format!("journal/{family}-{}/{name}", log.shard),
    }
}

#[cfg(test)]
mod tests;
