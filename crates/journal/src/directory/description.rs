//! The text of `DIRECTORY`: for people to read, with a checksum against their changes.

use std::path::Path;

use super::{DIRECTORY_VERSION, WHERE_COPIES_ARE, Wanted, refuse};
use crate::disk::{Disk, DiskFile};
use crate::family::is_name;
use crate::folder::read_up_to;
use crate::group::checksum;
use crate::limits::{FAMILIES_MAX, FAMILY_NAME_BYTES_MAX, SHARDS_MAX};
use crate::{JournalError, Retention};

const TITLE: &str = "tidegate data directory";
/// More is somebody else's file.
const DESCRIPTION_BYTES_MAX: u64 = 4096;
const LINES_BYTES_MAX: usize = FAMILIES_MAX * (FAMILY_NAME_BYTES_MAX + 64) + 256;
const _: () = assert!(LINES_BYTES_MAX <= DESCRIPTION_BYTES_MAX as usize, "what is written is read whole");

/// What `DIRECTORY` says.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Description {
    /// By ascending number.
    pub families: Vec<Listed>,
    pub created_at_ms: u64,
    pub id: u64,
}

/// A family as a directory lists it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Listed {
    pub number: u8,
    pub name: String,
    pub retention: Retention,
    pub shards: u16,
}

impl Description {
    /// The family of this number.
    pub fn family(&self, number: u8) -> Option<&Listed> {
        self.families.iter().find(|family| family.number == number)
    }

    /// How many shards of it there are.
    pub fn shards(&self, number: u8) -> u16 {
        self.family(number).map_or(0, |family| family.shards)
    }

    /// The same with those of the wanted families that are not listed.
    pub fn with(mut self, wanted: &[Wanted]) -> Description {
        for Wanted { family, shards, .. } in wanted {
            if self.family(family.number).is_none() {
                let listed = Listed {
                    number: family.number,
                    name: family.name.into(),
                    retention: family.retention,
                    shards: *shards,
                };
                self.families.push(listed);
            }
        }
        self.families.sort_by_key(|family| family.number);
        assert!(self.families.is_sorted_by(|first, second| first.number < second.number), "a family is listed once");
        assert!(self.families.len() <= FAMILIES_MAX, "a directory has at most {FAMILIES_MAX} families");
        self
    }

    /// The file's bytes.
    pub fn text(&self) -> String {
        let Description { families, created_at_ms, id } = self;
        let lines: String = families.iter().map(Listed::line).collect();
        let body = format!(
            "{TITLE}\nformat_version = {DIRECTORY_VERSION}\n{lines}created_at_ms = {created_at_ms}\nid = {id:016x}\n"
        );
        let text = format!("{body}checksum = {:08x}\n", checksum(body.as_bytes()));
        assert!(text.len() <= LINES_BYTES_MAX, "a description is read whole");
        text
    }

    /// Writes it to a new file, durably, in place of what is there.
    pub fn write<D: Disk>(&self, disk: &D, path: &Path) -> Result<(), JournalError> {
        let failed = |cause| JournalError::io("write", path, cause);
        if disk.exists(path).map_err(failed)? {
            disk.remove(path).map_err(failed)?;
        }
        let file = disk.create_new(path).map_err(failed)?;
        file.write_all_at(self.text().as_bytes(), 0).and_then(|()| file.sync_data()).map_err(failed)?;
        disk.sync_dir(path.parent().unwrap_or(Path::new("."))).map_err(failed)
    }

    pub fn read<D: Disk>(disk: &D, path: &Path) -> Result<Description, JournalError> {
        let failed = |cause| JournalError::io("read", path, cause);
        let mut bytes = [0; DESCRIPTION_BYTES_MAX as usize];
        let file = disk.open(path).map_err(failed)?;
        let read = read_up_to(&file, &mut bytes, 0).map_err(failed)?;
        Description::parse(&String::from_utf8_lossy(&bytes[..read])).map_err(|fault| match fault {
            Fault::Version(found) => {
                JournalError::UnknownVersion { path: path.to_path_buf(), found, known: DIRECTORY_VERSION }
            }
            Fault::Unreadable(what) => {
                let what = format!(
                    "its file DIRECTORY is damaged: {what}. The logs need no repair for that: put back a copy of the \
                     file. {WHERE_COPIES_ARE}"
                );
                refuse(path.parent().unwrap_or(path), what)
            }
        })
    }

    /// The version is looked at before everything else, because only it is promised to stay where it is.
    fn parse(text: &str) -> Result<Description, Fault> {
        let number = |key: &str, radix| {
            let line = text.lines().find_map(|line| line.strip_prefix(key)?.strip_prefix(" = "));
            let digits = line.ok_or_else(|| Fault::Unreadable(format!("{key} is missing")))?;
            u64::from_str_radix(digits, radix).map_err(|_| Fault::Unreadable(format!("{key} = {digits}: not a number")))
        };
        if text.lines().next() != Some(TITLE) {
            return Err(Fault::Unreadable(format!("it does not begin with \"{TITLE}\"")));
        }
        let version = u32::try_from(number("format_version", 10)?).unwrap_or(u32::MAX);
        if version != DIRECTORY_VERSION {
            return Err(Fault::Version(version));
        }
        let lines = text.lines().filter_map(|line| line.strip_prefix("family "));
        let families = lines.map(|line| {
            Listed::parse(line).ok_or_else(|| Fault::Unreadable(format!("\"family {line}\" describes no family")))
        });
        let description = Description {
            families: families.collect::<Result<_, _>>()?,
            created_at_ms: number("created_at_ms", 10)?,
            id: number("id", 16)?,
        };
        if !(1..=FAMILIES_MAX).contains(&description.families.len()) {
            return Err(Fault::Unreadable("it lists no families, or too many".into()));
        }
        let ascends = description.families.is_sorted_by(|first, second| first.number < second.number);
        if ascends && description.text() == text {
            Ok(description)
        } else {
            Err(Fault::Unreadable("its checksum does not match".into()))
        }
    }
}

impl Listed {
    /// `family 1 = ledger, whole, 4 shards`.
    fn line(&self) -> String {
        let Listed { number, name, retention, shards } = self;
        format!("family {number} = {name}, {}, {shards} shards\n", word(*retention))
    }

    /// Reads what stands behind `family `.
    fn parse(line: &str) -> Option<Listed> {
        let (number, rest) = line.split_once(" = ")?;
        let mut parts = rest.split(", ");
        let (name, retention, shards) = (parts.next()?, parts.next()?, parts.next()?.strip_suffix(" shards")?);
        let listed = Listed {
            number: number.parse().ok()?,
            name: name.into(),
            retention: [Retention::Whole, Retention::SinceSnapshot]
                .into_iter()
                .find(|kind| word(*kind) == retention)?,
            shards: shards.parse().ok()?,
        };
        let bounded = listed.number > 0 && is_name(name) && (1..=SHARDS_MAX).contains(&listed.shards);
        (bounded && parts.next().is_none()).then_some(listed)
    }
}

fn word(retention: Retention) -> &'static str {
    match retention {
        Retention::Whole => "whole",
        Retention::SinceSnapshot => "since-snapshot",
    }
}

enum Fault {
    Version(u32),
    Unreadable(String),
}
