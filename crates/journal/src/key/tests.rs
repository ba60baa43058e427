use std::os::unix::fs::PermissionsExt;

use super::*;
use crate::disk::{FakeDisk, RealDisk};

#[test]
fn a_key_is_made_once_and_stays() {
    let (disk, data) = (FakeDisk::new(1), Path::new("data"));
    assert_eq!(Key::read(&disk, data).unwrap(), None);
    let key = Key::read_or_create(&disk, data).unwrap();
    assert_eq!(Key::read_or_create(&disk, data).unwrap(), key);
    let kept = Key::read(&disk, data).unwrap().expect("it was made");
    assert_eq!(kept, key);
    assert_eq!(kept.bytes()[..], disk.contents(&data.join(KEY_FILE)).unwrap()[..KEY_BYTES], "hashes are made with it");
    disk.overwrite(&data.join(KEY_FILE), 36, b"x").unwrap();
    let refused = Key::read_or_create(&disk, data).unwrap_err().to_string();
    assert!(refused.contains("data/KEY: cannot read: it is damaged: it has 37 bytes, a key has 36. Put"), "{refused}");
}

#[test]
fn no_key_is_made_while_there_are_snapshots_of_another() {
    let (disk, data) = (FakeDisk::new(1), Path::new("data"));
    let key = Key::read_or_create(&disk, data).unwrap();
    disk.create_dir_all(&data.join("snapshots/topics-0")).unwrap();
    disk.create_new(&data.join("snapshots/topics-0/snapshot-00000000000000000007.tgs")).unwrap();
    disk.rename(&data.join(KEY_FILE), Path::new("elsewhere")).unwrap();
    let refused = Key::read_or_create(&disk, data).unwrap_err().to_string();
    assert!(
        refused.contains("no file KEY") && refused.contains("A log that has forgotten its beginning cannot"),
        "{refused}"
    );
    assert_eq!(Key::read(&disk, data).unwrap(), None, "none is made");
    key.write(&disk, data).unwrap();
    assert_eq!(Key::read_or_create(&disk, data).unwrap(), key);
}

#[test]
fn a_flipped_bit_is_no_other_key() {
    let (disk, data) = (FakeDisk::new(1), Path::new("data"));
    let key = Key::read_or_create(&disk, data).unwrap();
    for byte in 0..FILE_BYTES as u64 {
        disk.flip_bit(&data.join(KEY_FILE), byte, (byte % 8) as u8);
        for refused in [Key::read(&disk, data).err(), Key::read_or_create(&disk, data).err()] {
            let refused = refused.expect("it is damaged").to_string();
            assert!(refused.contains("its checksum does not match. Put back the file"), "byte {byte}: {refused}");
        }
        disk.flip_bit(&data.join(KEY_FILE), byte, (byte % 8) as u8);
    }
    assert_eq!(Key::read(&disk, data).unwrap(), Some(key));
}

#[test]
fn a_key_of_an_earlier_build_has_no_checksum_and_is_read() {
    let (disk, data) = (FakeDisk::new(1), Path::new("data"));
    let key = Key::read_or_create(&disk, data).unwrap();
    let file = disk.open(&data.join(KEY_FILE)).unwrap();
    file.set_len(KEY_BYTES as u64).unwrap();
    assert_eq!(Key::read_or_create(&disk, data).unwrap(), key);
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
