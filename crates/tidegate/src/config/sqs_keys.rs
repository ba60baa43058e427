//! `[[sqs_key]]`: with what services sign requests in the protocol of Amazon SQS.

use std::collections::HashSet;
use std::path::Path;

use tidegate_config::{ConfigError, Document, FilePath, NoDefault, Optional, Required, Text, config};
use tidegate_doors::auth::{SigningKeySettings, SigningSecret};

/// Bytes of a secret key at least, and of an access key at most.
const SECRET_BYTES_MIN: usize = 16;
const ACCESS_KEY_BYTES_MAX: usize = 128;
/// Bytes of the longest file with a secret key.
const SECRET_FILE_BYTES_MAX: u64 = 4_096;

config! {
    /// `[[sqs_key]]`
    pub struct SqsKeyKeys in [["sqs_key"]] {
        access_key: Required<Text> = NoDefault, .., live,
            "what clients of Amazon SQS have as access key id: up to 128 letters, digits, and characters of \"-_.\"; \
             the name of the service is a good one";
        secret_key: Optional<Text> = NoDefault, .., live,
            "their secret access key itself; only for development";
        secret_key_file: Optional<FilePath> = NoDefault, .., live,
            "file with that key: one line of at least 16 bytes. A signature cannot be checked by a hash, so this is \
             not the service's token: make one with head -c 30 /dev/urandom | base64";
        service: Required<Text> = NoDefault, .., live,
            "the service whose grants and bounds such requests have: of this file, or made with \
             PUT /v1/services/{name}. While there is no such service, the key is unknown";
    }
}

/// Checks `[[sqs_key]]`.
pub fn settle(document: &Document) -> Result<Vec<SigningKeySettings>, ConfigError> {
    let keys: Vec<SqsKeyKeys> = document.list()?;
    let mut names = HashSet::new();
    let key = |(index, key): (usize, SqsKeyKeys)| {
        let wrong = |name: &str, what: String| {
            document.error_at(&format!("sqs_key[{index}].{name}"), format!("sqs_key.{name}: {what}"))
        };
        let is_letter = |byte: u8| byte.is_ascii_alphanumeric() || b"-_.".contains(&byte);
        if key.access_key.len() > ACCESS_KEY_BYTES_MAX || !key.access_key.bytes().all(is_letter) {
            let what = format!("{:?}: expected up to 128 letters, digits, and characters of \"-_.\"", key.access_key);
            return Err(wrong("access_key", what));
        }
        if !names.insert(key.access_key.clone()) {
            return Err(wrong("access_key", format!("there is a key {:?} already", key.access_key)));
        }
        let secret = match (&key.secret_key, &key.secret_key_file) {
            (Some(text), None) => secret(text).map_err(|what| wrong("secret_key", what)),
            (None, Some(file)) => of_file(file).map_err(|what| wrong("secret_key_file", what)),
            (Some(_), Some(_)) => Err(wrong("secret_key", "write secret_key or secret_key_file, not both".to_owned())),
            (None, None) => Err(wrong("access_key", "secret_key_file (or secret_key) is missing".to_owned())),
        };
        Ok(SigningKeySettings { access_key: key.access_key, secret: secret?, service: key.service })
    };
    keys.into_iter().enumerate().map(key).collect()
}

fn secret(text: &str) -> Result<SigningSecret, String> {
    match text.len() >= SECRET_BYTES_MIN && text.bytes().all(|byte| byte.is_ascii_graphic()) {
        true => Ok(SigningSecret::new(text)),
        false => Err(format!("expected one line of at least {SECRET_BYTES_MIN} letters, digits or signs")),
    }
}

/// The text of the file, without the line's end.
fn of_file(file: &Path) -> Result<SigningSecret, String> {
    let of_file = |what: String| format!("{}: {what}", file.display());
    let bytes = std::fs::metadata(file).map_err(|error| of_file(error.to_string()))?.len();
    if bytes > SECRET_FILE_BYTES_MAX {
        return Err(of_file(format!("has {bytes} bytes: expected {SECRET_FILE_BYTES_MAX} at most")));
    }
    let text = std::fs::read_to_string(file).map_err(|error| of_file(error.to_string()))?;
    secret(text.trim()).map_err(of_file)
}
