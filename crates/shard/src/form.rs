//! Events and snapshots as JSON, for machines whose records need not be small. Each value has one encoding, and no
//! other is accepted.

use serde::Serialize;
use serde::de::DeserializeOwned;

/// Bytes that are not the form of any value.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("these bytes are not what this program writes")]
pub struct Malformed;

/// The form of a value. Its type must have a fixed order of fields: structs, vectors and ordered maps, no hash maps.
pub fn write(of: &impl Serialize) -> Vec<u8> {
    serde_json::to_vec(of).expect("plain data is JSON")
}

/// Reads a value from exactly its form.
pub fn read<T: Serialize + DeserializeOwned>(bytes: &[u8]) -> Result<T, Malformed> {
    let read: T = serde_json::from_slice(bytes).map_err(|_| Malformed)?;
    if write(&read) == bytes { Ok(read) } else { Err(Malformed) }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_value_is_read_from_its_form_alone() {
        assert_eq!(read::<(u8, Option<bool>)>(&write(&(7u8, Some(true)))), Ok((7, Some(true))));
        for other in [&b"[7, true]"[..], b"[7,true] ", b"[07,true]", b"[7]", b"[7,true,1]", b""] {
            assert_eq!(read::<(u8, Option<bool>)>(other), Err(Malformed));
        }
    }
}
