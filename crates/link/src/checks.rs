//! What the keys of all links are checked for.

use std::collections::HashSet;
use std::fs::File;
use std::io::{self, Read};
use std::net::Ipv6Addr;
use std::path::{Path, PathBuf};

use anyhow::{Error, Result, anyhow};
use tidegate_config::{Document, nearest};
use tidegate_queue::Declared;
use tidegate_queue::machine::is_queue_name;

use crate::smpp::SmppKeys;
use crate::target::NAME_BYTES_MAX;
use crate::tidegate::LinkKeys;
use crate::webhook::WebhookKeys;

/// Checks the links of one kind.
pub struct Checks<'a> {
    document: &'a Document,
    section: &'static str,
    names: HashSet<Box<str>>,
}

/// Checks one of them, and says where it is wrong.
pub struct Row<'a> {
    document: &'a Document,
    section: &'static str,
    /// Which of the list; `None` for a section of which there is one.
    index: Option<usize>,
}

impl<'a> Checks<'a> {
    /// Of the links in `[[section]]`.
    pub fn new(document: &'a Document, section: &'static str) -> Checks<'a> {
        Checks { document, section, names: HashSet::new() }
    }

    /// The next one: its name is its own, and it has a queue.
    pub fn row(&mut self, index: usize, name: &str, from: &str) -> Result<Row<'a>> {
        let row = Row { document: self.document, section: self.section, index: Some(index) };
        if name.is_empty() || name.len() > NAME_BYTES_MAX || name.chars().any(char::is_control) {
            return Err(row.wrong("name", format!("expected 1 to {NAME_BYTES_MAX} bytes without control characters")));
        }
        if !self.names.insert(name.into()) {
            return Err(row.wrong("name", format!("another {} has this name", self.section)));
        }
        row.queue("from", from)?;
        Ok(row)
    }
}

impl<'a> Row<'a> {
    /// `[section]`, of which there is one.
    pub fn only(document: &'a Document, section: &'static str) -> Row<'a> {
        Row { document, section, index: None }
    }

    /// Says what is wrong with a key.
    pub fn wrong(&self, key: &str, what: impl std::fmt::Display) -> Error {
        let Row { document, section, index } = self;
        let index = index.map(|index| format!("[{index}]")).unwrap_or_default();
        anyhow!(document.error_at(&format!("{section}{index}.{key}"), format!("{section}.{key}: {what}")))
    }

    /// A key that names a queue.
    pub fn queue(&self, key: &str, queue: &str) -> Result<()> {
        let what = "expected the name of a queue: 1 to 80 letters, digits, and characters of \"-_.:{}\", \
            not all of them \".\"";
        if is_queue_name(queue) { Ok(()) } else { Err(self.wrong(key, what)) }
    }

    /// A key that says where the other side is.
    pub fn address(&self, key: &str, address: &str) -> Result<()> {
        check_address(address).map_err(|what| self.wrong(key, format!("{what}, such as \"10.0.0.2:7420\"")))
    }

    /// A secret that stands in one of two keys: itself, or the file that has it.
    pub fn secret(&self, key: &str, secret: Option<Box<str>>, file: Option<PathBuf>) -> Result<Box<str>> {
        let key_file = format!("{key}_file");
        match (secret, file) {
            (Some(secret), None) => Ok(secret),
            (None, Some(file)) => {
                let unread = |error| self.wrong(&key_file, format!("cannot read {}: {error}", file.display()));
                Ok(read_secret(&file).map_err(unread)?.trim().into())
            }
            (None, None) => Err(self.wrong(key, format!("expected {key} or {key_file}"))),
            (Some(_), Some(_)) => {
                Err(self.wrong(key, format!("{key_file} is there too; keep one of them, better {key_file}")))
            }
        }
    }

    /// The same for a secret without which the other side lets nobody in.
    pub fn required_secret(&self, key: &str, secret: Option<Box<str>>, file: Option<PathBuf>) -> Result<Box<str>> {
        let (key_file, named) = (format!("{key}_file"), file.clone());
        let secret = self.secret(key, secret, file)?;
        match (secret.is_empty(), named) {
            (false, Some(file)) if secret.contains(['\n', '\r']) => {
                let why = format!("{} has more than one line; expected one secret alone", file.display());
                Err(self.wrong(&key_file, why))
            }
            (false, _) => Ok(secret),
            (true, None) => Err(self.wrong(key, format!("expected one that is not empty, or {key_file}"))),
            (true, Some(file)) => Err(self.wrong(&key_file, format!("there is nothing in {}", file.display()))),
        }
    }
}

/// A secret that stands in one of two keys of the how-manieth section of a list, and without which another server lets
/// nobody in.
///
/// # Errors
///
/// If there is none, or its file cannot be read.
pub fn required_secret(
    (document, section, index): (&Document, &'static str, usize),
    key: &str,
    secret: Option<Box<str>>,
    file: Option<PathBuf>,
) -> Result<Box<str>> {
    Row { document, section, index: Some(index) }.required_secret(key, secret, file)
}

/// Bytes of a file that has a secret.
const SECRET_BYTES_MAX: u64 = 64 << 10;

/// What a file of a secret says. One that never ends is another file than was meant.
fn read_secret(file: &Path) -> io::Result<String> {
    let mut secret = String::new();
    File::open(file)?.take(SECRET_BYTES_MAX + 1).read_to_string(&mut secret)?;
    if secret.len() as u64 > SECRET_BYTES_MAX {
        let what = format!("it has more than {SECRET_BYTES_MAX} bytes; is it the right file?");
        return Err(io::Error::new(io::ErrorKind::InvalidData, what));
    }
    Ok(secret)
}

/// Whether this is HOST:PORT; else what was expected.
fn check_address(address: &str) -> Result<(), &'static str> {
    if address.contains("://") {
        return Err("expected HOST:PORT and no URL");
    }
    let Some((host, port)) = address.rsplit_once(':') else { return Err("expected HOST:PORT") };
    let bare = host.strip_prefix('[').and_then(|host| host.strip_suffix(']')).unwrap_or(host);
    let is_name = |host: &str| {
        let is_of_name = |byte: u8| byte.is_ascii_alphanumeric() || b"-_.".contains(&byte);
        !host.is_empty() && host.bytes().all(is_of_name)
    };
    // The zone of a link-local address names an interface of this host.
    let is_ipv6 = bare.split('%').next().is_some_and(|host| host.parse::<Ipv6Addr>().is_ok());
    if !is_name(host) && !is_ipv6 {
        return Err("expected HOST:PORT with a host name or an address as HOST");
    }
    match port.parse::<u16>() {
        Ok(1..) if !port.starts_with('+') => Ok(()),
        _ => Err("expected HOST:PORT with a PORT of 1 to 65535"),
    }
}

/// What a link says of a queue that no `[[queue]]` declares: somebody may make it over HTTP, so it is no error.
pub fn undeclared(document: &Document, declared: &Declared) -> Result<Vec<String>> {
    let (links, smpp): (Vec<LinkKeys>, Vec<SmppKeys>) = (document.list()?, document.list()?);
    let webhooks: Vec<WebhookKeys> = document.list()?;
    let from = |section, keys: Vec<Box<str>>| {
        let named = keys.into_iter().enumerate();
        named.map(move |(index, queue)| (section, index, "from", queue))
    };
    let inbound = smpp.iter().enumerate().filter_map(|(index, keys)| Some((index, keys.inbound.clone()?)));
    let inbound: Vec<_> = inbound.map(|(index, queue)| ("smpp", index, "inbound", queue)).collect();
    let named = from("link", links.into_iter().map(|keys| keys.from).collect())
        .chain(from("smpp", smpp.into_iter().map(|keys| keys.from).collect()))
        .chain(inbound)
        .chain(from("webhook", webhooks.into_iter().map(|keys| keys.from).collect()));
    let unknown = named.filter(|(.., queue)| !declared.contains_key(queue));
    Ok(unknown
        .map(|(section, index, key, queue)| {
            let meant = match nearest(&queue, declared.keys().map(|name| &**name)) {
                Some(name) => format!(" (did you mean {name:?}?)"),
                None => String::new(),
            };
            let idle = if key == "from" { "nothing is taken from it" } else { "messages of phones are turned away" };
            let what =
                format!("{section}.{key}: there is no [[queue]] {queue:?}{meant}; until somebody makes it, {idle}");
            document.error_at(&format!("{section}[{index}].{key}"), what).to_string()
        })
        .collect())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_address_is_a_host_and_a_port() {
        for good in ["10.0.0.2:7420", "a-b_c.example:1", "localhost:65535", "[::1]:7420", "::1:7420", "[fe80::1%lo]:7"]
        {
            assert_eq!(check_address(good), Ok(()), "{good}");
        }
        for (bad, what) in [
            ("http://10.0.0.2:7420", "no URL"),
            ("nowhere", "HOST:PORT"),
            (":7420", "host name"),
            ("h:1:2", "host name"),
            ("a b:7", "host name"),
            ("[h]:7", "host name"),
            ("h:", "1 to 65535"),
            ("h:0", "1 to 65535"),
            ("h:65536", "1 to 65535"),
            ("h:+7", "1 to 65535"),
        ] {
            assert!(check_address(bad).is_err_and(|said| said.contains(what)), "{bad}");
        }
    }

    #[test]
    fn a_secret_is_read_of_a_file_that_ends() {
        let folder = tempfile::tempdir().expect("a folder for the test");
        let file = folder.path().join("token");
        std::fs::write(&file, "secret\n").expect("there is room");
        assert_eq!(read_secret(&file).expect("it is one"), "secret\n");
        for endless in [Path::new("/dev/zero"), &file] {
            std::fs::write(&file, vec![b'a'; SECRET_BYTES_MAX as usize + 1]).expect("there is room");
            let error = read_secret(endless).expect_err("it does not end");
            assert!(error.to_string().contains("is it the right file?"), "{error}");
        }
    }
}
