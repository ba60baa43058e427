//! Opens accounts over the binary port and over HTTP, in requests of a fixed number of accounts.

use super::binary::outcomes;
use super::http::response;
use super::server::TOKEN;
use super::session;
use crate::load::{Answer, Dialect, Outcomes};
use anyhow::{Result, bail};
use std::io::Write;
use std::net::TcpStream;
use std::ops::Range;
use tidegate_wire::OpenAccountsEncoder;
use tidegate_wire::limits::TRANSFERS_MAX;
use tidegate_wire::proto::AccountKind;

/// The accounts of one part of a run: wallets with these numbers.
pub struct Openings {
    numbers: Range<u32>,
    id: Vec<u8>,
}

impl Openings {
    /// Wallets with these numbers, one after the other.
    pub fn new(numbers: Range<u32>) -> Openings {
        Openings { numbers, id: Vec::new() }
    }

    /// Of the next request; none after the last.
    fn next_request(&mut self) -> Range<u32> {
        let start = self.numbers.start;
        let end = self.numbers.end.min(start + TRANSFERS_MAX as u32);
        self.numbers.start = end;
        start..end
    }

    fn id(&mut self, number: u32) -> &[u8] {
        self.id.clear();
        write!(self.id, "wallet:user-{number:07}").expect("a Vec takes all");
        &self.id
    }

    fn left(&self) -> u64 {
        self.numbers.len() as u64
    }
}

/// Over the binary port.
pub struct BinaryOpenings(pub Openings);

impl Dialect for BinaryOpenings {
    const IN_ORDER: bool = false;

    fn greet(&mut self, socket: &mut TcpStream) -> Result<()> {
        session::log_in(socket)
    }

    fn transfers_left(&self) -> u64 {
        self.0.left()
    }

    fn ask(&mut self, tag: u32, out: &mut Vec<u8>) -> Result<bool> {
        let numbers = self.0.next_request();
        if numbers.is_empty() {
            return Ok(false);
        }
        let mut frame = OpenAccountsEncoder::begin(out, u64::from(tag));
        for number in numbers {
            frame.push(self.0.id(number), b"credit", AccountKind::Wallet);
        }
        frame.finish();
        Ok(true)
    }

    fn answer(&mut self, bytes: &[u8]) -> Result<Option<Answer>> {
        let Some((correlation, answer)) = outcomes(bytes)? else { return Ok(None) };
        Ok(Some(Answer { tag: correlation as u32, ..answer }))
    }
}

/// Over HTTP.
pub struct HttpOpenings {
    openings: Openings,
    body: Vec<u8>,
}

impl HttpOpenings {
    /// Takes on these accounts.
    pub fn new(openings: Openings) -> HttpOpenings {
        HttpOpenings { openings, body: Vec::new() }
    }
}

impl Dialect for HttpOpenings {
    const IN_ORDER: bool = true;

    fn transfers_left(&self) -> u64 {
        self.openings.left()
    }

    fn ask(&mut self, _tag: u32, out: &mut Vec<u8>) -> Result<bool> {
        let numbers = self.openings.next_request();
        if numbers.is_empty() {
            return Ok(false);
        }
        self.body.clear();
        self.body.extend_from_slice(br#"{"accounts":["#);
        for number in numbers {
            self.body.extend_from_slice(br#"{"id":""#);
            self.body.extend_from_slice(self.openings.id(number));
            self.body.extend_from_slice(br#"","asset":"credit","kind":"wallet"},"#);
        }
        self.body.pop();
        self.body.extend_from_slice(b"]}");
        write!(
            out,
            "POST /v1/accounts HTTP/1.1\r\nhost: tidegate\r\nauthorization: Bearer {TOKEN}\r\n\
             content-type: application/json\r\ncontent-length: {}\r\n\r\n",
            self.body.len()
        )?;
        out.extend_from_slice(&self.body);
        Ok(true)
    }

    fn answer(&mut self, bytes: &[u8]) -> Result<Option<Answer>> {
        let Some((status, taken)) = response(bytes)? else { return Ok(None) };
        if status != 200 {
            bail!("the server answered {status}: {}", String::from_utf8_lossy(&bytes[..taken]));
        }
        Ok(Some(Answer { bytes: taken, tag: 0, outcomes: words(&bytes[..taken]) }))
    }
}

/// Counts the outcomes in an answer by the only places where these words stand: no id has a quotation mark.
fn words(answer: &[u8]) -> Outcomes {
    let mut outcomes = Outcomes::default();
    for at in places_behind(answer, br#""outcome":""#) {
        match answer.get(at) {
            Some(b'a') => outcomes.applied += 1,
            Some(b'd') => outcomes.duplicate += 1,
            _ => outcomes.refused += 1,
        }
    }
    outcomes
}

/// The places behind each occurrence of `word`.
fn places_behind<'a>(text: &'a [u8], word: &'a [u8]) -> impl Iterator<Item = usize> + 'a {
    let mut from = 0;
    std::iter::from_fn(move || {
        while let Some(quote) = text[from..].iter().position(|byte| *byte == b'"') {
            let at = from + quote;
            if text[at..].starts_with(word) {
                from = at + word.len();
                return Some(from);
            }
            from = at + 1;
        }
        None
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_words_of_an_answer_are_counted() {
        let answer = br#"{"outcomes":[{"id":"a","outcome":"applied"},{"id":"b","outcome":"duplicate"},
            {"id":"c","outcome":"refused","code":"account_exists"},{"id":"d","outcome":"applied"}]}"#;
        assert_eq!(words(answer), Outcomes { applied: 2, duplicate: 1, refused: 1 });
    }

    #[test]
    fn every_account_is_asked_for_once() {
        let mut openings = Openings::new(5..20_000);
        let requests: Vec<_> = std::iter::from_fn(|| Some(openings.next_request()).filter(|r| !r.is_empty())).collect();
        assert_eq!(requests, [5..8_195, 8_195..16_385, 16_385..20_000]);
        assert_eq!(openings.id(7), b"wallet:user-0000007");
    }
}
