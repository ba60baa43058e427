use super::*;

fn trusted(ranges: &[&str]) -> TrustedProxies {
    TrustedProxies::new(ranges.iter().map(|range| range.parse().unwrap()).collect())
}

fn ip(text: &str) -> IpAddr {
    text.parse().unwrap()
}

#[test]
fn a_range_has_the_addresses_with_its_first_bits() {
    let proxies = trusted(&["10.0.0.0/8", "192.0.2.7", "2001:db8::/33", "::1", "203.0.113.128/25"]);
    for inside in ["10.0.0.0", "10.255.255.255", "192.0.2.7", "2001:db8:7fff::1", "::1", "203.0.113.200"] {
        assert!(proxies.contains(ip(inside)), "{inside}");
    }
    assert!(proxies.contains(ip("::ffff:10.1.2.3")), "an IPv4 address at a listener of both");
    for outside in ["11.0.0.0", "192.0.2.8", "2001:db8:8000::", "::2", "127.0.0.1", "203.0.113.127", "::"] {
        assert!(!proxies.contains(ip(outside)), "{outside}");
    }
    assert!(trusted(&["0.0.0.0/0"]).contains(ip("8.8.8.8")) && !trusted(&["0.0.0.0/0"]).contains(ip("::1")));
    assert!(trusted(&["::/0"]).contains(ip("ff::1")) && !trusted(&[]).contains(ip("::1")));
    for wrong in ["", "10.0.0.0/33", "::1/129", "10.0.0/8", "10.0.0.0/", "10.0.0.0/-1", "proxy.example"] {
        assert!(wrong.parse::<AddressRange>().is_err(), "{wrong}");
    }
}

#[test]
fn only_trusted_addresses_send_a_header() {
    assert!(ProxyRule::default().header_of(ip("10.0.0.1")).is_none());
    let rule = ProxyRule::new(trusted(&["10.0.0.0/8"]), Versions::Either);
    assert!(rule.header_of(ip("10.0.0.1")).is_some() && rule.header_of(ip("127.0.0.1")).is_none());
}

#[test]
fn a_header_that_comes_in_pieces_leaves_the_bytes_behind_it() {
    let header = b"PROXY TCP4 192.0.2.7 198.51.100.1 40000 1883\r\n";
    let sent = [&header[..], b"\x10\x0c"].concat();
    for first in 0..=sent.len() {
        let rule = ProxyRule::new(trusted(&["127.0.0.1"]), Versions::Either);
        let mut reader = rule.header_of(ip("127.0.0.1")).unwrap();
        let (mut used, mut whole) = (0, None);
        for piece in [&sent[..first], &sent[first..]] {
            if whole.is_none() {
                let (taken, forwarded) = reader.take(piece).unwrap();
                (used, whole) = (used + taken, forwarded);
            }
        }
        assert_eq!((used, whole), (header.len(), Some(Forwarded::Client("192.0.2.7:40000".parse().unwrap()))));
    }
}

#[test]
fn a_proxy_elsewhere_cannot_name_this_machine() {
    let rule = ProxyRule::new(trusted(&["127.0.0.1", "10.0.0.0/8"]), Versions::V1);
    let take = |peer: &str, source: &str| {
        let header = format!("PROXY TCP6 {source} ::1 40000 1883\r\n");
        rule.header_of(ip(peer)).unwrap().take(header.as_bytes()).map(|(_, forwarded)| forwarded.unwrap())
    };
    assert_eq!(take("10.0.0.1", "::1"), Err(ProxyError::Loopback));
    assert_eq!(take("10.0.0.1", "::ffff:127.0.0.1"), Err(ProxyError::Loopback));
    assert_eq!(take("127.0.0.1", "::1"), Ok(Forwarded::Client("[::1]:40000".parse().unwrap())));
    let mapped = take("10.0.0.1", "::ffff:192.0.2.7");
    assert_eq!(mapped, Ok(Forwarded::Client("192.0.2.7:40000".parse().unwrap())));
}

fn origin(header: ForwardedHeader, peer: &str, values: &[&str]) -> Origin {
    let rule = ForwardedRule::new(trusted(&["10.0.0.0/8", "127.0.0.1"]), header);
    assert!(rule.header_of(ip(peer)).is_some());
    rule.origin(ip(peer), values.iter().map(|value| value.as_bytes()))
}

#[test]
fn the_client_is_the_last_address_that_is_not_trusted() {
    let x_for = |values: &[&str]| origin(ForwardedHeader::XForwardedFor, "10.0.0.1", values);
    let client = Origin::Client(ip("192.0.2.7"));
    assert_eq!(x_for(&["192.0.2.7"]), client);
    assert_eq!(x_for(&["8.8.8.8, 192.0.2.7,10.0.0.2 "]), client);
    assert_eq!(x_for(&["8.8.8.8", "192.0.2.7", "10.0.0.2, 10.0.0.3"]), client);
    assert_eq!(x_for(&["<script>, \"unknown, 192.0.2.7"]), client, "what a client wrote is not even parsed");
    assert_eq!(x_for(&["192.0.2.7:40000"]), client);
    assert_eq!(x_for(&["[2001:db8::7]:40000"]), Origin::Client(ip("2001:db8::7")));
    assert_eq!(x_for(&["::ffff:192.0.2.7"]), client);
    assert_eq!(x_for(&["10.0.0.9, 10.0.0.2"]), Origin::Client(ip("10.0.0.9")), "a proxy asks for itself");
    assert_eq!(x_for(&[]), Origin::Peer);
}

#[test]
fn the_header_of_rfc_7239_says_the_same() {
    let forwarded = |values: &[&str]| origin(ForwardedHeader::Forwarded, "10.0.0.1", values);
    let client = Origin::Client(ip("192.0.2.7"));
    assert_eq!(forwarded(&["for=192.0.2.7"]), client);
    assert_eq!(forwarded(&["For=8.8.8.8, FOR=\"192.0.2.7:40000\";proto=http;by=10.0.0.3, for=10.0.0.2"]), client);
    let quoted = "by=\"a,b\"; for=\"[2001:db8::7]:40000\"";
    assert_eq!(forwarded(&[quoted]), Origin::Client(ip("2001:db8::7")));
    assert_eq!(forwarded(&["for=\", for=192.0.2.7"]), client, "a quote that a client left open hides nothing");
    for unclear in ["for=unknown", "for=_hidden", "proto=http", "for=", "192.0.2.7"] {
        assert_eq!(forwarded(&[unclear]), Origin::Unclear(ip("10.0.0.1")), "{unclear}");
    }
}

#[test]
fn what_cannot_be_read_is_the_proxys_and_never_this_machines() {
    for value in ["unknown", "192.0.2.7,", "192.0.2.256", "192.0.2.7 10.0.0.2", "\u{fe}"] {
        assert_eq!(origin(ForwardedHeader::XForwardedFor, "10.0.0.1", &[value]), Origin::Unclear(ip("10.0.0.1")));
        assert_eq!(origin(ForwardedHeader::XForwardedFor, "127.0.0.1", &[value]), Origin::Unclear(ip("0.0.0.0")));
    }
}

/// A client within a trusted range may write what it likes before its own address.
#[test]
fn nobody_elsewhere_becomes_a_program_of_this_machine() {
    let x_for = |peer: &str, value: &str| origin(ForwardedHeader::XForwardedFor, peer, &[value]);
    assert_eq!(x_for("127.0.0.1", "127.0.0.1, 10.1.2.3"), Origin::Unclear(ip("0.0.0.0")));
    assert_eq!(x_for("10.0.0.1", "::1"), Origin::Unclear(ip("10.0.0.1")));
    assert_eq!(x_for("127.0.0.1", "::1"), Origin::Client(ip("::1")), "it never left this machine");
}

#[test]
fn a_proxy_says_whether_it_was_asked_over_tls() {
    let says = |header: ForwardedHeader, value: &'static str| header.over_tls(|_| Some(value));
    let (both, rfc) = (ForwardedHeader::XForwardedFor, ForwardedHeader::Forwarded);
    assert_eq!([says(both, "https"), says(both, "HTTP"), says(both, "")], [Some(true), Some(false), None]);
    assert_eq!(says(both, "http, https"), Some(true), "the last is the proxy's own word");
    assert_eq!(says(rfc, "for=1.2.3.4;proto=http, for=10.0.0.1; Proto=\"https\""), Some(true));
    assert_eq!([says(rfc, "for=1.2.3.4"), says(ForwardedHeader::Off, "https")], [None, None]);
}
