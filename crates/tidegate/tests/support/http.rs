//! A client of the HTTP door, one request after the other over one connection, plain or TLS.

use std::io::{self, BufRead, BufReader, Read, Write};
use std::net::{SocketAddr, TcpStream};

use serde_json::Value;

use super::{PATIENCE, SERVICE};

/// One kept-alive connection and the token that it shows.
pub struct Http<S: Read + Write> {
    stream: BufReader<S>,
    token: String,
}

/// Status, and the body as JSON, or as a JSON string if it is something else.
#[derive(Clone, Debug, PartialEq)]
pub struct Answer {
    /// HTTP status.
    pub status: u16,
    /// Body.
    pub body: Value,
    /// When to ask again, in seconds, as the header says.
    pub retry_after: Option<String>,
}

impl Answer {
    /// The stable code of a problem; empty for other answers.
    pub fn code(&self) -> &str {
        self.body["code"].as_str().unwrap_or("")
    }
}

impl Http<TcpStream> {
    /// Connects as the service that may do everything.
    pub fn connect(address: SocketAddr) -> io::Result<Http<TcpStream>> {
        let stream = TcpStream::connect(address)?;
        stream.set_nodelay(true)?;
        stream.set_read_timeout(Some(PATIENCE))?;
        Ok(Http::over(stream, SERVICE))
    }
}

impl<S: Read + Write> Http<S> {
    /// Speaks over a stream that is connected already.
    pub fn over(stream: S, token: &str) -> Http<S> {
        Http { stream: BufReader::new(stream), token: token.to_owned() }
    }

    /// `GET path`
    pub fn get(&mut self, path: &str) -> io::Result<Answer> {
        self.request("GET", path, "")
    }

    /// `POST path` with a JSON body
    pub fn post(&mut self, path: &str, body: &Value) -> io::Result<Answer> {
        self.request("POST", path, &body.to_string())
    }

    /// `PUT path` with a JSON body
    pub fn put(&mut self, path: &str, body: &Value) -> io::Result<Answer> {
        self.request("PUT", path, &body.to_string())
    }

    /// `PATCH path` with a JSON body
    pub fn patch(&mut self, path: &str, body: &Value) -> io::Result<Answer> {
        self.request("PATCH", path, &body.to_string())
    }

    /// `DELETE path`
    pub fn delete(&mut self, path: &str) -> io::Result<Answer> {
        self.request("DELETE", path, "")
    }

    fn request(&mut self, method: &str, path: &str, body: &str) -> io::Result<Answer> {
        let request = format!(
            "{method} {path} HTTP/1.1\r\nHost: localhost\r\nAuthorization: Bearer {}\r\n\
             Content-Type: application/json\r\nContent-Length: {}\r\n\r\n{body}",
            self.token,
            body.len()
        );
        self.stream.get_mut().write_all(request.as_bytes())?;
        self.stream.get_mut().flush()?;
        let broken = |what: &str| io::Error::new(io::ErrorKind::InvalidData, what.to_owned());
        let status = self.line()?;
        let status = status.split(' ').nth(1).and_then(|code| code.parse().ok()).ok_or_else(|| broken(&status))?;
        let (mut length, mut retry_after) = (None, None);
        loop {
            let line = self.line()?;
            if line.is_empty() {
                break;
            }
            if let Some(value) = line.to_ascii_lowercase().strip_prefix("content-length:") {
                length = value.trim().parse::<usize>().ok();
            }
            if let Some(value) = line.to_ascii_lowercase().strip_prefix("retry-after:") {
                retry_after = Some(value.trim().to_owned());
            }
        }
        if status == 204 {
            length = Some(0);
        }
        let mut body = vec![0; length.ok_or_else(|| broken("an answer without a length"))?];
        self.stream.read_exact(&mut body)?;
        let text = String::from_utf8_lossy(&body);
        let body = serde_json::from_str(&text).unwrap_or_else(|_| Value::String(text.into_owned()));
        Ok(Answer { status, body, retry_after })
    }

    fn line(&mut self) -> io::Result<String> {
        let mut line = String::new();
        match self.stream.read_line(&mut line)? {
            0 => Err(io::ErrorKind::UnexpectedEof.into()),
            _ => Ok(line.trim_end().to_owned()),
        }
    }
}
