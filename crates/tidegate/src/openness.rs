//! What a configuration leaves open to a network, or gives to more callers than its author may know: each start says
//! it, and so does `tidegate serve --check`.
//!
//! Why: all of this is allowed, because a proxy or a firewall may stand before the server; nobody should do it without
//! knowing. What is never allowed (clients without credentials from other machines) is an error of the configuration.

use std::collections::BTreeSet;
use std::net::SocketAddr;
use std::os::unix::fs::PermissionsExt;

use tidegate_doors::auth::acl::OrdinaryTopics;
use tidegate_doors::mqtt::Origins;

use crate::config::{Config, is_safe};

/// The bit of a mode that lets every user of the host read.
const EVERYBODY_READS: u32 = 0o004;

/// One sentence for each thing that is open, with the key that closes it.
pub fn warnings(config: &Config) -> Vec<String> {
    let mut warnings = Vec::new();
    warnings.extend(without_tls(config));
    warnings.extend(open_paths(config));
    warnings.extend(topics_of_anyone(config));
    warnings.extend(trusted_by_mistake(config));
    warnings.extend(unknown_places(config));
    warnings.extend(namesakes(config));
    warnings.extend(readable_key(config));
    warnings.extend(hook_in_the_clear(config));
    warnings
}

/// An address that other machines may reach.
fn public(address: Option<SocketAddr>) -> Option<SocketAddr> {
    address.filter(|address| !address.ip().is_loopback())
}

fn without_tls(config: &Config) -> Vec<String> {
    let (listen, tls) = (&config.listen, config.tls.as_ref());
    let doors = [
        ("listen.http", listen.http, tls.is_some_and(|tls| tls.http), "set tls.http"),
        ("listen.binary", listen.binary, tls.is_some_and(|tls| tls.binary), "set tls.binary"),
        ("listen.mqtt", listen.mqtt, false, "use listen.mqtts instead"),
    ];
    let open = doors.into_iter().filter(|(_, _, is_encrypted, _)| !is_encrypted);
    open.filter_map(|(key, address, _, cure)| {
        let address = public(address)?;
        Some(format!(
            "{key} = {address} is open to other machines and does not speak TLS: passwords and tokens go over the wire \
             as they are; {cure}, or bind it to 127.0.0.1 behind a proxy that speaks TLS"
        ))
    })
    .collect()
}

fn hook_in_the_clear(config: &Config) -> Option<String> {
    let hook = config.auth_hook.as_ref().filter(|hook| !is_safe(&hook.url, false))?;
    Some(format!(
        "auth_hook.url = {:?} is asked without TLS: whoever is on the way reads passwords and decides on log-ins; use \
         https, and take auth_hook.plain_http away",
        hook.url
    ))
}

fn open_paths(config: &Config) -> Vec<String> {
    let Some(address) = public(config.listen.http) else { return Vec::new() };
    let open = config.auth.open_paths.iter().map(|path| {
        format!(
            "{path} is served to everybody who reaches listen.http = {address}; take it out of auth.open_paths, or \
             close it in the firewall"
        )
    });
    let any_page = config.mqtt.websocket.as_ref().filter(|websocket| matches!(websocket.origins, Origins::Any));
    let any_page = any_page.map(|_| {
        "listener.websocket.origins = [\"*\"]: every web page may open MQTT connections from its visitors' browsers; \
         list the pages that may"
            .to_owned()
    });
    open.chain(any_page).collect()
}

fn topics_of_anyone(config: &Config) -> Option<String> {
    let websocket = config.mqtt.websocket.as_ref().and(config.listen.http);
    let listeners = [config.listen.mqtt, config.listen.mqtts, websocket];
    let reachable = listeners.into_iter().any(|address| public(address).is_some());
    (reachable && config.topics.acl.ordinary_topics != OrdinaryTopics::Nobody).then(|| {
        "mqtt.ordinary_topics lets every client that logs in, each viewer too, publish to all others wherever no \
         [[acl]] rule fits; set it to \"nobody\" and permit what is needed"
            .to_owned()
    })
}

fn trusted_by_mistake(config: &Config) -> Vec<String> {
    let wide = config.proxies.trusted.ranges().iter().filter(|range| range.is_wide());
    wide.map(|range| {
        format!(
            "proxy.trusted has {range}: whoever connects from there may claim any client address, so bounds and bans \
             by address hold for none of them; name the load balancers alone"
        )
    })
    .collect()
}

/// A `%` may be meant as it is, so this is no error.
fn unknown_places(config: &Config) -> Vec<String> {
    let topics = config.topics.acl.rules.iter().flat_map(|rule| &rule.topics);
    let unknown = topics.filter_map(|topic| Some((topic, topic.unknown_place()?)));
    unknown
        .map(|(topic, place)| {
            format!(
                "acl.topics has \"{topic}\", in which {place} stands for nothing but itself; %c is the client id, and \
                 %u the user name"
            )
        })
        .collect()
}

/// Rules know a name, and not whether it is that of a user or of a service.
fn namesakes(config: &Config) -> Vec<String> {
    let is_user = |name: &str| config.users.iter().any(|user| *user.name == *name);
    let names: BTreeSet<_> =
        config.services.iter().map(|service| &*service.name).filter(|name| is_user(name)).collect();
    let told = names.into_iter().map(|name| {
        format!(
            "a [[user]] and a [[service]] are called {name:?}: an [[acl]] rule of this user, and %u, hold for both; \
             give one another name"
        )
    });
    told.collect()
}

fn readable_key(config: &Config) -> Option<String> {
    let key = &config.tls.as_ref()?.key_file;
    let mode = std::fs::metadata(key).ok()?.permissions().mode();
    (mode & EVERYBODY_READS != 0).then(|| {
        let key = key.display();
        format!("every user of this host may read the private key {key}; chmod o-rwx {key}")
    })
}
