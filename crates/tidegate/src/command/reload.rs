//! SIGHUP: reads users, services, rules and certificates again while clients stay connected.
//!
//! Promise: all or nothing. Everything is read and checked before anything is replaced; a file with an error changes
//! nothing, and the error is logged. One warning names the keys that have changed in the file but need a restart
//! (addresses, bounds), so that operators do not wait for them to take effect.

use std::collections::HashMap;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use anyhow::{Result, bail};
use tidegate_config::{Document, Schema};
use tidegate_doors::auth::{Authenticator, Secret, ServiceSettings};
use tidegate_doors::http::time::{now_ms, rfc3339};
use tidegate_doors::security;
use tidegate_doors::tls::{
    Authorities, AuthoritiesError, Certificate, CertificateError, ClientAuthorities, ServerCertificate,
    read_authorities, read_certificate,
};

use crate::config::{Config, Overrides};
use crate::logging::Log;

/// What the doors hold of files that may change.
pub struct Files {
    /// The server's certificate; `None` as long as no door speaks TLS.
    pub certificate: Option<Arc<ServerCertificate>>,
    /// Whose client certificates are good.
    pub clients: Arc<ClientAuthorities>,
}

/// What extensions say of a file: an error if a start would refuse it, else what may be a slip.
pub type CheckSections<'a> = Box<dyn Fn(&Document) -> Result<Vec<String>> + 'a>;

/// Reads everything again when asked to.
pub struct Reload<'a> {
    file: Option<PathBuf>,
    schema: Schema,
    overrides: Overrides,
    /// As it is served.
    config: Config,
    /// Users and services that the file named when it was read last.
    named: usize,
    /// The id space of each service that it has named.
    spaces: HashMap<String, String>,
    files: Files,
    authenticator: Arc<Authenticator>,
    secret: Secret,
    log: Log,
    check_sections: CheckSections<'a>,
}

impl Files {
    /// Reads what `config` names.
    pub fn read(config: &Config) -> Result<Files> {
        let (certificate, authorities) = read(config)?;
        Ok(Files { certificate: certificate.map(ServerCertificate::new), clients: ClientAuthorities::new(authorities) })
    }

    /// What is to be said of the server's certificate, and of revocation lists: those that are over by the host's clock
    /// keep clients out, and so does an authority's.
    pub fn complaints(&self) -> Vec<String> {
        let since = |ends_s: Option<i64>| {
            let ends_s = ends_s.and_then(|ends_s| u64::try_from(ends_s).ok());
            ends_s.filter(|ends_s| *ends_s <= now_ms() / 1_000).map(rfc3339)
        };
        let certificate = since(self.certificate.as_deref().and_then(ServerCertificate::expires_at_s)).map(|since| {
            format!(
                "tls.cert_file: the certificate, or one of its chain, is over since {since}: no client that checks it \
                 connects; those that are connected stay. Put a newer one there and send SIGHUP"
            )
        });
        let list = since(self.clients.lists_end_at_s()).map(|since| {
            format!(
                "tls.client_crl_file: a revocation list is over since {since}: no client with a certificate of its \
                 authority can connect; those that are connected stay. Put a newer list there and send SIGHUP"
            )
        });
        let is_of_authority = self.certificate.as_deref().is_some_and(ServerCertificate::is_of_authority);
        let authority = is_of_authority.then(|| {
            "tls.cert_file: the certificate is one of an authority (CA:TRUE), which some clients accept from no \
             server, among them those of this program. Make it with `-addext basicConstraints=critical,CA:FALSE`"
                .to_owned()
        });
        certificate.into_iter().chain(list).chain(authority).collect()
    }
}

impl<'a> Reload<'a> {
    /// For a process that was started with these.
    #[expect(clippy::too_many_arguments, reason = "each is a part of its own that a start has made")]
    pub fn new(
        file: Option<&Path>,
        schema: Schema,
        overrides: &Overrides,
        config: Config,
        files: Files,
        authenticator: Arc<Authenticator>,
        secret: Secret,
        log: Log,
        check_sections: CheckSections<'a>,
    ) -> Reload<'a> {
        let (file, overrides) = (file.map(Path::to_owned), overrides.clone());
        let (named, spaces) = (config.users.len() + config.services.len(), spaces(&config.services));
        Reload { file, schema, overrides, config, named, spaces, files, authenticator, secret, log, check_sections }
    }

    /// What the doors hold now.
    pub fn files(&self) -> &Files {
        &self.files
    }

    /// Reads everything again, and says how that went.
    pub fn run(&mut self) {
        let replaced = self.replace();
        if replaced.is_ok() {
            security::tell_of_configuration("users, services, rules and certificates were read again");
        }
        match replaced {
            Ok(waiting) if waiting.is_empty() => tracing::info!("reloaded users, services, rules and certificates"),
            Ok(waiting) => tracing::warn!(
                "reloaded users, services, rules and certificates; changed too, but only a restart applies it: {}",
                waiting.join(", ")
            ),
            Err(error) => tracing::error!("nothing was reloaded: {error:#}"),
        }
    }

    /// Returns the keys that have changed and need a restart.
    fn replace(&mut self) -> Result<Vec<String>> {
        let config = Config::load(self.file.as_deref(), &self.schema, &self.overrides)?;
        if config.users.is_empty() && config.services.is_empty() && self.named > 0 {
            bail!(
                "the configuration names no user and no service any more, and it named {}: was its file emptied by \
                 mistake? A restart would take it as it is",
                self.named
            );
        }
        // Only a restart applies what these say, and it would fail.
        let slips = (self.check_sections)(config.document())?;
        let (certificate, authorities) = read(&config)?;
        slips.iter().for_each(|slip| tracing::warn!("{slip}"));
        let waiting = self.config.waiting_for_restart(&config);
        if let (Some(served), Some(certificate)) = (&self.files.certificate, certificate) {
            served.replace(certificate);
        }
        self.files.clients.replace(authorities);
        self.log.filter(&config.log.filter);
        self.tell_other_spaces(&config);
        self.named = config.users.len() + config.services.len();
        self.authenticator.reload(config.auth_settings(self.secret.clone()));
        Ok(waiting)
    }

    /// Warns of services whose ids are in another space from now on.
    fn tell_other_spaces(&mut self, config: &Config) {
        for ServiceSettings { name, id_space, .. } in &config.services {
            let before = self.spaces.insert(name.to_string(), id_space.name().to_owned());
            if let Some(before) = before.filter(|before| before != id_space.name()) {
                tracing::warn!(
                    service = %name,
                    before,
                    now = id_space.name(),
                    "the ids of this service are in another id space from now on: what was done under an id before is \
                     done once more if it is asked again under that id"
                );
            }
        }
    }
}

/// The id space of each service.
fn spaces(services: &[ServiceSettings]) -> HashMap<String, String> {
    services.iter().map(|service| (service.name.to_string(), service.id_space.name().to_owned())).collect()
}

fn read(config: &Config) -> Result<(Option<Certificate>, Option<Authorities>)> {
    let Some(tls) = &config.tls else { return Ok((None, None)) };
    let authorities = tls.clients.as_ref();
    let authorities =
        authorities.map(|clients| read_authorities(&clients.ca_file, clients.crl_file.as_deref(), clients.required));
    let at = |key: &str, error: anyhow::Error| config.document().error_at(key, format!("{key}: {error:#}"));
    let authorities = authorities.transpose().map_err(|error| match error {
        AuthoritiesError::Authorities(error) => at("tls.client_ca_file", error),
        AuthoritiesError::RevocationLists(error) => at("tls.client_crl_file", error),
    })?;
    let certificate = read_certificate(&tls.cert_file, &tls.key_file).map_err(|error| match error {
        CertificateError::Chain(error) => at("tls.cert_file", error),
        CertificateError::Key(error) => at("tls.key_file", error),
    })?;
    Ok((Some(certificate), authorities))
}
