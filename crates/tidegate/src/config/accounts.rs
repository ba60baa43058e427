//! People, programs and seeds: everything in the file that comes as a list.

use std::collections::HashSet;

use tidegate_gateway::auth::{Grant, PasswordHash, Rights, ServiceSettings, UserSettings, service_token_hash};
use tidegate_machines::ledger::AccountKind;

use super::error::ConfigError;
use super::raw::{RawSeed, RawService, RawUser};
use super::settled::{Seed, SeedAccount, SeedTransfer};
use super::source::Source;

/// Least length of a service's token, in bytes: it is a password that nobody has to remember.
const TOKEN_BYTES_MIN: usize = 16;

/// Checks `[[user]]`.
pub fn users(raw: &[RawUser], source: &Source) -> Result<Vec<UserSettings>, ConfigError> {
    let mut names = HashSet::new();
    let user = |(index, user): (usize, &RawUser)| {
        let at = |key: &str| format!("user[{index}].{key}");
        let name = required(source, &at("name"), user.name.as_deref())?;
        if !names.insert(name.to_owned()) {
            return Err(
                source.error_at(&at("name"), format!("user.name = {name:?}: there is a user of this name already"))
            );
        }
        let hash = required(source, &at("password_hash"), user.password_hash.as_deref())?;
        let password_hash = PasswordHash::parse(hash)
            .map_err(|error| source.error_at(&at("password_hash"), format!("user.password_hash: {error}")))?;
        let rights = user_rights(source, &at, user)?;
        Ok(UserSettings { name: name.into(), password_hash, rights })
    };
    raw.iter().enumerate().map(user).collect()
}

fn user_rights(source: &Source, at: &impl Fn(&str) -> String, user: &RawUser) -> Result<Rights, ConfigError> {
    match (required(source, &at("role"), user.role.as_deref())?, &user.wallets, &user.grants) {
        ("viewer", wallets, None) => {
            let wallets = wallets.iter().flatten().map(|wallet| wallet.as_str().into()).collect();
            Ok(Rights::Viewer { wallets })
        }
        ("service", None, grants) => {
            Ok(Rights::Service { grants: parse_grants(source, &at("grants"), grants.as_deref())? })
        }
        ("viewer", ..) => Err(source.error_at(&at("grants"), "user.grants: a viewer has wallets, not grants")),
        ("service", ..) => Err(source.error_at(&at("wallets"), "user.wallets: role service has grants, not wallets")),
        (role, ..) => {
            let message = format!("user.role = {role:?}: expected \"viewer\" or \"service\"");
            Err(source.error_at(&at("role"), message))
        }
    }
}

/// Checks `[[service]]`.
pub fn services(raw: &[RawService], source: &Source) -> Result<Vec<ServiceSettings>, ConfigError> {
    let mut tokens = HashSet::new();
    let service = |(index, service): (usize, &RawService)| {
        let at = |key: &str| format!("service[{index}].{key}");
        let name = required(source, &at("name"), service.name.as_deref())?;
        let token_sha256 = token_hash(source, &at, service)?;
        if !tokens.insert(token_sha256) {
            return Err(source.error_at(&at("name"), format!("service {name:?} has the token of another service")));
        }
        let grants = parse_grants(source, &at("grants"), service.grants.as_deref())?;
        Ok(ServiceSettings { name: name.into(), token_sha256, rights: Rights::Service { grants } })
    };
    raw.iter().enumerate().map(service).collect()
}

fn token_hash(source: &Source, at: &impl Fn(&str) -> String, service: &RawService) -> Result<[u8; 32], ConfigError> {
    match (&service.token, &service.token_sha256) {
        (Some(token), None) if token.len() < TOKEN_BYTES_MIN || !token.bytes().all(|byte| byte.is_ascii_graphic()) => {
            let message =
                format!("service.token: expected at least {TOKEN_BYTES_MIN} letters, digits or signs without spaces");
            Err(source.error_at(&at("token"), message))
        }
        (Some(token), None) => Ok(service_token_hash(token)),
        (None, Some(hex)) => from_hex(hex).ok_or_else(|| {
            let message = "service.token_sha256: expected 64 hex digits, as `printf %s TOKEN | sha256sum` prints";
            source.error_at(&at("token_sha256"), message)
        }),
        (Some(_), Some(_)) => Err(source.error_at(&at("token"), "service: write token or token_sha256, not both")),
        (None, None) => Err(source.error_at(&at("token"), "service: token_sha256 (or token) is missing")),
    }
}

fn parse_grants(source: &Source, path: &str, grants: Option<&[String]>) -> Result<Vec<Grant>, ConfigError> {
    grants
        .unwrap_or_default()
        .iter()
        .map(|grant| grant.parse::<Grant>().map_err(|error| source.error_at(path, error.to_string())))
        .collect()
}

/// Checks `[[seed.account]]` and `[[seed.transfer]]`. Ids and amounts are judged by the ledger, when it is seeded.
pub fn seed(raw: &RawSeed, source: &Source) -> Result<Seed, ConfigError> {
    let account = |(index, account): (usize, &super::raw::RawSeedAccount)| {
        let at = |key: &str| format!("seed.account[{index}].{key}");
        let kind = match required(source, &at("kind"), account.kind.as_deref())? {
            "wallet" => AccountKind::Wallet,
            "source" => AccountKind::Source,
            "collector" => AccountKind::Collector,
            kind => {
                let message = format!("seed.account.kind = {kind:?}: expected \"wallet\", \"source\" or \"collector\"");
                return Err(source.error_at(&at("kind"), message));
            }
        };
        Ok(SeedAccount {
            id: required(source, &at("id"), account.id.as_deref())?.into(),
            asset: required(source, &at("asset"), account.asset.as_deref())?.into(),
            kind,
        })
    };
    let transfer = |(index, transfer): (usize, &super::raw::RawSeedTransfer)| {
        let at = |key: &str| format!("seed.transfer[{index}].{key}");
        let text = |key: &str, value: &Option<String>| required(source, &at(key), value.as_deref()).map(Box::from);
        let Some(amount) = transfer.amount else { return Err(missing(source, &at("amount"))) };
        Ok(SeedTransfer {
            id: text("id", &transfer.id)?,
            debit: text("debit", &transfer.debit)?,
            credit: text("credit", &transfer.credit)?,
            amount,
            memo: transfer.memo.as_deref().unwrap_or_default().into(),
        })
    };
    Ok(Seed {
        accounts: raw.account.iter().enumerate().map(account).collect::<Result<_, _>>()?,
        transfers: raw.transfer.iter().enumerate().map(transfer).collect::<Result<_, _>>()?,
    })
}

fn required<'a>(source: &Source, path: &str, written: Option<&'a str>) -> Result<&'a str, ConfigError> {
    written.filter(|text| !text.is_empty()).ok_or_else(|| missing(source, path))
}

fn missing(source: &Source, path: &str) -> ConfigError {
    source.error_at(path, format!("{path} is missing"))
}

fn from_hex(hex: &str) -> Option<[u8; 32]> {
    if hex.len() != 64 || !hex.is_ascii() {
        return None;
    }
    let mut bytes = [0; 32];
    for (byte, digits) in bytes.iter_mut().zip(hex.as_bytes().chunks(2)) {
        *byte = u8::from_str_radix(std::str::from_utf8(digits).ok()?, 16).ok()?;
    }
    Some(bytes)
}
