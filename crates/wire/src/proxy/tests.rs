use proptest::prelude::*;

use super::*;

const V4: &[u8] = b"PROXY TCP4 192.0.2.7 198.51.100.1 40000 1883\r\n";
const V6: &[u8] = b"PROXY TCP6 2001:db8::7 2001:db8::1 40000 1883\r\n";

fn binary(command: u8, family: u8, addresses: &[u8]) -> Vec<u8> {
    let length = (addresses.len() as u16).to_be_bytes();
    [SIGNATURE, &[command, family], &length, addresses].concat()
}

fn ipv4(tlvs: &[u8]) -> Vec<u8> {
    binary(0x21, 0x11, &[&[192, 0, 2, 7, 198, 51, 100, 1, 0x9c, 0x40, 7, 0x5b], tlvs].concat())
}

fn ipv6() -> Vec<u8> {
    let (source, destination): (Ipv6Addr, Ipv6Addr) = ("2001:db8::7".parse().unwrap(), "2001:db8::1".parse().unwrap());
    binary(0x21, 0x21, &[&source.octets()[..], &destination.octets(), &[0x9c, 0x40, 7, 0x5b]].concat())
}

fn source(bytes: &[u8]) -> Option<String> {
    let header = decode(bytes, Versions::Either).unwrap().expect("it is whole");
    assert_eq!(header.bytes, bytes.len());
    header.source.map(|source| source.to_string())
}

#[test]
fn a_header_says_whose_connection_it_is() {
    assert_eq!(source(V4).unwrap(), "192.0.2.7:40000");
    assert_eq!(source(V6).unwrap(), "[2001:db8::7]:40000");
    assert_eq!(source(&ipv4(b"")).unwrap(), "192.0.2.7:40000");
    assert_eq!(source(&ipv4(b"\x03\0\x04abcd")).unwrap(), "192.0.2.7:40000", "TLVs are skipped");
    assert_eq!(source(&ipv6()).unwrap(), "[2001:db8::7]:40000");
}

#[test]
fn a_balancer_may_speak_for_itself_or_not_know() {
    for header in [
        b"PROXY UNKNOWN\r\n".to_vec(),
        b"PROXY UNKNOWN ffff::1 ffff::2 1 2\r\n".to_vec(),
        binary(0x20, 0x00, b""),
        binary(0x20, 0x11, &[1; 12]),
        binary(0x20, 0x7f, b"whatever"),
        binary(0x21, 0x00, b"whatever"),
        binary(0x21, 0x31, &[b'/'; 216]),
    ] {
        assert_eq!(source(&header), None, "{header:?}");
    }
}

/// Whatever follows, and wherever the bytes are cut.
#[test]
fn a_header_that_is_cut_anywhere_waits_for_its_rest() {
    for header in [V4.to_vec(), V6.to_vec(), b"PROXY UNKNOWN\r\n".to_vec(), ipv4(b"\x03\0\x01a"), ipv6()] {
        for cut in 0..header.len() {
            assert_eq!(decode(&header[..cut], Versions::Either), Ok(None), "{header:?} cut at {cut}");
        }
        let followed = [&header[..], b"\r\n\r\n\0PROXY \x10\x0c"].concat();
        assert_eq!(decode(&followed, Versions::Either), decode(&header, Versions::Either));
    }
}

#[test]
fn only_the_versions_that_are_asked_for_are_taken() {
    assert_eq!(decode(V4, Versions::V2), Err(HeaderError::Beginning));
    assert_eq!(decode(&ipv4(b""), Versions::V1), Err(HeaderError::Beginning));
    assert!(decode(V4, Versions::V1).unwrap().is_some() && decode(&ipv4(b""), Versions::V2).unwrap().is_some());
    // The first byte of another protocol ends it: MQTT, TLS, HTTP, a frame of the binary port.
    for first in [b'\x10', b'\x16', b'G', b'\x0a'] {
        assert_eq!(decode(&[first], Versions::Either), Err(HeaderError::Beginning));
    }
}

#[test]
fn anything_else_is_no_header() {
    let line = |text: &str| decode(text.as_bytes(), Versions::Either);
    for text in [
        "PROXY \r\n",
        "PROXY TCP4\r\n",
        "PROXY TCP5 192.0.2.7 198.51.100.1 1 2\r\n",
        "PROXY TCP4 2001:db8::7 2001:db8::1 1 2\r\n",
        "PROXY TCP6 192.0.2.7 198.51.100.1 1 2\r\n",
        "PROXY TCP4 192.0.2.07 198.51.100.1 1 2\r\n",
        "PROXY TCP4 192.0.2.7 198.51.100.1 65536 2\r\n",
        "PROXY TCP4 192.0.2.7 198.51.100.1 01 2\r\n",
        "PROXY TCP4 192.0.2.7 198.51.100.1 +1 2\r\n",
        "PROXY TCP4 192.0.2.7  198.51.100.1 1 2\r\n",
        "PROXY TCP4 192.0.2.7 198.51.100.1 1 2 3\r\n",
        "PROXY TCP4 192.0.2.7 198.51.100.1 1 2\n",
        "PROXY TCP4 192.0.2.7 198.51.100.1 1 2\r\r\n",
        "PROXY TCP4 192.0.2.7\0",
    ] {
        assert_eq!(line(text), Err(HeaderError::Line), "{text:?}");
    }
    let longest = format!("PROXY UNKNOWN {}\r\n", "x".repeat(LINE_BYTES_MAX - 16));
    assert_eq!(line(&longest).unwrap().unwrap().bytes, LINE_BYTES_MAX);
    assert_eq!(line(&format!("PROXY UNKNOWN {}\r\n", "x".repeat(LINE_BYTES_MAX - 15))), Err(HeaderError::Line));
    assert_eq!(line(&format!("PROXY UNKNOWN {}", "x".repeat(LINE_BYTES_MAX))), Err(HeaderError::Line));

    let is = |bytes: &[u8]| decode(bytes, Versions::Either).unwrap_err();
    assert_eq!(is(&binary(0x22, 0x11, &[0; 12])), HeaderError::Command);
    assert_eq!(is(&binary(0x11, 0x11, &[0; 12])), HeaderError::Command);
    assert_eq!(is(&binary(0x21, 0x12, &[0; 12])), HeaderError::Family);
    assert_eq!(is(&binary(0x21, 0x41, &[0; 12])), HeaderError::Family);
    assert_eq!(is(&binary(0x21, 0x11, &[0; 11])), HeaderError::Length);
    assert_eq!(is(&binary(0x21, 0x21, &[0; 35])), HeaderError::Length);
    assert_eq!(is(&[SIGNATURE, &[0x21, 0x11, 0xff, 0xff]].concat()), HeaderError::Length);
    assert_eq!(is(&binary(0x20, 0, &vec![0; HEADER_BYTES_MAX - 15])), HeaderError::Length);
    assert_eq!(source(&binary(0x20, 0, &vec![0; HEADER_BYTES_MAX - 16])), None);
}

/// Bytes that are likely to be nearly a header.
fn nearly() -> impl Strategy<Value = Vec<u8>> {
    let changed = |header: Vec<u8>| {
        (any::<prop::sample::Index>(), any::<u8>()).prop_map(move |(at, byte)| {
            let mut header = header.clone();
            let at = at.index(header.len());
            header[at] = byte;
            header
        })
    };
    prop_oneof![
        prop::collection::vec(any::<u8>(), 0..300),
        changed(V4.to_vec()),
        changed(ipv6()),
        "PROXY (TCP4|TCP6|UNKNOWN)( [0-9a-f:.]{0,9}){0,5}\r\n".prop_map(String::into_bytes),
        prop::collection::vec(any::<u8>(), 4..60).prop_map(|rest| [SIGNATURE, &rest].concat()),
    ]
}

proptest! {
    /// More bytes change no verdict, and what was read is written the same again.
    #[test]
    fn a_verdict_stays(bytes in nearly()) {
        let whole = decode(&bytes, Versions::Either);
        for cut in 0..bytes.len() {
            match decode(&bytes[..cut], Versions::Either) {
                Ok(None) => {}
                verdict => prop_assert_eq!(verdict, whole),
            }
        }
        if let Ok(Some(header)) = whole {
            prop_assert!(header.bytes <= bytes.len() && header.bytes <= HEADER_BYTES_MAX);
        }
    }

    #[test]
    fn each_address_is_read_as_it_was_written(ip: u32, ip6: u128, port: u16) {
        for address in [IpAddr::V4(Ipv4Addr::from(ip)), IpAddr::V6(Ipv6Addr::from(ip6))] {
            let (family, number, octets) = match address {
                IpAddr::V4(v4) => ("TCP4", 0x11, v4.octets().to_vec()),
                IpAddr::V6(v6) => ("TCP6", 0x21, v6.octets().to_vec()),
            };
            let from = SocketAddr::new(address, port).to_string();
            let line = format!("PROXY {family} {address} {address} {port} 1883\r\n");
            prop_assert_eq!(source(line.as_bytes()), Some(from.clone()));
            let ports = [&port.to_be_bytes()[..], &[7, 0x5b]].concat();
            prop_assert_eq!(source(&binary(0x21, number, &[&octets[..], &octets, &ports].concat())), Some(from));
        }
    }
}
