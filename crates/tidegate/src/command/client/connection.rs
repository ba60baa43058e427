//! Which server a command asks, as whom, and how it shows the answer: the same options for all of them.

use std::path::PathBuf;

use clap::{Args, ValueEnum};

/// Which server, as whom, and how to show the answer.
#[derive(Args)]
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
    pub(super) token: String,
    /// PEM file with the authority that signs the server's certificate, for https.
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
    /// How answers are shown.
    pub fn output(&self) -> Output {
        if self.json { Output::Json } else { self.output }
    }
}

fn server(text: &str) -> Result<String, String> {
    let (scheme, rest) = text.split_once("://").unwrap_or(("", text));
    match scheme {
        "http" | "https" if !rest.trim_end_matches('/').is_empty() => Ok(text.trim_end_matches('/').to_owned()),
        _ => Err("expected a URL such as http://127.0.0.1:8080".to_owned()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_server_is_a_url() {
        assert_eq!(server("http://127.0.0.1:8080/"), Ok("http://127.0.0.1:8080".to_owned()));
        assert_eq!(server("https://ledger.example"), Ok("https://ledger.example".to_owned()));
        for wrong in ["", "localhost:8080", "http://", "ftp://host", "127.0.0.1"] {
            assert!(server(wrong).is_err(), "{wrong}");
        }
    }
}
