//! How notices come back.

use axum::http::uri::Authority;

/// Bytes of the longest base of notice URLs.
const BASE_BYTES_MAX: usize = 200;

/// Which notice of an exchange is a win that costs.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ChargeOn {
    /// The billing notice, `burl`.
    Billing,
    /// The win notice, `nurl`.
    Win,
}

/// How notices come back.
#[derive(Clone, Debug)]
pub struct OpenRtbSettings {
    /// What their URLs begin with; empty: bids have none.
    pub notice_base: Box<str>,
    /// Which of them costs.
    pub charge_on: ChargeOn,
}

impl OpenRtbSettings {
    /// With URLs that begin so; an error says what is wrong with that.
    pub fn new(base: &str, charge_on: ChargeOn) -> Result<OpenRtbSettings, String> {
        let base = base.trim_end_matches('/');
        let is_plain = |byte: u8| byte.is_ascii_alphanumeric() || b"-._~:/[]%".contains(&byte);
        let host = ["https://", "http://"].into_iter().find_map(|scheme| base.strip_prefix(scheme));
        let is_url = host.is_some_and(has_authority) && base.bytes().all(is_plain);
        if !base.is_empty() && (!is_url || base.len() > BASE_BYTES_MAX) {
            return Err(format!(
                "expected the beginning of a URL of at most {BASE_BYTES_MAX} bytes, without user and query, such as \
                 \"https://bids.example.com\""
            ));
        }
        Ok(OpenRtbSettings { notice_base: base.into(), charge_on })
    }
}

/// Whether what is behind a scheme begins with a host, and a port if it says one.
fn has_authority(rest: &str) -> bool {
    let authority = rest.split('/').next().and_then(|authority| authority.parse::<Authority>().ok());
    authority.is_some_and(|authority| match authority.as_str().strip_prefix(authority.host()) {
        _ if authority.host().is_empty() => false,
        Some("") => true,
        Some(port) => port[1..].parse::<u16>().is_ok_and(|port| port > 0),
        None => false,
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_base_is_the_beginning_of_a_url() {
        let of =
            |url: &str| OpenRtbSettings::new(url, ChargeOn::Billing).map(|settings| settings.notice_base).map_err(drop);
        assert_eq!(of(""), Ok("".into()));
        assert_eq!(of("https://bids.example.com/"), Ok("https://bids.example.com".into()));
        assert_eq!(of("http://[::1]:8080/a"), Ok("http://[::1]:8080/a".into()));
        for wrong in [
            "bids.example.com",
            "https://",
            "https:///a",
            "https://a:99999",
            "https://a:0",
            "https://a:b/c",
            "https://:80",
            "https://user:password@a",
            "ftp://a",
            "https://a?b",
            "https://a\"b",
            "https://a b",
        ] {
            assert_eq!(of(wrong), Err(()), "{wrong}");
        }
    }
}
