use std::os::unix::fs::PermissionsExt;

use super::*;
use crate::disk::{FakeDisk, RealDisk};

#[test]
fn a_key_is_made_once_and_stays() {
    let (disk, data) = (FakeDisk::new(1), Path::new("data"));
    assert_eq!(Key::read(&disk, data).unwrap(), None);
    let key = Key::read_or_create(&disk, data).unwrap();
    assert_eq!(Key::read_or_create(&disk, data).unwrap(), key);
    assert_eq!(Key::read(&disk, data).unwrap(), Some(key));
    disk.overwrite(&data.join(KEY_FILE), 32, b"x").unwrap();
    let refused = Key::read_or_create(&disk, data).unwrap_err().to_string();
    assert!(refused.starts_with("data/KEY: cannot read: a key has 32 bytes. Put back"), "{refused}");
}

#[test]
fn on_real_disks_keys_differ_and_only_their_owner_reads_them() {
    let [one, other] = [1, 2].map(|number| {
        let data = std::env::temp_dir().join(format!("tidegate-key-{}-{number}", std::process::id()));
        let key = Key::read_or_create(&RealDisk, &data).unwrap();
        let mode = std::fs::metadata(data.join(KEY_FILE)).unwrap().permissions().mode();
        assert_eq!(mode & 0o777, 0o600);
        std::fs::remove_dir_all(&data).unwrap();
        key
    });
    assert!(one != other);
    assert_eq!(format!("{one:?}"), "Key(..)");
}
