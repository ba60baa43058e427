//! Messages in the protocol of Amazon SQS, as boto3 sends them: AWS JSON 1.0, each request signed.
//!
//! Why one request text serves for a second: a signature is good for its second and all bodies are alike, so the load
//! signs once a second and not once a request. What is measured is the server, which cannot tell.

mod signature;

use crate::load::{Answer, Dialect, Outcomes};
use crate::tidegate::http::response;
use anyhow::{Result, ensure};
use jiff::Timestamp;
use signature::{Key, authorization};
use std::net::SocketAddr;

/// Messages of a batch: as many as SQS takes.
pub const BATCH: u64 = 10;
/// Whose signatures the server takes; ElasticMQ takes all.
pub const KEY: Key<'_> = Key { id: "storm", secret: "storm-secret-access-key", region: "tidegate", service: "sqs" };
const CONTENT_TYPE: &str = "application/x-amz-json-1.0";
const TARGET: &str = "AmazonSQS.SendMessageBatch";

/// Sends batches of ten.
pub struct Batches {
    left: u64,
    host: String,
    body: String,
    /// The request, and the second for which it is signed.
    request: String,
    signed_at_s: i64,
}

impl Batches {
    /// So many batches to `queue`, of messages of so many bytes.
    pub fn new(address: SocketAddr, queue: &str, batches: u64, bytes: usize) -> Batches {
        let message = "m".repeat(bytes);
        let entries: Vec<String> =
            (0..BATCH).map(|id| format!(r#"{{"Id": "{id}", "MessageBody": "{message}"}}"#)).collect();
        let body =
            format!(r#"{{"QueueUrl": "http://{address}/000000000000/{queue}", "Entries": [{}]}}"#, entries.join(", "));
        let host = address.to_string();
        Batches { left: batches, host, body, request: String::new(), signed_at_s: 0 }
    }

    /// The headers and their order are those of boto3 1.44.
    fn signed(&self, now: Timestamp) -> String {
        let date = now.strftime("%Y%m%dT%H%M%SZ").to_string();
        let signed = [
            ("content-type", CONTENT_TYPE),
            ("host", self.host.as_str()),
            ("x-amz-date", &date),
            ("x-amz-target", TARGET),
            ("x-amzn-query-mode", "true"),
        ];
        let authorization = authorization(&KEY, "POST", &signed, &date, self.body.as_bytes());
        format!(
            "POST / HTTP/1.1\r\n\
             Host: {}\r\n\
             Accept-Encoding: identity\r\n\
             X-Amz-Target: {TARGET}\r\n\
             Content-Type: {CONTENT_TYPE}\r\n\
             x-amzn-query-mode: true\r\n\
             User-Agent: Boto3/1.44.5 md/Botocore#1.44.8 ua/2.1 os/linux md/arch#x86_64 lang/python#3.11.7\r\n\
             X-Amz-Date: {date}\r\n\
             Authorization: {authorization}\r\n\
             amz-sdk-invocation-id: b1de92e5-f286-4e4e-b193-caf2487b783c\r\n\
             amz-sdk-request: attempt=1\r\n\
             Content-Length: {}\r\n\r\n{}",
            self.host,
            self.body.len(),
            self.body
        )
    }
}

impl Dialect for Batches {
    const IN_ORDER: bool = true;

    fn transfers_left(&self) -> u64 {
        self.left * BATCH
    }

    fn ask(&mut self, _tag: u32, out: &mut Vec<u8>) -> Result<bool> {
        if self.left == 0 {
            return Ok(false);
        }
        self.left -= 1;
        let now = Timestamp::now();
        if now.as_second() != self.signed_at_s {
            self.signed_at_s = now.as_second();
            self.request = self.signed(now);
        }
        out.extend_from_slice(self.request.as_bytes());
        Ok(true)
    }

    fn answer(&mut self, bytes: &[u8]) -> Result<Option<Answer>> {
        let Some((status, taken)) = response(bytes)? else { return Ok(None) };
        let applied = messages_taken(&bytes[..taken]);
        ensure!(
            status == 200 && applied == BATCH,
            "{BATCH} messages were answered {status}: {}",
            String::from_utf8_lossy(&bytes[..taken])
        );
        Ok(Some(Answer { bytes: taken, tag: 0, outcomes: Outcomes { applied, ..Outcomes::default() } }))
    }
}

/// Messages that an answer says were taken: a failed one has no digest of its body.
fn messages_taken(answer: &[u8]) -> u64 {
    const DIGEST: &[u8] = b"\"MD5OfMessageBody\"";
    let begins = answer.iter().enumerate().filter(|(_, byte)| **byte == b'M');
    begins.filter(|(at, _)| *at > 0 && answer[at - 1..].starts_with(DIGEST)).count() as u64
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_request_is_signed_for_its_second() {
        let batches = Batches::new("127.0.0.1:8080".parse().unwrap(), "bench", 1, 16);
        let now = Timestamp::from_second(1_795_829_379).unwrap();
        let request = batches.signed(now);
        let (head, body) = request.split_once("\r\n\r\n").unwrap();
        assert!(head.contains("X-Amz-Date: 20261128T012939Z\r\n"), "{head}");
        assert!(head.contains("Credential=storm/20261128/tidegate/sqs/aws4_request, SignedHeaders=content-type;host;"));
        let body: serde_json::Value = serde_json::from_str(body).unwrap();
        assert_eq!(body["Entries"].as_array().unwrap().len(), 10);
        assert!(head.ends_with(&format!("Content-Length: {}", request.len() - head.len() - 4)), "{head}");
    }

    #[test]
    fn messages_are_counted_by_their_digests() {
        let answer = br#"{"Failed":[{"Id":"1","Message":"MD5OfMessageBody"}],"Successful":[{"MD5OfMessageBody":"0"},
            {"MD5OfMessageBody":"1","MessageId":"M"}]}"#;
        // The first is the text of a value: servers do not write such ones.
        assert_eq!(messages_taken(&answer[50..]), 2);
        assert_eq!(messages_taken(b"MD5OfMessageBody"), 0);
    }
}
