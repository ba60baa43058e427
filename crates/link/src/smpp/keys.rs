//! What an operator says of an SMSC.

use anyhow::Result;
use tidegate_config::{
    Count, Document, FilePath, Flag, Milliseconds, NoDefault, Optional, PerSecond, Required, Seconds, Text, Texts,
    config, words,
};
use tidegate_smpp::{Address, Bind, Coding, Numbering, PARTS_MAX, Version};

use crate::checks::{Checks, Row};
use crate::target::LinkSettings;
use crate::tls::{Tls, TlsKeys};

words! {
    /// Versions of SMPP.
    pub struct VersionWord(Version) { "3.4" => Version::V34, "5.0" => Version::V50 }
}

words! {
    /// How parts of a message are numbered.
    pub struct NumberingWord(Numbering) { "udh" => Numbering::Udh, "sar" => Numbering::Sar }
}

/// How a receipt writes the id of its message.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ReceiptId {
    /// As the response to the submission.
    Same,
    /// In decimal, where the response has it in hex.
    Decimal,
    /// In hex, where the response has it in decimal.
    Hex,
}

words! {
    /// How receipts write ids.
    pub struct ReceiptIdWord(ReceiptId) {
        "same" => ReceiptId::Same, "decimal" => ReceiptId::Decimal, "hex" => ReceiptId::Hex
    }
}

config! {
    /// `[[smpp]]`
    pub struct SmppKeys in [["smpp"]] {
        name: Required<Text> = NoDefault, .., restart, "name, for logs, metrics and trails; at most 55 bytes";
        from: Required<Text> = NoDefault, .., restart,
            "the queue here whose messages are sent: the body is the text, in UTF-8, the attributes to and from say to \
             whom and from whom";
        address: Required<Text> = NoDefault, .., restart, "the SMSC, as HOST:PORT";
        system_id: Required<Text> = NoDefault, .., restart, "who binds there; at most 15 characters";
        password: Optional<Text> = NoDefault, .., restart, "its password, at most 8 characters; only for development";
        password_file: Optional<FilePath> = NoDefault, .., restart, "file with its password";
        tls: Flag = false, .., restart, "whether the SMSC speaks TLS there";
        ca_file: Optional<FilePath> = NoDefault, .., restart,
            "PEM file of the authorities that sign its certificate; without it, those that this machine trusts";
        cert_file: Optional<FilePath> = NoDefault, .., restart,
            "PEM file of the certificate that is shown there, if one is wanted";
        key_file: Optional<FilePath> = NoDefault, .., restart, "PEM file of its key";
        server_name: Optional<Text> = NoDefault, .., restart,
            "for whom the SMSC's certificate is; without it, for the host of the address";
        system_type: Text = "", .., restart, "a word that some SMSCs want; at most 12 characters";
        version: VersionWord = "3.4", .., restart, "version of SMPP that is spoken";
        window: Count<usize> = 10, 1..=1_000, restart, "messages that are under way at once";
        rate_per_s: PerSecond<u32> = 100, 1..=100_000, restart,
            "short messages a second at most; half as many whenever the SMSC says that it is too much, and then slowly \
             more again";
        enquire_link_s: Seconds = 30, 1..=3_600, restart,
            "after so long without a word, the SMSC is asked if it is there";
        response_ms: Milliseconds = 10_000, 100..=600_000, restart, "how long the SMSC has for an answer";
        source: Text = "", .., restart,
            "from whom, for messages without the attribute from; without it, the SMSC decides";
        source_ton: Count<u16> = 0, 0..=6, restart, "type of number of a source of digits without a plus";
        source_npi: Count<u16> = 0, 0..=18, restart, "numbering plan of such a source";
        dest_ton: Count<u16> = 1, 0..=6, restart, "type of number of a recipient of digits without a plus";
        dest_npi: Count<u16> = 1, 0..=18, restart, "numbering plan of such a recipient";
        service_type: Text = "", .., restart, "service_type of the short messages; at most 5 characters";
        codings: Texts = &["gsm", "ucs2"], .., restart,
            "alphabets, of gsm, latin1 and ucs2: the first that has all characters of a text is used";
        numbering: NumberingWord = "udh", .., restart,
            "how parts of a long text are numbered: by a header in them (udh), or by TLVs (sar)";
        parts_max: Count<usize> = 10, 1..=255, restart, "parts of a text; a longer one is refused";
        receipts: Flag = true, .., restart, "whether the SMSC is to tell what becomes of messages, for their trails";
        receipt_id: ReceiptIdWord = "same", .., restart,
            "how the text of a receipt writes the id of its message: as the response to its submission did, or in \
             another base";
        inbound: Optional<Text> = NoDefault, .., restart,
            "the queue here for messages of phones; without it, they are turned away";
        address_range: Text = "", .., restart, "for which numbers the SMSC is to deliver messages of phones here";
        lease_ms: Milliseconds = 60_000, 1_000..=43_200_000, restart,
            "how long messages are leased meanwhile: after a kill of this server they wait for so long";
        pause_max_ms: Milliseconds = 30_000, 100..=3_600_000, restart,
            "longest pause after a failure; the first is 100 ms, each further one twice as long";
    }
}

const _: () = assert!(PARTS_MAX == 255, "the range is that of SMPP");

/// A link over SMPP as it is used.
#[derive(Clone)]
pub struct SmppLink {
    /// What all links are told.
    pub link: LinkSettings,
    /// The SMSC.
    pub address: Box<str>,
    /// How it is encrypted.
    pub tls: Option<Tls>,
    /// Who binds.
    pub bind: Bind,
    /// Messages under way.
    pub window: usize,
    /// Parts a second.
    pub rate_per_s: u32,
    /// In seconds.
    pub enquire_link_s: u64,
    /// In milliseconds.
    pub response_ms: u64,
    /// For messages that name no source.
    pub source: Address,
    /// TON and NPI of a source of digits.
    pub source_type: (u8, u8),
    /// TON and NPI of a recipient of digits.
    pub dest_type: (u8, u8),
    /// At most 5 characters.
    pub service_type: Box<str>,
    /// In the order in which they are tried.
    pub codings: Vec<Coding>,
    /// Of parts.
    pub numbering: Numbering,
    /// Of a message.
    pub parts_max: usize,
    /// Whether they are asked for.
    pub receipts: bool,
    /// How they name messages.
    pub receipt_id: ReceiptId,
    /// For messages of phones.
    pub inbound: Option<Box<str>>,
}

/// Reads and checks all of them, and the files with their passwords.
pub fn smpp_links(document: &Document) -> Result<Vec<SmppLink>> {
    let keys: Vec<SmppKeys> = document.list()?;
    let mut checks = Checks::new(document, "smpp");
    let link = |(index, keys): (usize, SmppKeys)| {
        let row = checks.row(index, &keys.name, &keys.from)?;
        settled(keys, &row)
    };
    keys.into_iter().enumerate().map(link).collect()
}

fn settled(keys: SmppKeys, row: &Row<'_>) -> Result<SmppLink> {
    row.address("address", &keys.address)?;
    let password = row.secret("password", keys.password, keys.password_file)?;
    let texts = [
        ("system_id", &keys.system_id, 15),
        ("password", &password, 8),
        ("system_type", &keys.system_type, 12),
        ("service_type", &keys.service_type, 5),
        ("address_range", &keys.address_range, 40),
    ];
    for (key, text, chars_max) in texts {
        let is_plain = text.bytes().all(|byte| byte.is_ascii_graphic() || byte == b' ');
        if !is_plain || text.len() > chars_max {
            return Err(row.wrong(key, format!("expected at most {chars_max} characters of ASCII, as SMPP has it")));
        }
    }
    if let Some(inbound) = &keys.inbound {
        row.queue("inbound", inbound)?;
    }
    let source_type = (keys.source_ton as u8, keys.source_npi as u8);
    let source = match keys.source.is_empty() {
        true => Address::default(),
        false => Address::read(&keys.source, source_type).map_err(|error| row.wrong("source", error))?,
    };
    let SmppKeys { tls, ca_file, cert_file, key_file, server_name, .. } = keys;
    let tls = TlsKeys { tls, ca_file, cert_file, key_file, server_name }.settled(row, &keys.address)?;
    Ok(SmppLink {
        tls,
        link: LinkSettings {
            kind: "smpp",
            name: keys.name,
            from: keys.from,
            lease_ms: keys.lease_ms,
            pause_max_ms: keys.pause_max_ms,
        },
        address: keys.address,
        bind: Bind {
            system_id: keys.system_id,
            password,
            system_type: keys.system_type,
            version: keys.version,
            address_range: keys.address_range,
        },
        window: keys.window,
        rate_per_s: keys.rate_per_s,
        enquire_link_s: keys.enquire_link_s,
        response_ms: keys.response_ms,
        source,
        source_type,
        dest_type: (keys.dest_ton as u8, keys.dest_npi as u8),
        service_type: keys.service_type,
        codings: codings(&keys.codings, row)?,
        numbering: keys.numbering,
        parts_max: keys.parts_max,
        receipts: keys.receipts,
        receipt_id: keys.receipt_id,
        inbound: keys.inbound,
    })
}

fn codings(words: &[Box<str>], row: &Row<'_>) -> Result<Vec<Coding>> {
    let coding = |word: &str| match word {
        "gsm" => Ok(Coding::Gsm),
        "latin1" => Ok(Coding::Latin1),
        "ucs2" => Ok(Coding::Ucs2),
        _ => Err(row.wrong("codings", format!("{word:?}: expected \"gsm\", \"latin1\" or \"ucs2\""))),
    };
    if words.is_empty() {
        return Err(row.wrong("codings", "expected at least one of \"gsm\", \"latin1\" and \"ucs2\""));
    }
    words.iter().map(|word| coding(word)).collect()
}
