use super::*;

#[test]
fn a_folder_that_may_not_be_written_is_told_from_one_that_fails() {
    // Nobody may create files there, also not root.
    assert!(matches!(lock(Path::new("/sys")), Err(Unlocked::ReadOnly(_))));
    assert!(matches!(lock(Path::new("/nowhere/at/all")), Err(Unlocked::Failed(JournalError::Io { .. }))));
}

#[test]
fn a_lock_that_is_given_back_is_free_although_a_child_still_has_its_descriptor() {
    let folder = tempfile::tempdir().unwrap();
    let locked = lock_file(folder.path()).unwrap_or_else(|error| panic!("{}", error.into_error(folder.path())));
    // What a child has that is being started.
    let _of_child = locked.try_clone().unwrap();
    assert!(matches!(lock_file(folder.path()), Err(Unlocked::Failed(JournalError::Directory { .. }))));
    drop(locked);
    assert!(lock_file(folder.path()).is_ok());
}
