//! Votes over HTTP/JSON: one transfer a request on connections that stay open.

use super::server::TOKEN;
use crate::load::{Answer, Dialect, Outcomes};
use crate::workload::{Names, Parties, Workload};
use anyhow::{Context, Result, bail};
use std::io::{Read, Write};
use std::net::{SocketAddr, TcpStream};
use std::time::Duration;

/// Headers an answer may have.
const HEADERS_MAX: usize = 32;

/// Sends a workload as `POST /v1/transfers`.
pub struct Votes<'a> {
    names: &'a Names,
    work: Workload,
    head: String,
    body: Vec<u8>,
}

impl<'a> Votes<'a> {
    /// Takes on `work`.
    pub fn new(names: &'a Names, work: Workload) -> Votes<'a> {
        let head = format!(
            "POST /v1/transfers HTTP/1.1\r\nhost: tidegate\r\nauthorization: Bearer {TOKEN}\r\n\
             content-type: application/json\r\ncontent-length: "
        );
        Votes { names, work, head, body: Vec::new() }
    }

    /// Sum of all amounts sent.
    pub fn paid(&self) -> u128 {
        self.work.paid()
    }
}

impl Dialect for Votes<'_> {
    const IN_ORDER: bool = true;

    fn transfers_left(&self) -> u64 {
        self.work.left()
    }

    fn ask(&mut self, _tag: u32, out: &mut Vec<u8>) -> Result<bool> {
        let Some(payment) = self.work.next() else { return Ok(false) };
        let (id, Parties { debit, credit }) = (payment.id.as_str(), self.names.parties(&payment));
        self.body.clear();
        write!(self.body, r#"{{"id":"{id}","debit":"{debit}","credit":"{credit}","amount":{}}}"#, payment.amount)?;
        out.extend_from_slice(self.head.as_bytes());
        write!(out, "{}\r\n\r\n", self.body.len())?;
        out.extend_from_slice(&self.body);
        Ok(true)
    }

    fn answer(&mut self, bytes: &[u8]) -> Result<Option<Answer>> {
        let Some((status, bytes_taken)) = response(bytes)? else { return Ok(None) };
        let outcomes = match status {
            201 => Outcomes { applied: 1, ..Outcomes::default() },
            200 => Outcomes { duplicate: 1, ..Outcomes::default() },
            409 => Outcomes { refused: 1, ..Outcomes::default() },
            _ => bail!("the server answered {status}: {}", String::from_utf8_lossy(&bytes[..bytes_taken])),
        };
        Ok(Some(Answer { bytes: bytes_taken, tag: 0, outcomes }))
    }
}

/// Status and length of the whole response at the front of `bytes`; `None` when more must arrive first.
pub fn response(bytes: &[u8]) -> Result<Option<(u16, usize)>> {
    let mut headers = [httparse::EMPTY_HEADER; HEADERS_MAX];
    let mut response = httparse::Response::new(&mut headers);
    let httparse::Status::Complete(head) = response.parse(bytes)? else { return Ok(None) };
    let status = response.code.context("a response without a status")?;
    let length = response.headers.iter().find(|header| header.name.eq_ignore_ascii_case("content-length"));
    let length = length.with_context(|| format!("a response ({status}) without content-length"))?;
    let length: usize = std::str::from_utf8(length.value)?.parse()?;
    Ok((bytes.len() >= head + length).then_some((status, head + length)))
}

/// Whether `GET /healthz` answers 200.
pub fn is_healthy(address: SocketAddr) -> bool {
    let ask = || -> Result<bool> {
        let mut socket = TcpStream::connect_timeout(&address, Duration::from_millis(500))?;
        socket.set_read_timeout(Some(Duration::from_secs(2)))?;
        socket.write_all(b"GET /healthz HTTP/1.1\r\nhost: tidegate\r\nconnection: close\r\n\r\n")?;
        let mut answer = Vec::new();
        socket.read_to_end(&mut answer)?;
        Ok(matches!(response(&answer)?, Some((200, _))))
    };
    ask().unwrap_or(false)
}

/// The largest value of a metric over all its labels, as `GET /metrics` shows it behind the prefix that all have.
pub fn figure_max(address: SocketAddr, metric: &str) -> Result<f64> {
    let mut socket = TcpStream::connect(address)?;
    write!(
        socket,
        "GET /metrics HTTP/1.1\r\nhost: tidegate\r\nauthorization: Bearer {TOKEN}\r\nconnection: close\r\n\r\n"
    )?;
    let mut answer = String::new();
    socket.read_to_string(&mut answer)?;
    let of_metric = |line: &str| {
        let rest = line.strip_prefix("tidegate_")?.strip_prefix(metric)?;
        let is_whole_name = rest.starts_with(['{', ' ']);
        rest.rsplit(' ').next().filter(|_| is_whole_name)?.trim().parse::<f64>().ok()
    };
    let values = answer.lines().filter_map(of_metric);
    values.reduce(f64::max).with_context(|| format!("/metrics does not show {metric}"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn responses_are_cut_where_they_end() {
        let two =
            b"HTTP/1.1 201 Created\r\nContent-Length: 2\r\n\r\n{}HTTP/1.1 409 Conflict\r\ncontent-length: 0\r\n\r\n";
        let (status, taken) = response(two).unwrap().unwrap();
        assert_eq!((status, &two[taken - 2..taken]), (201, &b"{}"[..]));
        assert_eq!(response(&two[taken..]).unwrap(), Some((409, two.len() - taken)));
        for cut in 0..taken {
            assert_eq!(response(&two[..cut]).unwrap(), None, "cut at {cut}");
        }
    }
}
