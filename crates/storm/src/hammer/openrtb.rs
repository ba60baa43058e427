//! Bid requests of OpenRTB over HTTP/1.1, as an exchange sends them: on connections that stay open, one at a time on
//! each unless the load says otherwise. A bid that wins is billed by its `burl`, on other connections.

mod bodies;

use super::lottery::{PriceShare, WinLottery};
use super::protocol::To;
use super::{Answer, Answers, Protocol};
use crate::workload::scramble;
use anyhow::{Context, Result, bail};
use bodies::{Body, ID_DIGITS};
use std::io::Write;
use std::net::TcpStream;
use tidegate_wire::pacer::{NoBidReason, NoticeOutcome};

pub use bodies::{PLACES_BOUGHT, SIZES, app, site};

/// Headers an answer may have.
const HEADERS_MAX: usize = 16;

/// Asks over the HTTP port of Tidegate, or of a peer that answers the same.
pub struct OpenRtb {
    bodies: Vec<Body>,
    next_body: usize,
    head: String,
    users: u32,
    asked: u64,
    wins: WinLottery,
}

/// A `burl` whose macros are replaced, without scheme and host.
pub struct BillingUrl(String);

impl OpenRtb {
    /// Requests of so many users; the token is that of a service that may ask for bids.
    pub fn new(users: u32, token: Option<&str>) -> OpenRtb {
        let authorization = token.map_or(String::new(), |token| format!("authorization: Bearer {token}\r\n"));
        let head = format!(
            "POST /openrtb/2.6/bids HTTP/1.1\r\nhost: bench\r\n{authorization}content-type: application/json\r\n\
             x-openrtb-version: 2.6\r\ncontent-length: "
        );
        OpenRtb { bodies: bodies::bodies(), next_body: 0, head, users, asked: 0, wins: WinLottery::default() }
    }

    /// This share of the bids wins.
    pub fn winning(self, share: f64) -> OpenRtb {
        OpenRtb { wins: WinLottery::of(share), ..self }
    }

    /// Counts a body that says that there are bids, or what became of a notice.
    fn count(&mut self, body: &[u8], answers: &mut Answers, won: &mut Vec<BillingUrl>) -> Result<()> {
        const OUTCOME: &[u8] = b"{\"outcome\":\"";
        if let Some(outcome) = body.strip_prefix(OUTCOME) {
            answers.notice(outcome_of(text_until_quote(outcome)?));
            return Ok(());
        }
        answers.bids += 1;
        if let Some(share) = self.wins.draw() {
            won.push(BillingUrl::of(body, share)?);
        }
        Ok(())
    }
}

impl Protocol for OpenRtb {
    type Won = BillingUrl;
    const IN_ORDER: bool = true;
    const NOTICES_APART: bool = true;

    fn greet(&mut self, _socket: &mut TcpStream) -> Result<()> {
        Ok(())
    }

    fn bids_per_packet(&self) -> u64 {
        1
    }

    #[inline]
    fn ask(&mut self, _tag: u32, out: &mut Vec<u8>) {
        let body = &self.bodies[self.next_body];
        self.next_body = (self.next_body + 1) % self.bodies.len();
        self.asked += 1;
        let id = scramble(self.asked);
        let user = scramble(((id >> 32) * u64::from(self.users)) >> 32);
        out.extend_from_slice(self.head.as_bytes());
        write!(out, "{}\r\n\r\n", body.bytes.len()).expect("memory takes what is written");
        let start = out.len();
        out.extend_from_slice(&body.bytes);
        write_digits(&mut out[start + body.id_at..], id);
        write_digits(&mut out[start + body.user_at..], user);
    }

    fn answer(&mut self, bytes: &[u8], answers: &mut Answers, won: &mut Vec<BillingUrl>) -> Result<Option<Answer>> {
        let mut headers = [httparse::EMPTY_HEADER; HEADERS_MAX];
        let mut response = httparse::Response::new(&mut headers);
        let httparse::Status::Complete(head) = response.parse(bytes)? else { return Ok(None) };
        let length = match response.code {
            // RFC 9110, 8.6: it has no length, and no body.
            Some(204) => 0,
            _ => length_of(response.headers)?,
        };
        let Some(body) = bytes.get(head..head + length) else { return Ok(None) };
        match response.code {
            Some(200) => self.count(body, answers, won)?,
            Some(204) => answers.no_bid(NoBidReason::Unspecified),
            Some(429 | 503 | 504) => answers.refuse(code_of(body)),
            _ => bail!("the server answered: {}", String::from_utf8_lossy(&bytes[..head + length])),
        }
        Ok(Some(Answer { bytes: head + length, to: To::Packet(0) }))
    }

    fn notify(&mut self, won: &mut Vec<BillingUrl>, out: &mut Vec<u8>) -> u64 {
        let count = won.len() as u64;
        for BillingUrl(path) in won.drain(..) {
            write!(out, "GET {path} HTTP/1.1\r\nhost: bench\r\n\r\n").expect("memory takes what is written");
        }
        count
    }
}

impl BillingUrl {
    /// Of the first bid of a response, at a share of its price.
    fn of(body: &[u8], share: PriceShare) -> Result<BillingUrl> {
        let url = text_until_quote(behind(body, b"\"burl\":\"").context("a bid without burl")?)?;
        let (_, rest) = url.split_once("://").context("burl is no URL")?;
        let path = &rest[rest.find('/').context("burl has no path")?..];
        let price = behind(body, b"\"price\":").context("a bid without price")?;
        let end = price.iter().position(|byte| !byte.is_ascii_digit() && *byte != b'.').unwrap_or(price.len());
        let cpm: f64 = std::str::from_utf8(&price[..end])?.parse()?;
        let micros = share.micros((cpm * 1_000.0).round() as u64);
        let price = format!("{}.{:03}", micros / 1_000, micros % 1_000);
        Ok(BillingUrl(path.replace("${AUCTION_PRICE}", &price).replace("${AUCTION_CURRENCY}", "USD")))
    }
}

fn length_of(headers: &[httparse::Header<'_>]) -> Result<usize> {
    let length = headers.iter().find(|header| header.name.eq_ignore_ascii_case("content-length"));
    let length = length.context("a response without content-length")?;
    Ok(std::str::from_utf8(length.value)?.parse()?)
}

fn write_digits(out: &mut [u8], number: u64) {
    const DIGITS: &[u8; 16] = b"0123456789abcdef";
    for (place, digit) in out[..ID_DIGITS].iter_mut().enumerate() {
        *digit = DIGITS[(number >> (4 * place)) as usize & 15];
    }
}

fn outcome_of(name: &str) -> NoticeOutcome {
    match name {
        "taken" => NoticeOutcome::Taken,
        "duplicate" => NoticeOutcome::Duplicate,
        "late" => NoticeOutcome::Late,
        "lost" => NoticeOutcome::Lost,
        "won" => NoticeOutcome::Won,
        _ => NoticeOutcome::Unspecified,
    }
}

/// The code of a problem.
fn code_of(body: &[u8]) -> &str {
    behind(body, b"\"code\":\"").and_then(|rest| text_until_quote(rest).ok()).unwrap_or("")
}

/// What comes behind the first `mark`.
fn behind<'b>(bytes: &'b [u8], mark: &[u8]) -> Option<&'b [u8]> {
    let at = bytes.windows(mark.len()).position(|window| window == mark)?;
    Some(&bytes[at + mark.len()..])
}

fn text_until_quote(bytes: &[u8]) -> Result<&str> {
    let end = bytes.iter().position(|byte| *byte == b'"').context("a text without an end")?;
    Ok(std::str::from_utf8(&bytes[..end])?)
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::collections::HashSet;

    fn response(status: &str, body: &str) -> Vec<u8> {
        format!("HTTP/1.1 {status}\r\ncontent-length: {}\r\n\r\n{body}", body.len()).into_bytes()
    }

    const BIDS: &str = concat!(
        r#"{"id":"a","cur":"USD","seatbid":[{"bid":[{"id":"t","impid":"1","price":2.5,"#,
        r#""burl":"https://b.example/openrtb/2.6/billing?token=t&price=${AUCTION_PRICE}&"#,
        r#"currency=${AUCTION_CURRENCY}","adm":"x"}]}]}"#
    );

    #[test]
    fn requests_are_whole_and_each_has_its_id() {
        let mut openrtb = OpenRtb::new(10, Some("secret"));
        let (mut ids, mut users) = (HashSet::new(), HashSet::new());
        for _ in 0..500 {
            let mut out = vec![];
            openrtb.ask(0, &mut out);
            let text = String::from_utf8(out).unwrap();
            let (head, body) = text.split_once("\r\n\r\n").unwrap();
            assert!(head.contains("authorization: Bearer secret") && head.ends_with(&body.len().to_string()));
            let body: serde_json::Value = serde_json::from_str(body).unwrap();
            ids.insert(body["id"].as_str().unwrap().to_owned());
            users.insert(body["user"]["id"].as_str().unwrap()[..ID_DIGITS].to_owned());
        }
        assert_eq!((ids.len(), users.len()), (500, 10));
    }

    #[test]
    fn answers_are_counted_once_they_are_whole() {
        let mut openrtb = OpenRtb::new(1, None).winning(0.5);
        let (mut answers, mut won) = (Answers::default(), vec![]);
        let busy = response("503 Service Unavailable", r#"{"code":"busy"}"#);
        let none = b"HTTP/1.1 204 No Content\r\ndate: x\r\n\r\n".to_vec();
        for whole in [response("200 OK", BIDS), none, busy, response("200 OK", BIDS)] {
            for cut in 0..whole.len() {
                assert_eq!(openrtb.answer(&whole[..cut], &mut answers, &mut won).unwrap(), None, "cut at {cut}");
            }
            let answer = openrtb.answer(&whole, &mut answers, &mut won).unwrap();
            assert_eq!(answer, Some(Answer { bytes: whole.len(), to: To::Packet(0) }));
        }
        assert_eq!((answers.bids, answers.requests(), answers.refused[0], answers.refusals()), (2, 3, 1, 1));
        let mut out = vec![];
        assert_eq!((won.len(), openrtb.notify(&mut won, &mut out)), (1, 1));
        let notice = String::from_utf8(out).unwrap();
        assert!(notice.starts_with("GET /openrtb/2.6/billing?token=t&price="), "{notice}");
        assert!(notice.contains("&currency=USD HTTP/1.1\r\n"), "{notice}");
        let taken = response("200 OK", r#"{"outcome":"taken"}"#);
        openrtb.answer(&taken, &mut answers, &mut won).unwrap();
        assert_eq!(answers.notices[NoticeOutcome::Taken as usize], 1);
        let wrong = response("401 Unauthorized", r#"{"code":"token_invalid"}"#);
        let error = openrtb.answer(&wrong, &mut answers, &mut won).unwrap_err();
        assert!(error.to_string().contains("token_invalid"), "{error}");
    }

    #[test]
    fn a_win_costs_from_a_half_to_all_of_the_bid() {
        let mut wins = WinLottery::of(1.0);
        for _ in 0..100 {
            let BillingUrl(path) = BillingUrl::of(BIDS.as_bytes(), wins.draw().unwrap()).unwrap();
            let (_, price) = path.split_once("price=").unwrap();
            let cpm: f64 = price.split('&').next().unwrap().parse().unwrap();
            assert!((1.25..=2.5).contains(&cpm), "{path}");
        }
    }
}
