//! `[[link]]`: which queues are forwarded, and where to.

use anyhow::Result;
use tidegate_config::{Count, Document, FilePath, Flag, Milliseconds, NoDefault, Optional, Required, Text, config};
use tidegate_queue::machine::limits::{BATCH_MESSAGES_MAX, LEASE_MS_MAX};

use crate::checks::Checks;
use crate::server::OtherServer;
use crate::target::LinkSettings;
use crate::tls::TlsKeys;

config! {
    /// `[[link]]`
    pub struct LinkKeys in [["link"]] {
        name: Required<Text> = NoDefault, .., restart, "name, for logs, metrics and trails; at most 55 bytes";
        from: Required<Text> = NoDefault, .., restart, "the queue here whose messages are forwarded";
        address: Required<Text> = NoDefault, .., restart, "binary port of the other server, as HOST:PORT";
        to: Required<Text> = NoDefault, .., restart, "the queue there";
        token: Optional<Text> = NoDefault, .., restart,
            "token of a service of the other server that may relay to that queue (grant \"relay:QUEUE\"); only for \
             development";
        token_file: Optional<FilePath> = NoDefault, .., restart, "file with that token";
        tls: Flag = false, .., restart, "whether the binary port of the other server speaks TLS";
        ca_file: Optional<FilePath> = NoDefault, .., restart,
            "PEM file of the authorities that sign its certificate; without it, those that this machine trusts";
        cert_file: Optional<FilePath> = NoDefault, .., restart,
            "PEM file of the certificate that is shown there, if one is wanted";
        key_file: Optional<FilePath> = NoDefault, .., restart, "PEM file of its key";
        server_name: Optional<Text> = NoDefault, .., restart,
            "for whom the other server's certificate is; without it, for the host of the address";
        batch: Count<usize> = 500, 1..=1_000, restart, "messages that are under way at once";
        lease_ms: Milliseconds = 5_000, 1_000..=43_200_000, restart,
            "how long they are leased meanwhile: after a kill of this server they wait for so long";
        pause_max_ms: Milliseconds = 30_000, 100..=3_600_000, restart,
            "longest pause after a failure; the first is 100 ms, each further one twice as long";
    }
}

const _: () = assert!(BATCH_MESSAGES_MAX == 1_000 && LEASE_MS_MAX == 43_200_000, "the ranges are those of queues");

/// A link as it is used.
#[derive(Clone)]
pub struct TidegateLink {
    /// What all links are told.
    pub link: LinkSettings,
    /// The other server.
    pub server: OtherServer,
    /// The queue there.
    pub to: Box<str>,
    /// Messages at once.
    pub batch: usize,
}

/// Reads and checks all links, and the files with their tokens.
pub fn links(document: &Document) -> Result<Vec<TidegateLink>> {
    let keys: Vec<LinkKeys> = document.list()?;
    let mut checks = Checks::new(document, "link");
    let link = |(index, keys): (usize, LinkKeys)| {
        let row = checks.row(index, &keys.name, &keys.from)?;
        row.queue("to", &keys.to)?;
        row.address("address", &keys.address)?;
        let LinkKeys { tls, ca_file, cert_file, key_file, server_name, .. } = keys;
        let tls = TlsKeys { tls, ca_file, cert_file, key_file, server_name }.settled(&row, &keys.address)?;
        let token = row.required_secret("token", keys.token, keys.token_file)?;
        Ok(TidegateLink {
            server: OtherServer { address: keys.address, token, tls },
            link: LinkSettings {
                kind: "link",
                name: keys.name,
                from: keys.from,
                lease_ms: keys.lease_ms,
                pause_max_ms: keys.pause_max_ms,
            },
            to: keys.to,
            batch: keys.batch,
        })
    };
    keys.into_iter().enumerate().map(link).collect()
}
