//! `[demo]` and `[[demo.candidate]]`: what the voting pages show.

use std::path::Path;

use tidegate_config::{ConfigError, Document, FilePath, NoDefault, Optional, Required, Text, config};
use tidegate_doors::http::{DemoCandidate, DemoShow, URL_BYTES_MAX, time_ms};

use super::seed::place;

/// Bytes of a picture. All are kept in memory, and each phone loads them.
const PICTURE_BYTES_MAX: u64 = 1 << 20;

config! {
    /// `[demo]`
    pub struct DemoKeys in "demo" {
        title: Text = "Tonight's vote", .., restart, "heading of the voting pages /demo and /demo/stage";
        url: Optional<Text> = NoDefault, .., restart,
            "address of the voter's page for the QR code of the stage, 213 bytes at most, such as \
             \"http://vote.example.org/demo\". Without it, /demo of the host with which the stage was opened";
        ends_at: Optional<Text> = NoDefault, .., restart,
            "when the countdown of the pages ends, RFC 3339. They offer no votes then; the ledger still takes them";
        login_hint: Text = "", .., restart,
            "what the log-in of the pages says beside its fields, such as where a voter finds the password";
    }
}

config! {
    /// `[[demo.candidate]]`
    pub struct DemoCandidateKeys in [["demo.candidate"]] {
        account: Required<Text> = NoDefault, .., restart,
            "account that takes the votes. The pages show these candidates in this order, but none that is no \
             collector, which each start warns of; without any, all collectors";
        name: Required<Text> = NoDefault, .., restart, "name that the pages show";
        picture_file: Optional<FilePath> = NoDefault, .., restart,
            "picture: a .png, .jpg or .webp file of 1 MiB at most, read at the start";
    }
}

/// Reads the pictures, too.
pub fn settle(document: &Document) -> Result<DemoShow, ConfigError> {
    let keys: DemoKeys = document.section()?;
    let is_url = |url: &str| (url.starts_with("http://") || url.starts_with("https://")) && url.len() <= URL_BYTES_MAX;
    if let Some(url) = keys.url.as_ref().filter(|url| !is_url(url)) {
        let message = format!(
            "demo.url = {url:?}: expected an address that begins with http:// or https://, of {URL_BYTES_MAX} bytes \
             at most"
        );
        return Err(document.error_at("demo.url", message));
    }
    let ends_at_ms = match &keys.ends_at {
        None => None,
        Some(text) => Some(time_ms(text).ok_or_else(|| {
            let message = format!("demo.ends_at = {text:?}: expected a time such as \"2026-11-21T22:15:00+01:00\"");
            document.error_at("demo.ends_at", message)
        })?),
    };
    let candidates: Vec<DemoCandidateKeys> = document.list()?;
    let candidates = candidates.into_iter().enumerate().map(|(place, keys)| candidate(document, place, keys));
    Ok(DemoShow {
        title: keys.title,
        url: keys.url,
        ends_at_ms,
        login_hint: keys.login_hint,
        candidates: candidates.collect::<Result<_, _>>()?,
    })
}

/// File and line of the account of each candidate.
pub fn candidate_places(document: &Document, count: usize) -> impl Iterator<Item = String> {
    (0..count).map(|index| place(document, &format!("demo.candidate[{index}].account")))
}

fn candidate(document: &Document, place: usize, keys: DemoCandidateKeys) -> Result<DemoCandidate, ConfigError> {
    let wrong = |file: &Path, what: &str| {
        let message = format!("demo.candidate.picture_file = {file:?}: {what}");
        document.error_at(&format!("demo.candidate[{place}].picture_file"), message)
    };
    let picture = match &keys.picture_file {
        None => None,
        Some(file) => Some(picture(file).map_err(|what| wrong(file, &what))?),
    };
    Ok(DemoCandidate {
        id: keys.account,
        name: keys.name,
        picture: picture.map(|(content_type, bytes)| (content_type, bytes.into())),
    })
}

/// Content type and content.
fn picture(file: &Path) -> Result<(&'static str, Vec<u8>), String> {
    let content_type = match file.extension().and_then(|extension| extension.to_str()) {
        Some("png") => "image/png",
        Some("jpg" | "jpeg") => "image/jpeg",
        Some("webp") => "image/webp",
        // No .svg: it may hold scripts.
        _ => return Err("expected a .png, .jpg or .webp file".to_owned()),
    };
    let unreadable = |error: std::io::Error| format!("cannot be read: {error}");
    let bytes = std::fs::metadata(file).map_err(unreadable)?.len();
    if bytes > PICTURE_BYTES_MAX {
        return Err(format!("has {bytes} bytes: expected {PICTURE_BYTES_MAX} at most"));
    }
    Ok((content_type, std::fs::read(file).map_err(unreadable)?))
}
