//! Clients with each kind of credential, and reloads of the configuration while they are connected.

use std::net::{IpAddr, Ipv4Addr};
use std::sync::LazyLock;
use std::sync::mpsc::channel;
use std::time::Duration;

use rcgen::{CertificateParams, DnType, KeyPair};
use tidegate_machines::IdSpace;

use super::*;
use crate::auth::acl::AnonymousSessions;
use crate::auth::tests::nobody;
use crate::auth::{
    AuthSettings, CertificateUsers, Grant, PasswordHash, Rights, ServiceSettings, TopicAccess, UserSettings,
    hash_password, service_token_hash,
};

const TOKEN: &str = "dev-service-token";
const HERE: IpAddr = IpAddr::V4(Ipv4Addr::LOCALHOST);

/// Hashing is slow; one hash serves all tests.
static HASH: LazyLock<PasswordHash> = LazyLock::new(|| hash_password("secret"));

fn settings(users: &[&str], certificate_users: CertificateUsers) -> AuthSettings {
    let user = |name: &&str| UserSettings {
        name: (*name).into(),
        password_hash: HASH.clone(),
        rights: Rights::Viewer { wallets: vec![format!("wallet:{name}").into()] },
    };
    AuthSettings {
        users: users.iter().map(user).collect(),
        services: vec![ServiceSettings {
            name: "dev".into(),
            token_sha256: service_token_hash(TOKEN),
            rights: Rights::Service { grants: vec![Grant::Everything] },
            id_space: IdSpace::default(),
            quota: None,
        }],
        topics: TopicAccess { certificate_users, ..TopicAccess::default() },
        ..nobody()
    }
}

fn shown(user_name: Option<&str>, password: Option<&str>) -> Credentials {
    Credentials {
        client_id: "c1".into(),
        user_name: user_name.map(Box::from),
        password: password.map(|password| password.as_bytes().into()),
        certificate: None,
        address: IpAddr::V4(Ipv4Addr::LOCALHOST),
        listener: "mqtt".into(),
        anonymous_allowed: false,
    }
}

fn certificate(names: &[&str]) -> CertificateDer<'static> {
    let mut params = CertificateParams::new(Vec::new()).unwrap();
    params.distinguished_name = rcgen::DistinguishedName::new();
    for name in names {
        params.distinguished_name.push(DnType::CommonName, *name);
    }
    params.self_signed(&KeyPair::generate().unwrap()).unwrap().der().clone()
}

/// The verdict, waited for if it takes a thread.
fn judge(authenticator: &Authenticator, shown: Credentials) -> Verdict {
    let (sender, receiver) = channel();
    let reply = VerdictReply::new(move |verdict| sender.send(verdict).unwrap(), Arc::default());
    match authenticator.begin(shown, reply) {
        Some(verdict) => verdict,
        None => receiver.recv_timeout(Duration::from_secs(60)).unwrap(),
    }
}

/// Who was let in, or the reason why not.
fn word(verdict: Verdict) -> Result<String, u8> {
    verdict.map(|admitted| admitted.rights.user().unwrap_or("nobody").to_owned()).map_err(|denied| denied.reason.0)
}

#[test]
fn a_password_a_token_or_nothing() {
    let authenticator = Authenticator::new(settings(&["dave"], CertificateUsers::Listed));
    let runtime = tokio::runtime::Builder::new_current_thread().build().unwrap();
    let jwt = runtime.block_on(authenticator.log_in("dave", "secret", HERE)).unwrap().token;
    for (user_name, password, expected) in [
        (Some("dave"), Some("secret"), Ok("dave")),
        (Some("dave"), Some("Secret"), Err(0x86)),
        (Some("dave"), Some(""), Err(0x86)),
        (Some("carol"), Some("secret"), Err(0x86)),
        (Some(""), Some("secret"), Err(0x86)),
        (None, Some("secret"), Err(0x86)),
        (Some("dave"), None, Err(0x86)),
        (None, None, Err(0x87)),
        (None, Some(TOKEN), Ok("dev")),
        (Some("whatever"), Some(TOKEN), Ok("dev")),
        (None, Some(&jwt), Ok("dave")),
        (Some("token"), Some(&jwt), Ok("dave")),
        (Some("dave"), Some(&jwt[..jwt.len() - 1]), Err(0x86)),
    ] {
        let verdict = word(judge(&authenticator, shown(user_name, password)));
        assert_eq!(verdict, expected.map(str::to_owned), "{user_name:?} {password:?}");
    }
    let open = |user_name, password| Credentials { anonymous_allowed: true, ..shown(user_name, password) };
    assert_eq!(word(judge(&authenticator, open(None, None))), Ok("nobody".to_owned()));
    assert_eq!(word(judge(&authenticator, open(Some("dave"), None))), Err(0x86), "a name alone is not nobody");
    assert_eq!(word(judge(&authenticator, open(Some("dave"), Some("guess")))), Err(0x86));
    let not_text = Credentials { password: Some([0xff, 0xfe].as_slice().into()), ..open(Some("dave"), None) };
    assert_eq!(word(judge(&authenticator, not_text)), Err(0x86));
}

#[test]
fn what_is_made_is_of_who_has_shown_to_be_somebody_or_of_an_address() {
    let whose = |settings: AuthSettings, shown: Credentials| {
        let admitted = judge(&Authenticator::new(settings), shown).unwrap();
        format!("{} {}", admitted.principal, admitted.may_claim)
    };
    let known = || settings(&["dave"], CertificateUsers::Any);
    let with = |names: &[&str]| Credentials { certificate: Some(certificate(names)), ..shown(None, None) };
    assert_eq!(whose(known(), shown(Some("dave"), Some("secret"))), "u:dave true");
    assert_eq!(whose(known(), with(&["dave"])), "u:dave true", "however it comes in");
    assert_eq!(whose(known(), with(&["sensor-1"])), "c:sensor-1 true");
    assert_eq!(whose(known(), shown(None, Some(TOKEN))), "s:dev true");
    let from =
        |address: &str| Credentials { anonymous_allowed: true, address: address.parse().unwrap(), ..shown(None, None) };
    assert_eq!(whose(known(), from("10.1.2.3")), "a:10.1.2.3 false");
    assert_eq!(whose(known(), from("::ffff:10.1.2.3")), "a:10.1.2.3 false");
    assert_eq!(whose(known(), from("2001:db8:1:2:3:4:5:6")), "a:2001:db8:1:2::/64 false");
    let mut shared = known();
    shared.topics.acl.anonymous_sessions = AnonymousSessions::Shared;
    assert_eq!(whose(shared, from("10.1.2.3")), "a:* false");
    let mut nobody = settings(&[], CertificateUsers::Listed);
    nobody.services.clear();
    assert_eq!(whose(nobody, from("10.1.2.3")), "a:10.1.2.3 true", "where nobody can show more");
}

#[test]
fn an_expired_token_is_told_apart() {
    let now = AuthSettings { token_ttl: Duration::ZERO, ..settings(&["dave"], CertificateUsers::Listed) };
    let authenticator = Authenticator::new(now);
    let runtime = tokio::runtime::Builder::new_current_thread().build().unwrap();
    let jwt = runtime.block_on(authenticator.log_in("dave", "secret", HERE)).unwrap().token;
    assert_eq!(word(judge(&authenticator, shown(None, Some(&jwt)))), Err(0x87));
}

#[test]
fn a_certificate_names_its_user() {
    let listed = Authenticator::new(settings(&["dave"], CertificateUsers::Listed));
    let any = Authenticator::new(settings(&["dave"], CertificateUsers::Any));
    let with = |names: &[&str], user_name, password| Credentials {
        certificate: Some(certificate(names)),
        ..shown(user_name, password)
    };
    for (names, user_name, by_listed, by_any) in [
        (&["dave"][..], None, Ok("dave"), Ok("dave")),
        (&["dave"], Some("dave"), Ok("dave"), Ok("dave")),
        (&["dave"], Some("carol"), Err(0x87), Err(0x87)),
        (&["sensor-1"], None, Err(0x87), Ok("sensor-1")),
        (&["sensor-1"], Some("dave"), Err(0x87), Err(0x87)),
        (&[], None, Err(0x87), Err(0x87)),
        (&[""], None, Err(0x87), Err(0x87)),
        (&["a\u{7}b"], None, Err(0x87), Err(0x87)),
    ] {
        assert_eq!(word(judge(&listed, with(names, user_name, None))), by_listed.map(str::to_owned), "{names:?}");
        assert_eq!(word(judge(&any, with(names, user_name, None))), by_any.map(str::to_owned), "{names:?}");
    }
    // A listed user has the same rights by certificate; a stranger has none in the ledger.
    let dave = judge(&any, with(&["dave"], None, None)).unwrap().rights;
    assert_eq!(any.identity(&*dave).unwrap().name(), "dave");
    assert!(any.identity(&*judge(&any, with(&["sensor-1"], None, None)).unwrap().rights).is_none());
    // A password decides where there is one.
    assert_eq!(word(judge(&any, with(&["sensor-1"], Some("dave"), Some("secret")))), Ok("dave".to_owned()));
    assert_eq!(word(judge(&any, with(&["dave"], Some("dave"), Some("guess")))), Err(0x86));
}

#[test]
fn a_flood_of_guesses_is_told_busy_and_waits_for_nobody() {
    let authenticator = Authenticator::new(settings(&["dave"], CertificateUsers::Listed));
    let (sender, receiver) = channel();
    let begin = || {
        let sender = sender.clone();
        let reply = VerdictReply::new(move |verdict| sender.send(verdict).unwrap(), Arc::default());
        authenticator.begin(shown(Some("dave"), Some("guess")), reply)
    };
    let at_once: Vec<Verdict> = (0..20).filter_map(|_| begin()).collect();
    assert!(at_once.len() >= 11, "an address has eight under way: {at_once:?}");
    assert!(at_once.into_iter().all(|verdict| word(verdict) == Err(0x89)));
    drop(sender);
    assert!(receiver.iter().all(|verdict| word(verdict) == Err(0x86)));
}

#[test]
fn clients_of_one_user_share_their_rights_until_a_reload_gives_new_ones() {
    let authenticator = Authenticator::new(settings(&["dave", "carol"], CertificateUsers::Any));
    let rights = |password| judge(&authenticator, password).unwrap().rights;
    let dave = rights(shown(Some("dave"), Some("secret")));
    assert!(Arc::ptr_eq(&dave, &rights(shown(Some("dave"), Some("secret")))));
    let carol = rights(shown(Some("carol"), Some("secret")));
    let service = rights(shown(None, Some(TOKEN)));
    let nobody = rights(Credentials { anonymous_allowed: true, ..shown(None, None) });
    let sensor = rights(Credentials { certificate: Some(certificate(&["sensor"])), ..shown(None, None) });

    let generation = MqttAuthenticator::generation(&authenticator);
    let mut changed = settings(&["dave"], CertificateUsers::Any);
    changed.users[0].rights = Rights::Viewer { wallets: vec!["wallet:other".into()] };
    authenticator.reload(changed);
    assert_ne!(MqttAuthenticator::generation(&authenticator), generation);
    let renewed = authenticator.renew(&*dave).unwrap();
    assert!(Arc::ptr_eq(&renewed, &authenticator.renew(&*dave).unwrap()), "one object for all of a user's clients");
    assert_eq!(renewed.may_subscribe("c1", "$ledger/accounts/wallet:other"), tidegate_broker::Access::Allowed);
    assert!(authenticator.renew(&*carol).is_none(), "she is not in the configuration any more");
    for still_there in [&service, &nobody, &sensor] {
        assert!(authenticator.renew(&**still_there).is_some(), "{still_there:?}");
    }

    authenticator.reload(AuthSettings { services: Vec::new(), ..settings(&["dave"], CertificateUsers::Listed) });
    assert!(authenticator.renew(&*service).is_none() && authenticator.renew(&*sensor).is_none());
}

#[test]
fn a_new_password_takes_the_rights_of_the_old_one_away_and_not_those_of_a_certificate() {
    let authenticator = Authenticator::new(settings(&["dave"], CertificateUsers::Listed));
    let runtime = tokio::runtime::Builder::new_current_thread().build().unwrap();
    let jwt = runtime.block_on(authenticator.log_in("dave", "secret", HERE)).unwrap().token;
    let rights = |shown| judge(&authenticator, shown).unwrap().rights;
    let by_token = rights(shown(None, Some(&jwt)));
    let by_certificate = rights(Credentials { certificate: Some(certificate(&["dave"])), ..shown(None, None) });
    authenticator.reload(settings(&["dave"], CertificateUsers::Listed));
    assert!(authenticator.renew(&*by_token).is_some(), "nothing has changed");
    let mut rotated = settings(&["dave"], CertificateUsers::Listed);
    rotated.users[0].password_hash = crate::auth::hash_password("other");
    authenticator.reload(rotated);
    assert!(authenticator.renew(&*by_token).is_none());
    assert!(authenticator.renew(&*by_certificate).is_some());
}

#[test]
fn a_connection_ends_with_the_token_that_was_shown_unless_the_configuration_says_otherwise() {
    let authenticator = Authenticator::new(settings(&["dave"], CertificateUsers::Listed));
    let runtime = tokio::runtime::Builder::new_current_thread().build().unwrap();
    let issued = runtime.block_on(authenticator.log_in("dave", "secret", HERE)).unwrap();
    let ends_at = |shown| judge(&authenticator, shown).unwrap().ends_at.map(|at| at.0);
    assert_eq!(ends_at(shown(None, Some(&issued.token))), Some(issued.expires_at_s * 1_000));
    assert_eq!(ends_at(shown(None, Some(TOKEN))), None, "a service's token does not expire");
    let kept = AuthSettings { expiry_ends_connections: false, ..settings(&["dave"], CertificateUsers::Listed) };
    authenticator.reload(kept);
    assert_eq!(ends_at(shown(None, Some(&issued.token))), None);
}
