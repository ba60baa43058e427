//! The `Host` of a request: RFC 9112, 3.2, and RFC 3986, 3.2.2 and 3.2.3.

/// Whether a value is what `Host` may have, as far as its characters tell: a host and perhaps a port, and nothing of
/// what else an address has, by which two readers could see two hosts.
pub(super) fn is_host(value: &[u8]) -> bool {
    value.iter().all(|byte| byte.is_ascii_alphanumeric() || b"-._~!$&'()*+,;=%:[]".contains(byte))
}

#[cfg(test)]
mod tests {
    use super::is_host;

    #[test]
    fn a_host_is_a_name_or_an_address_and_perhaps_a_port() {
        for host in ["", "localhost", "vote.example:8080", "127.0.0.1", "[::1]:80", "xn--bcher-kva.example", "a_b%20c"]
        {
            assert!(is_host(host.as_bytes()), "{host}");
        }
        for other in ["a b", "user@host", "host/path", "host?x", "host#x", "a\\b", "a\tb", "b\u{fc}cher", "a\"b", "<a>"]
        {
            assert!(!is_host(other.as_bytes()), "{other}");
        }
    }
}
