//! `[proxy]`: load balancers before the doors, and what is believed of what they say.

use tidegate_config::{ConfigError, Document, Texts, config, words};
use tidegate_doors::http::HttpProxies;
use tidegate_doors::proxy::{ForwardedHeader, ForwardedRule, ProxyRule, TrustedProxies, Versions};

words! {
    /// With which header of the PROXY protocol the connections of a door begin.
    pub struct ProtocolWord(Option<Versions>) {
        "off" => None,
        "v1" => Some(Versions::V1),
        "v2" => Some(Versions::V2),
        "either" => Some(Versions::Either),
    }
}

words! {
    /// In which header an HTTP proxy says whose request it forwards.
    pub struct ForwardedWord(ForwardedHeader) {
        "off" => ForwardedHeader::Off,
        "x-forwarded-for" => ForwardedHeader::XForwardedFor,
        "forwarded" => ForwardedHeader::Forwarded,
    }
}

config! {
    /// `[proxy]`
    pub struct ProxyKeys in "proxy" {
        trusted: Texts = &[], .., restart,
            "addresses of load balancers that may say whose connections they forward, such as [\"10.0.0.0/8\", \
             \"::1\"]; what others say is never believed";
        http: ProtocolWord = "off", .., restart,
            "the header of the PROXY protocol with which each connection of a trusted address to the HTTP door begins, \
             before TLS: \"v1\", \"v2\", \"either\", or \"off\" for none";
        mqtt: ProtocolWord = "off", .., restart, "the same at listen.mqtt";
        mqtts: ProtocolWord = "off", .., restart, "the same at listen.mqtts";
        binary: ProtocolWord = "off", .., restart, "the same at listen.binary";
        forwarded: ForwardedWord = "off", .., restart,
            "the header in which trusted HTTP proxies name the client of each request: the last address in it that is \
             not trusted. A proxy must set or append it itself";
    }
}

/// What is believed at each door.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Proxies {
    /// Whose word is taken at some door.
    pub trusted: TrustedProxies,
    /// At the HTTP door, where MQTT over WebSocket comes in, too.
    pub http: HttpProxies,
    /// At MQTT over TCP.
    pub mqtt: ProxyRule,
    /// At MQTT over TLS.
    pub mqtts: ProxyRule,
    /// At the binary port.
    pub binary: ProxyRule,
}

impl Proxies {
    /// Those whose word is taken of any client of MQTT.
    pub fn of_mqtt(&self) -> TrustedProxies {
        let rules = [self.mqtt.proxies(), self.mqtts.proxies(), self.http.all()];
        rules.into_iter().find(|proxies| !proxies.is_empty()).unwrap_or_default()
    }
}

/// Checks who is trusted, and for what.
pub fn settle(document: &Document) -> Result<Proxies, ConfigError> {
    let keys: ProxyKeys = document.section()?;
    let ranges = keys.trusted.iter().map(|text| {
        text.parse()
            .map_err(|expected| document.error_at("proxy.trusted", format!("proxy.trusted: {text:?}: {expected}")))
    });
    let trusted = TrustedProxies::new(ranges.collect::<Result<_, _>>()?);
    let asked = [
        ("http", keys.http.is_some()),
        ("mqtt", keys.mqtt.is_some()),
        ("mqtts", keys.mqtts.is_some()),
        ("binary", keys.binary.is_some()),
        ("forwarded", keys.forwarded != ForwardedHeader::Off),
    ];
    match asked.into_iter().find(|(_, is_asked)| *is_asked) {
        Some((key, _)) if trusted.is_empty() => {
            let path = format!("proxy.{key}");
            let message = format!("{path}: no address is trusted; name those of the load balancers in proxy.trusted");
            return Err(document.error_at(&path, message));
        }
        None if !trusted.is_empty() => {
            let message = "proxy.trusted: no door takes the word of these load balancers; set http, mqtt, mqtts or \
                           binary of [proxy] to a version of the PROXY protocol, or forwarded to a header of HTTP";
            return Err(document.error_at("proxy.trusted", message.to_owned()));
        }
        _ => {}
    }
    let rule = |versions: Option<Versions>| {
        versions.map(|versions| ProxyRule::new(trusted.clone(), versions)).unwrap_or_default()
    };
    let requests = match keys.forwarded {
        ForwardedHeader::Off => ForwardedRule::default(),
        header => ForwardedRule::new(trusted.clone(), header),
    };
    Ok(Proxies {
        http: HttpProxies { connections: rule(keys.http), requests },
        mqtt: rule(keys.mqtt),
        mqtts: rule(keys.mqtts),
        binary: rule(keys.binary),
        trusted,
    })
}
