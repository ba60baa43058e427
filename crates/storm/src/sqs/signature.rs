//! AWS Signature Version 4 in the `Authorization` header, of requests without a query.

use hmac::{Hmac, Mac};
use sha2::{Digest, Sha256};
use std::fmt::Write;

const ALGORITHM: &str = "AWS4-HMAC-SHA256";

/// Who signs, and for what.
pub struct Key<'a> {
    /// The access key.
    pub id: &'a str,
    /// The secret access key.
    pub secret: &'a str,
    /// Where the service is.
    pub region: &'a str,
    /// Such as `sqs`.
    pub service: &'a str,
}

/// The header's value for a request to `/`. Headers have small names, and stand in the order of these; `date` is as
/// `20261128T012939Z`.
pub fn authorization(key: &Key<'_>, method: &str, headers: &[(&str, &str)], date: &str, body: &[u8]) -> String {
    let names = headers.iter().map(|(name, _)| *name).collect::<Vec<_>>().join(";");
    let lines: String = headers.iter().map(|(name, value)| format!("{name}:{value}\n")).collect();
    let canonical = format!("{method}\n/\n\n{lines}\n{names}\n{}", hex(&Sha256::digest(body)));
    let scope = format!("{}/{}/{}/aws4_request", &date[..8], key.region, key.service);
    let to_sign = format!("{ALGORITHM}\n{date}\n{scope}\n{}", hex(&Sha256::digest(canonical)));
    let signing_key = scope.split('/').fold(format!("AWS4{}", key.secret).into_bytes(), |key, part| mac(&key, part));
    let signature = hex(&mac(&signing_key, &to_sign));
    format!("{ALGORITHM} Credential={}/{scope}, SignedHeaders={names}, Signature={signature}", key.id)
}

fn mac(key: &[u8], text: &str) -> Vec<u8> {
    let mut mac = Hmac::<Sha256>::new_from_slice(key).expect("HMAC takes keys of any length");
    mac.update(text.as_bytes());
    mac.finalize().into_bytes().to_vec()
}

fn hex(bytes: &[u8]) -> String {
    let mut text = String::with_capacity(2 * bytes.len());
    for byte in bytes {
        write!(text, "{byte:02x}").expect("a string takes all");
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    /// AWS's own test suite: `get-vanilla` and `post-vanilla`.
    #[test]
    fn the_examples_of_aws() {
        let key = Key {
            id: "AKIDEXAMPLE",
            secret: "wJalrXUtnFEMI/K7MDENG+bPxRfiCYEXAMPLEKEY",
            region: "us-east-1",
            service: "service",
        };
        let date = "20150830T123600Z";
        for (method, signature) in [
            ("GET", "5fa00fa31553b73ebf1942676e86291e8372ff2a2260956d9b8aae1d763fbf31"),
            ("POST", "5da7c1a2acd57cee7505fc6676e4e544621c30862966e37dddb68e92efbe5d6b"),
        ] {
            let headers = [("host", "example.amazonaws.com"), ("x-amz-date", date)];
            let value = authorization(&key, method, &headers, date, b"");
            assert!(value.ends_with(&format!("Signature={signature}")), "{value}");
            assert!(value.contains("Credential=AKIDEXAMPLE/20150830/us-east-1/service/aws4_request, "), "{value}");
        }
    }
}
