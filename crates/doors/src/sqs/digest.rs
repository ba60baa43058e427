//! MD5 of messages, as SDKs compare it with what they have sent or got. It guards against accidents, not enemies.

use md5::{Digest, Md5};

use crate::queue_attributes::QueueAttributes;

/// Of a body.
pub fn of_body(body: &[u8]) -> String {
    hex(Md5::new_with_prefix(body))
}

/// Of attributes, by SQS's rule: in the order of their names, each as name, type, a byte that tells texts (1) from
/// bytes (2), and value; all but that byte behind their lengths as four bytes. `None` if there are no attributes.
pub fn of_attributes(attributes: &QueueAttributes) -> Option<String> {
    if attributes.is_empty() {
        return None;
    }
    let mut md5 = Md5::new();
    let mut put = |bytes: &[u8], mark: Option<u8>| {
        md5.update(mark.as_slice());
        md5.update((bytes.len() as u32).to_be_bytes());
        md5.update(bytes);
    };
    for (name, attribute) in attributes {
        put(name.as_bytes(), None);
        put(attribute.kind().as_bytes(), None);
        match attribute.binary() {
            Some(bytes) => put(&bytes, Some(2)),
            None => put(attribute.value().as_bytes(), Some(1)),
        }
    }
    Some(hex(md5))
}

fn hex(md5: Md5) -> String {
    md5.finalize().iter().map(|byte| format!("{byte:02x}")).collect()
}
