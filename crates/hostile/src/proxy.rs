//! Headers of the PROXY protocol in pieces: the verdict must not depend on where the bytes were cut.

use tidegate_wire::proxy::{HEADER_BYTES_MAX, Versions, decode};

/// Reads the bytes whole and cut at each place.
pub fn check(bytes: &[u8]) {
    for versions in [Versions::V1, Versions::V2, Versions::Either] {
        let whole = decode(bytes, versions);
        for cut in 0..bytes.len().min(HEADER_BYTES_MAX + 1) {
            match decode(&bytes[..cut], versions) {
                Ok(None) => {}
                verdict => assert_eq!(verdict, whole),
            }
        }
        match whole {
            Ok(Some(header)) => assert!(header.bytes <= bytes.len().min(HEADER_BYTES_MAX)),
            Ok(None) => assert!(bytes.len() < HEADER_BYTES_MAX),
            Err(_) => {}
        }
    }
}
