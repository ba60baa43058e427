use super::*;
use crate::{Disk, DiskFile, RealDisk};

/// All files and folders below `path`, with what is in the files.
fn tree(path: &Path) -> Vec<(PathBuf, Vec<u8>)> {
    let mut found = Vec::new();
    for entry in fs::read_dir(path).unwrap() {
        let path = entry.unwrap().path();
        match path.is_dir() {
            true => {
                found.push((path.clone(), Vec::new()));
                found.extend(tree(&path));
            }
            false => found.push((path.clone(), fs::read(&path).unwrap())),
        }
    }
    found.sort();
    found
}

/// Does one of each call below `data`.
fn use_all(data: &Path) -> io::Result<()> {
    let (logs, spare, segment) = (data.join("logs/0"), data.join("logs/0/spare"), data.join("logs/0/segment"));
    RealDisk.create_dir_all(&logs)?;
    RealDisk.create_new(&spare)?.write_all_at(b"ours", 0)?;
    RealDisk.sync_dir(&logs)?;
    RealDisk.rename(&spare, &segment)?;
    let mut read = [0; 4];
    RealDisk.open(&segment)?.read_exact_at(&mut read, 0)?;
    assert_eq!((&read, RealDisk.exists(&segment)?, RealDisk.exists(&spare)?), (b"ours", true, false));
    assert_eq!(RealDisk.list(&logs)?, ["segment"]);
    RealDisk.open_or_create(&data.join("LOCK"))?;
    assert!(is_at(&RealDisk.open(&segment)?, &segment)?);
    RealDisk.create_new(&data.join("stays"))?;
    RealDisk.remove(&segment)?;
    RealDisk.sync_dir(data)
}

#[test]
fn paths_below_a_held_folder_lead_to_it_wherever_it_is() {
    let root = tempfile::tempdir().unwrap();
    let (data, moved) = (root.path().join("data"), root.path().join("moved"));
    RealDisk.create_dir_all(&data).unwrap();
    let hold = Hold::take(&data).unwrap();
    assert!(hold.is_in_place().unwrap());
    check_in_place(&data.join("file")).unwrap();

    fs::rename(&data, &moved).unwrap();
    assert!(!hold.is_in_place().unwrap());
    assert_eq!(hold.now_at().unwrap(), fs::canonicalize(&moved).unwrap());
    use_all(&data).unwrap();
    assert!(!data.exists(), "nothing is made where it was");
    for path in [&data, &moved] {
        assert_eq!(RealDisk.list(path).unwrap(), ["LOCK", "logs", "stays"]);
    }

    // Another folder gets the name, with files of the same names.
    fs::create_dir_all(data.join("logs/0")).unwrap();
    fs::write(data.join("logs/0/spare"), "theirs").unwrap();
    fs::write(data.join("logs/0/segment"), "theirs").unwrap();
    let before = tree(&data);
    fs::remove_file(moved.join("stays")).unwrap();
    use_all(&data).unwrap();
    assert_eq!(tree(&data), before);
    assert!(moved.join("stays").exists());
    let refused = check_in_place(&data.join("logs")).unwrap_err().to_string();
    assert!(refused.contains("data was moved, removed or replaced"), "{refused}");
    let again = Hold::take(&data).unwrap_err();
    assert_eq!(again.kind(), io::ErrorKind::AlreadyExists);

    // When it is let go of, the path means what it says.
    drop(hold);
    assert!(!data.join("stays").exists());
    fs::remove_file(data.join("logs/0/spare")).unwrap();
    fs::remove_file(data.join("logs/0/segment")).unwrap();
    use_all(&data).unwrap();
    assert!(data.join("stays").exists());
}

#[test]
fn nothing_is_made_in_a_held_folder_that_was_removed_nor_where_it_was() {
    let root = tempfile::tempdir().unwrap();
    let data = root.path().join("data");
    fs::create_dir(&data).unwrap();
    let hold = Hold::take(&data).unwrap();
    fs::remove_dir(&data).unwrap();
    assert!(!hold.is_in_place().unwrap() && hold.now_at().is_none());
    assert_eq!(use_all(&data).unwrap_err().kind(), io::ErrorKind::NotFound);
    assert!(!data.exists());
    fs::create_dir(&data).unwrap();
    assert_eq!(use_all(&data).unwrap_err().kind(), io::ErrorKind::NotFound);
    assert_eq!(tree(&data), []);
}

#[test]
fn only_paths_below_it_lead_to_it_and_the_innermost_folder_counts() {
    let root = tempfile::tempdir().unwrap();
    let (data, inner) = (root.path().join("data"), root.path().join("data/inner"));
    fs::create_dir_all(&inner).unwrap();
    let _hold = Hold::take(&data).unwrap();
    let _inner = Hold::take(&inner).unwrap();
    fs::rename(&data, root.path().join("moved")).unwrap();
    fs::rename(root.path().join("moved/inner"), root.path().join("elsewhere")).unwrap();
    RealDisk.create_new(&inner.join("file")).unwrap();
    assert!(root.path().join("elsewhere/file").exists());
    for beside in ["data2", "data.old"] {
        RealDisk.create_dir_all(&root.path().join(beside)).unwrap();
        assert!(root.path().join(beside).exists());
    }
    RealDisk.create_dir_all(&data.join("../up")).unwrap_err();
    assert!(!RealDisk.exists(&root.path().join("up")).unwrap());
}
