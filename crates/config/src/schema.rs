//! All keys that a file can have: the rows of all owners, composed.

use crate::row::{Allowed, DefaultValue, KeyRow, Section};

/// Every section of a file, with the keys of all its owners.
#[derive(Clone, Debug)]
pub struct Schema {
    sections: Vec<KnownSection>,
    documented_in: &'static str,
}

/// One section of a file.
#[derive(Clone, Debug)]
pub struct KnownSection {
    /// As written between the brackets.
    pub path: &'static str,
    /// Whether it is written `[[path]]`, any number of times.
    pub repeated: bool,
    /// Its keys, owner by owner.
    pub rows: Vec<&'static KeyRow>,
}

impl Schema {
    /// The sections of all owners, in this order. `documented_in` is where errors send a reader whose key resembles no
    /// other.
    ///
    /// Panics if two owners declare one key, if they disagree whether a section is repeated, or if a default is not one
    /// of its words.
    pub fn of(owners: &[&[Section]], documented_in: &'static str) -> Schema {
        let mut schema = Schema { sections: Vec::new(), documented_in };
        owners.iter().copied().flatten().for_each(|section| schema.add(section));
        schema
    }

    /// Every section, in the order in which owners were given.
    pub fn sections(&self) -> &[KnownSection] {
        &self.sections
    }

    /// The section at `path`.
    pub(crate) fn section(&self, path: &str) -> Option<&KnownSection> {
        self.sections.iter().find(|section| section.path == path)
    }

    /// Names of what stands directly below `group`, which is empty for the whole file: `account` and `transfer` of
    /// `seed`.
    pub(crate) fn below<'a>(&'a self, group: &'a str) -> impl Iterator<Item = &'static str> + 'a {
        self.sections.iter().filter_map(move |section| {
            let rest = match group {
                "" => section.path,
                group => section.path.strip_prefix(group)?.strip_prefix('.')?,
            };
            rest.split('.').next()
        })
    }

    pub(crate) fn documented_in(&self) -> &'static str {
        self.documented_in
    }

    fn add(&mut self, section: &Section) {
        if self.section(section.path).is_none() {
            self.sections.push(KnownSection { path: section.path, repeated: section.repeated, rows: Vec::new() });
        }
        let known = self.sections.iter_mut().find(|known| known.path == section.path).expect("it was added");
        assert!(known.repeated == section.repeated, "owners of [{}] disagree whether it is repeated", section.path);
        for row in section.rows {
            let is_new = known.rows.iter().all(|other| other.name != row.name);
            assert!(is_new, "{}.{} is declared twice", section.path, row.name);
            if let (Allowed::Words(words), DefaultValue::Text(word)) = (row.allowed, row.default) {
                assert!(words.contains(&word), "{}.{}: the default {word:?} is no word of it", section.path, row.name);
            }
            known.rows.push(row);
        }
    }
}
