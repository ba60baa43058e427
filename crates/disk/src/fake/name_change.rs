//! Changes of names, in memory until their directory is synced.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

/// A change that a crash may undo until its directory is synced.
#[derive(Clone, Debug)]
pub(super) enum NameChange {
    Created(PathBuf, usize),
    Renamed(PathBuf, PathBuf),
    Removed(PathBuf),
}

impl NameChange {
    pub fn apply(&self, names: &mut BTreeMap<PathBuf, usize>) {
        match self {
            NameChange::Created(path, inode) => {
                names.insert(path.clone(), *inode);
            }
            NameChange::Renamed(from, to) => {
                if let Some(inode) = names.remove(from) {
                    names.insert(to.clone(), inode);
                }
            }
            NameChange::Removed(path) => {
                names.remove(path);
            }
        }
    }

    pub fn dir(&self) -> Option<&Path> {
        match self {
            NameChange::Created(path, _) | NameChange::Renamed(_, path) | NameChange::Removed(path) => path.parent(),
        }
    }
}
