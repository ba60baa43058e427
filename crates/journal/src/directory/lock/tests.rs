use super::*;

#[test]
fn a_folder_that_may_not_be_written_is_told_from_one_that_fails() {
    // Nobody may create files there, also not root.
    assert!(matches!(lock(Path::new("/sys")), Err(Unlocked::ReadOnly(_))));
    assert!(matches!(lock(Path::new("/nowhere/at/all")), Err(Unlocked::Failed(JournalError::Io { .. }))));
}
