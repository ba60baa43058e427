//! Which server a command asks, as whom, and how it shows the answer: the same options for all of them.

use std::path::PathBuf;

use anyhow::Context;
use clap::{Args, ValueEnum};
use ureq::http::Uri;

use super::failure::Failure;

/// Which server, as whom, and how to show the answer.
#[derive(Args, Clone)]
pub struct Connection {
    /// Where the server's HTTP door is.
    #[arg(
        long,
        alias = "url",
        global = true,
        value_name = "URL",
        env = "TIDEGATE_SERVER",
        default_value = "http://127.0.0.1:8080",
        value_parser = server,
        help_heading = "Connection"
    )]
    pub(super) server: String,
    /// A service's token, or one that a login gave.
    #[arg(
        long,
        global = true,
        value_name = "TOKEN",
        env = "TIDEGATE_TOKEN",
        hide_env_values = true,
        default_value = "",
        hide_default_value = true,
        help_heading = "Connection"
    )]
    token: String,
    /// File whose only line is the token: others on this host see arguments, but not files. Goes before --token.
    #[arg(long, global = true, value_name = "FILE", help_heading = "Connection")]
    token_file: Option<PathBuf>,
    /// PEM file with the authority that signs the server's certificate, for https; without it, those of this machine.
    #[arg(long, global = true, value_name = "FILE", help_heading = "Connection")]
    pub(super) ca_file: Option<PathBuf>,
    /// A table for people, or a JSON object on each line for programs; then, what is wrong is JSON as well, on standard
    /// error.
    #[arg(long, global = true, value_enum, default_value = "table", help_heading = "Connection")]
    output: Output,
    /// The same as --output json.
    #[arg(long, global = true, help_heading = "Connection")]
    json: bool,
}

/// How answers are shown.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub enum Output {
    /// Columns with a head; one answer alone, as a line for each field.
    Table,
    /// A JSON object on each line.
    Json,
}

impl Connection {
    /// The token, empty if none was given. The end of a line behind it is not a part of it.
    pub(super) fn token(&self) -> Result<String, Failure> {
        let (text, whence) = match &self.token_file {
            None => (self.token.clone(), "--token (or TIDEGATE_TOKEN)".to_owned()),
            Some(file) => {
                let text = std::fs::read_to_string(file);
                (
                    text.with_context(|| format!("cannot read a token from {}", file.display()))?,
                    file.display().to_string(),
                )
            }
        };
        let token = text.trim_end();
        // Not the token itself: what is wrong with it may go into a log.
        match token.char_indices().find(|(_, sign)| !sign.is_ascii_graphic()) {
            None if token.is_empty() && self.token_file.is_some() => {
                Err(Failure::CommandLine(format!("{whence}: there is no token in it")))
            }
            None => Ok(token.to_owned()),
            Some((place, sign)) => Err(Failure::CommandLine(format!(
                "{whence}: this is no token: sign {} of it is {sign:?}, and a token has only letters, \
                 digits and signs of ASCII, without spaces or line breaks",
                token[..place].chars().count() + 1
            ))),
        }
    }

    /// The same to another server, if one is named.
    pub(super) fn of(&self, server: Option<&str>) -> Connection {
        Connection { server: server.map_or_else(|| self.server.clone(), ToOwned::to_owned), ..self.clone() }
    }

    /// How answers are shown.
    pub fn output(&self) -> Output {
        if self.json { Output::Json } else { self.output }
    }
}

pub(super) fn server(text: &str) -> Result<String, String> {
    let address = text.trim_end_matches('/');
    let uri = address.parse::<Uri>().ok().filter(|uri| matches!(uri.scheme_str(), Some("http" | "https")));
    let is_good = uri.is_some_and(|uri| {
        let port = uri.authority().and_then(|authority| authority.as_str().rsplit_once(':'));
        // An address of IPv6 has colons of its own.
        let has_port = port.is_some_and(|(_, port)| !port.contains(']'));
        uri.host().is_some_and(|host| !host.is_empty()) && uri.query().is_none() && (!has_port || uri.port().is_some())
    });
    match is_good {
        true => Ok(address.to_owned()),
        false => Err("expected a URL such as http://127.0.0.1:8080".to_owned()),
    }
}

#[cfg(test)]
mod tests {
    use clap::Parser;

    use super::*;

    #[test]
    fn a_server_is_a_url() {
        assert_eq!(server("http://127.0.0.1:8080/"), Ok("http://127.0.0.1:8080".to_owned()));
        assert_eq!(server("https://ledger.example"), Ok("https://ledger.example".to_owned()));
        assert_eq!(server("http://[::1]:8080"), Ok("http://[::1]:8080".to_owned()));
        assert_eq!(server("https://[::1]/ledger/"), Ok("https://[::1]/ledger".to_owned()), "behind a proxy");
        for wrong in [
            "",
            "localhost:8080",
            "http://",
            "ftp://host",
            "127.0.0.1",
            "http://127.0.0.1:99999",
            "http://127.0.0.1:http",
            "http://127.0.0.1:8080?x",
            "http://a b",
        ] {
            assert!(server(wrong).is_err(), "{wrong}");
        }
    }
    #[derive(clap::Parser)]
    struct CommandLine {
        #[command(flatten)]
        connection: Connection,
    }

    #[test]
    fn a_token_is_one_word_and_the_end_of_its_line_is_no_part_of_it() {
        let token = |arguments: &[&str]| {
            let CommandLine { connection } = CommandLine::parse_from([&["tidegate"], arguments].concat());
            connection.token().map_err(|failure| failure.to_string())
        };
        let folder = tempfile::tempdir().expect("a folder");
        let file = folder.path().join("token");
        let from_file = |text: &str| {
            std::fs::write(&file, text).expect("there is room");
            token(&["--token", "other", "--token-file", file.to_str().expect("a plain name")])
        };
        for text in ["secret-token", "secret-token\n", "secret-token\r\n", "secret-token \n\n"] {
            assert_eq!(token(&["--token", text]), Ok("secret-token".to_owned()), "{text:?}");
            assert_eq!(from_file(text), Ok("secret-token".to_owned()), "{text:?}");
        }
        assert_eq!(token(&["--token", ""]), Ok(String::new()), "none is given");
        let refused = [token(&["--token", "one\ntwo"]), from_file("one\ntwo\n"), token(&["--token", "t\u{f6}ken"])];
        for (refused, words) in
            refused.into_iter().zip(["sign 4 of it is '\\n'", "sign 4 of it is '\\n'", "sign 2 of it"])
        {
            let refused = refused.expect_err("it is no token");
            assert!(refused.contains(words) && !refused.contains("two"), "{refused}");
        }
        assert!(from_file("\n").is_err_and(|refused| refused.contains("no token in it")));
        let missing = token(&["--token-file", "/no/such/file"]);
        assert!(missing.is_err_and(|refused| refused.contains("cannot read a token from /no/such/file")));
    }
}
