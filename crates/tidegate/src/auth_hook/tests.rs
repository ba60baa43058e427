//! A hook on a socket that says what a test wants it to say.

use std::io::{Read, Write};
use std::net::{IpAddr, Ipv4Addr, TcpListener};

use tidegate_config::Document;
use tidegate_doors::auth::{LoginError, Secret};
use tidegate_telemetry::render_prometheus;

use super::*;
use crate::config::{Config, Overrides, schema};
use crate::host::Host;

/// Log-ins of users each of whom the hook answers with the text behind its name.
struct Hooked {
    authenticator: Arc<Authenticator>,
    registry: Registry,
    _asking: AuthHook,
}

impl Hooked {
    /// A hook that writes what `says` has for the name of a user, and closes.
    fn new(says: &'static [(&'static str, &'static str)]) -> Hooked {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let url = format!("http://{}/", listener.local_addr().unwrap());
        std::thread::spawn(move || {
            for stream in listener.incoming() {
                let mut stream = stream.unwrap();
                let mut asked = [0; 4096];
                let mut read = 0;
                let user = loop {
                    read += stream.read(&mut asked[read..]).unwrap();
                    let text = String::from_utf8_lossy(&asked[..read]).into_owned();
                    if let Some((_, user)) = text.split_once("{\"user\":\"").filter(|_| text.ends_with('}')) {
                        break user.split('"').next().unwrap().to_owned();
                    }
                };
                let (_, answer) = says.iter().find(|(name, _)| *name == user).expect("the test knows its users");
                stream.write_all(answer.as_bytes()).unwrap();
            }
        });
        let folder = tempfile::tempdir().unwrap();
        let secret = folder.path().join("secret");
        std::fs::write(&secret, "0123456789abcdef").unwrap();
        let text = format!("[auth_hook]\nurl = {url:?}\nsecret_file = {secret:?}\ndenied_s = 0\n");
        let document = Document::of("test.toml", &text, &schema(&[])).unwrap();
        let host = Host { cores: 2, memory_bytes: None };
        let config = Config::settle(document, &Overrides::default(), host).unwrap();
        let settings = config.auth_settings(Secret::from_bytes(&[1; 32]).unwrap());
        let (authenticator, registry) =
            (Arc::new(Authenticator::new(settings)), Registry::of(&[AuthHookMetrics::ROWS]));
        let asking = AuthHook::start(&authenticator, &registry).unwrap();
        Hooked { authenticator, registry, _asking: asking }
    }

    fn log_in(&self, user: &str) -> Result<(), LoginError> {
        let runtime = tokio::runtime::Builder::new_current_thread().build().unwrap();
        let here = IpAddr::V4(Ipv4Addr::LOCALHOST);
        runtime.block_on(self.authenticator.log_in(user, "right", here)).map(|_| ())
    }

    /// Questions that the hook did not answer.
    fn failures(&self) -> String {
        let text = render_prometheus(&self.registry.snapshot());
        let line = text.lines().find(|line| line.starts_with("tidegate_auth_hook_failures_total"));
        line.and_then(|line| line.rsplit(' ').next()).unwrap_or_default().to_owned()
    }
}

/// What `ben` is told, who comes in.
const BEN: (&str, &str) = ("ben", "HTTP/1.1 200 OK\r\ncontent-length: 18\r\n\r\n{\"result\":\"allow\"}");

#[test]
fn an_answer_that_came_whole_is_no_failure_of_the_hook() {
    let long = format!("HTTP/1.1 200 OK\r\ncontent-length: 6000\r\n\r\n{}", "x".repeat(6_000));
    let hooked = Hooked::new(Vec::leak(vec![
        BEN,
        ("role", "HTTP/1.1 200 OK\r\ncontent-length: 33\r\n\r\n{\"result\":\"allow\",\"role\":\"admin\"}"),
        ("page", "HTTP/1.1 200 OK\r\n\r\n<html>Log in here</html>"),
        ("begun", "HTTP/1.1 200 OK\r\ncontent-length: 1\r\n\r\n{"),
        ("long", String::leak(long)),
    ]));
    for user in ["role", "page", "begun", "long"] {
        for _ in 0..6 {
            assert_eq!(hooked.log_in(user), Err(LoginError::Wrong), "{user}");
        }
        assert_eq!(hooked.log_in("ben"), Ok(()), "after {user}");
    }
    assert_eq!(hooked.failures(), "0");
}

#[test]
fn an_answer_that_was_cut_off_is_one() {
    let hooked = Hooked::new(&[
        BEN,
        ("told", "HTTP/1.1 200 OK\r\ncontent-length: 18\r\n\r\n{\"result\":\"al"),
        ("parts", "HTTP/1.1 200 OK\r\ntransfer-encoding: chunked\r\n\r\n5\r\n{\"res\r\n"),
        ("closed", "HTTP/1.1 200 OK\r\n\r\n{\"result\":\"al"),
        ("silent", ""),
    ]);
    for user in ["told", "parts", "closed", "silent", "told"] {
        assert_eq!(hooked.log_in(user), Err(LoginError::Unavailable { retry_after_s: 1 }), "{user}");
    }
    assert!(matches!(hooked.log_in("ben"), Err(LoginError::Unavailable { .. })), "five failures: it is left alone");
    assert_eq!(hooked.failures(), "5");
}
