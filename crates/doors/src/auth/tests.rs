//! Tokens, rights and log-ins, without a listener.

use std::net::{IpAddr, Ipv4Addr};
use std::os::unix::fs::PermissionsExt;
use std::time::Duration;

use tidegate_ledger::message::{Request, TransferBatch};
use tidegate_machines::IdSpace;
use tidegate_machines::ledger::{AccountKind, HistoryRow, RowKind, Transfer};

use super::gate::{Verdict, check};
use super::quota::QuotaLimits;
use super::token::{Claims, Signer, password_stamp};
use super::*;

const HERE: IpAddr = IpAddr::V4(Ipv4Addr::LOCALHOST);

/// Settings without users, services and bounds: tests say what they need.
pub(crate) fn nobody() -> AuthSettings {
    AuthSettings {
        users: Vec::new(),
        services: Vec::new(),
        signing_keys: Vec::new(),
        identity_providers: Vec::new(),
        auth_hook: None,
        secret: Secret::from_bytes(&[1; 32]).unwrap(),
        token_ttl: Duration::from_secs(100),
        expiry_ends_connections: true,
        login_limits: LoginLimits::default(),
        topics: TopicAccess::default(),
        viewer_quota: QuotaLimits::NONE,
        service_quota: QuotaLimits::NONE,
        api_grants: Vec::new(),
        api_wallets: Vec::new(),
        strangers: StrangerLimits::NONE,
    }
}

fn settings(hash: &PasswordHash) -> AuthSettings {
    AuthSettings {
        users: vec![UserSettings {
            name: "dave".into(),
            password_hash: hash.clone(),
            rights: Rights::Viewer { wallets: vec!["wallet:dave".into()] },
        }],
        services: vec![ServiceSettings {
            name: "dev".into(),
            token_sha256: service_token_hash("dev-service-token"),
            rights: Rights::Service { grants: vec![Grant::Everything] },
            id_space: IdSpace::default(),
            quota: None,
        }],
        ..nobody()
    }
}

#[test]
fn a_signing_key_is_known_while_its_service_is() {
    let hash = hash_password("dave");
    let key = |access_key: &str, service: &str| SigningKeySettings {
        access_key: access_key.into(),
        secret: SigningSecret::new("dev-service-secret"),
        service: service.into(),
    };
    let signing_keys = vec![key("AKIADEV", "dev"), key("AKIANOBODY", "nobody")];
    assert!(!format!("{signing_keys:?}").contains("dev-service-secret"), "a log does not show the secret");
    let with_keys = AuthSettings { signing_keys, ..settings(&hash) };
    let authenticator = Authenticator::new(with_keys.clone());
    let owner = |key: &str| authenticator.signing_key(key).map(|key| key.identity.name().to_owned());
    assert_eq!((owner("AKIADEV").as_deref(), owner("AKIANOBODY"), owner("dev")), (Some("dev"), None, None));
    authenticator.reload(AuthSettings { services: Vec::new(), ..with_keys.clone() });
    assert_eq!(owner("AKIADEV"), None);
    authenticator.reload(with_keys);
    assert_eq!(owner("AKIADEV").as_deref(), Some("dev"));
    authenticator.reload(AuthSettings { signing_keys: Vec::new(), ..settings(&hash) });
    assert_eq!(owner("AKIADEV"), None);
}

fn block_on<F: Future>(future: F) -> F::Output {
    tokio::runtime::Builder::new_current_thread().build().unwrap().block_on(future)
}

#[test]
fn a_token_is_good_until_it_ends_and_only_as_it_was_signed() {
    let hash = hash_password("dave");
    let authenticator = Authenticator::new(settings(&hash));
    let issued = block_on(authenticator.log_in("dave", "dave", HERE)).unwrap();
    let at = |token: &str, now_s| {
        authenticator.authenticate_at(token, None, now_s).map(|session| session.identity.name().to_owned())
    };
    assert_eq!(at(&issued.token, issued.expires_at_s - 1), Ok("dave".to_owned()));
    assert_eq!(at(&issued.token, issued.expires_at_s), Err(AuthError::Expired));
    // A clock that was ahead of time when it was signed.
    let signed_s = issued.expires_at_s - settings(&hash).token_ttl.as_secs();
    assert_eq!(at(&issued.token, signed_s - 60), Ok("dave".to_owned()), "a clock is put back now and then");
    assert_eq!(at(&issued.token, signed_s - 3_600), Err(AuthError::Invalid));
    assert_eq!(at("dev-service-token", u64::MAX - 1), Ok("dev".to_owned()));
    assert_eq!(at("", 0), Err(AuthError::Missing));
    for position in (0..issued.token.len()).step_by(7) {
        let mut forged = issued.token.clone().into_bytes();
        forged[position] = if forged[position] == b'x' { b'y' } else { b'x' };
        let forged = String::from_utf8(forged).unwrap();
        assert_eq!(at(&forged, signed_s), Err(AuthError::Invalid), "position {position}");
    }
    assert_eq!(at(&"a".repeat(1 << 20), 0), Err(AuthError::Invalid));
    // "alg": "none", the oldest trick.
    let unsigned = format!("eyJhbGciOiJub25lIn0.{}.", issued.token.split('.').nth(1).unwrap());
    assert_eq!(at(&unsigned, signed_s), Err(AuthError::Invalid));
}

#[test]
fn a_new_password_a_new_key_or_a_user_who_is_gone_ends_the_token() {
    let hash = hash_password("dave");
    let token = block_on(Authenticator::new(settings(&hash)).log_in("dave", "dave", HERE)).unwrap().token;
    let rejects = |settings: AuthSettings| {
        let found = Authenticator::new(settings).authenticate(&token).map(|identity| identity.name().to_owned());
        assert_eq!(found, Err(AuthError::Invalid));
    };
    assert!(Authenticator::new(settings(&hash)).authenticate(&token).is_ok());
    rejects(settings(&hash_password("dave")));
    rejects(AuthSettings { users: Vec::new(), ..settings(&hash) });
    rejects(AuthSettings { secret: Secret::from_bytes(&[2; 32]).unwrap(), ..settings(&hash) });
}

#[test]
fn the_cache_forgets_tokens_that_end_and_stays_bounded() {
    let hash = hash_password("dave");
    let authenticator = Authenticator::new(settings(&hash));
    let signer = Signer::new(&Secret::from_bytes(&[1; 32]).unwrap());
    let token = |number: u64| {
        let pwd = password_stamp(&hash);
        signer.sign(&Claims { sub: "dave".to_owned(), iat: number, exp: 1_000, pwd, hook: None })
    };
    let mut cache = TokenCache::new(8);
    for number in 0..100 {
        assert!(cache.authenticate(&authenticator, &token(number), None, 999).is_ok());
    }
    assert!(cache.authenticate(&authenticator, &token(99), None, 999).is_ok());
    assert_eq!(cache.authenticate(&authenticator, &token(99), None, 1_000).unwrap_err(), AuthError::Expired);
    // The clock was ahead, and is put right.
    assert!(cache.authenticate(&authenticator, &token(900), None, 950).is_ok());
    assert_eq!(cache.known(&authenticator, &token(900), 500).map(|_| ()), None);
    assert_eq!(cache.authenticate(&authenticator, &token(900), None, 500).unwrap_err(), AuthError::Invalid);
    assert_eq!(cache.authenticate(&authenticator, "wrong", None, 999).unwrap_err(), AuthError::Invalid);
}

#[test]
fn log_ins_beyond_the_queue_are_refused_at_once() {
    let hash = hash_password("dave");
    let login_limits = LoginLimits { waiting_max: 1, ..LoginLimits::default() };
    let authenticator = Authenticator::new(AuthSettings { login_limits, ..settings(&hash) });
    let answers = block_on(async {
        let mut attempts = tokio::task::JoinSet::new();
        let authenticator = std::sync::Arc::new(authenticator);
        for _ in 0..10 {
            let authenticator = authenticator.clone();
            attempts.spawn(async move { authenticator.log_in("dave", "wrong", HERE).await.unwrap_err() });
        }
        attempts.join_all().await
    });
    let busy = answers.iter().filter(|answer| **answer == LoginError::Busy).count();
    // One is worked on at most, one waits; the worker may have done one before the others came.
    assert!((8..=9).contains(&busy), "{answers:?}");
}

#[test]
fn nothing_is_hashed_for_a_request_that_is_given_up() {
    let hash = hash_password("dave");
    let authenticator = Authenticator::new(settings(&hash));
    let mut waited = Vec::new();
    for _ in 0..8 {
        let mut log_in = Box::pin(authenticator.log_in("dave", "wrong", HERE));
        let polled = log_in.as_mut().poll(&mut std::task::Context::from_waker(std::task::Waker::noop()));
        assert!(polled.is_pending());
        waited.push(log_in);
    }
    // One may be worked on; the rest is dropped, and does not count as wrong passwords of this address.
    drop(waited);
    let elsewhere = IpAddr::from([10, 0, 0, 1]);
    assert!(block_on(authenticator.log_in("dave", "dave", elsewhere)).is_ok());
    for _ in 0..LoginLimits::default().wrong_max - 2 {
        let wrong = block_on(authenticator.log_in("dave", "wrong", HERE)).unwrap_err();
        assert_eq!(wrong, LoginError::Wrong);
    }
    assert!(block_on(authenticator.log_in("dave", "dave", HERE)).is_ok(), "the address need not wait");
}

#[test]
fn hashes_are_salted_and_costly_ones_refused() {
    let (one, other) = (hash_password("dave"), hash_password("dave"));
    assert_ne!(one, other);
    assert!(one.verify("dave") && other.verify("dave") && !one.verify("Dave") && !one.verify(""));
    assert!(!one.verify(&"d".repeat(1 << 20)));
    for text in ["", "dave", "$2b$12$abcdefghijklmnopqrstuv", &one.as_str().replace("argon2id", "argon2i")] {
        assert_eq!(PasswordHash::parse(text), Err(PasswordHashError::NotArgon2id), "{text}");
    }
    let costly = one.as_str().replace("m=19456", "m=4000000");
    assert!(matches!(PasswordHash::parse(&costly), Err(PasswordHashError::TooCostly { .. })));
}

#[test]
fn the_secret_is_made_once_and_only_its_owner_reads_it() {
    let folder = std::env::temp_dir().join(format!("tidegate-secret-{}", std::process::id()));
    std::fs::create_dir_all(&folder).unwrap();
    let path = folder.join("jwt.key");
    let made = Secret::load_or_create(&path).unwrap();
    assert_eq!(std::fs::metadata(&path).unwrap().permissions().mode() & 0o777, 0o600);
    assert_eq!(Secret::load_or_create(&path).unwrap(), made);
    assert_eq!(std::fs::read_dir(&folder).unwrap().count(), 1, "no draft is left");
    assert!(!format!("{made:?}").contains(std::str::from_utf8(made.bytes()).unwrap()));
    std::fs::write(&path, "short").unwrap();
    assert!(Secret::load_or_create(&path).unwrap_err().to_string().contains("5 bytes are too few"));
    std::fs::remove_dir_all(&folder).unwrap();
}

#[test]
fn kinds_are_asked_for_once_and_each_account_once() {
    let viewer = Identity::new("dave", Rights::Viewer { wallets: vec!["wallet:dave".into()] });
    let mut kinds = AccountKinds::new(100);
    let vote =
        |credit| Transfer { id: "a", debit: "wallet:dave", credit, amount: 1, memo: "", label: Default::default() };
    let batch = TransferBatch::copy_of([vote("candidate:1"), vote("candidate:1"), vote("candidate:2")]);
    let request = Request::Transfers { linked: false, batch };
    let expected = Verdict::NeedsKinds(vec!["candidate:1".into(), "candidate:2".into()]);
    assert_eq!(check(&viewer, &request, &mut kinds), expected);
    kinds.learn("candidate:1", AccountKind::Collector);
    assert_eq!(check(&viewer, &request, &mut kinds), Verdict::NeedsKinds(vec!["candidate:2".into()]));
    kinds.learn("candidate:2", AccountKind::Collector);
    assert_eq!(check(&viewer, &request, &mut kinds), Verdict::Allowed);
    let request = Request::ReadAccount { id: "wallet:carol".into() };
    kinds.learn("wallet:carol", AccountKind::Wallet);
    let unknown = Verdict::NeedsKinds(vec!["wallet:carol".into()]);
    assert_eq!(check(&viewer, &request, &mut kinds), unknown, "only collectors are remembered");
}

#[test]
fn rows_of_others_say_when_and_how_much_and_nothing_else() {
    let row = |id_space: &str, debit: &str| HistoryRow {
        id: "a".into(),
        id_space: id_space.into(),
        kind: RowKind::Transfer,
        debit: debit.into(),
        credit: "candidate:1".into(),
        amount: 5,
        memo: "memo".into(),
        code: 7,
        user_data: "data".into(),
        time_ms: 9,
        balance_after: 11,
    };
    let rows = [row("carol", "wallet:carol"), row("dave", "wallet:carol"), row("", "wallet:dave")];
    let viewer = Identity::new("dave", Rights::Viewer { wallets: vec!["wallet:dave".into()] });
    let mut shown = rows.clone();
    gate::hide_others(&viewer, &mut shown);
    assert_eq!(shown[1..], rows[1..], "of the own space, and of the own wallet");
    let [hidden, ..] = &shown;
    assert_eq!((&*hidden.id, &*hidden.id_space, &*hidden.debit), ("", "", ""));
    assert_eq!((&*hidden.memo, hidden.code, &*hidden.user_data), ("", 0, ""));
    assert_eq!((hidden.amount, hidden.time_ms, hidden.balance_after), (5, 9, 11));
    let mut shown = rows.clone();
    let grants = vec!["read:candidate:*".parse().unwrap()];
    gate::hide_others(&Identity::new("shop", Rights::Service { grants }), &mut shown);
    assert_eq!(shown, rows);
}

#[test]
fn a_reload_ends_the_tokens_of_who_is_gone_also_those_in_a_cache() {
    let hash = hash_password("dave");
    let authenticator = Authenticator::new(settings(&hash));
    let token = block_on(authenticator.log_in("dave", "dave", HERE)).unwrap().token;
    let mut cache = TokenCache::new(8);
    assert!(cache.authenticate(&authenticator, &token, None, now_s()).is_ok());
    authenticator.reload(settings(&hash));
    assert!(cache.authenticate(&authenticator, &token, None, now_s()).is_ok(), "who stays stays");
    authenticator.reload(AuthSettings { users: Vec::new(), ..settings(&hash) });
    assert_eq!(cache.authenticate(&authenticator, &token, None, now_s()).unwrap_err(), AuthError::Invalid);
    assert_eq!(block_on(authenticator.log_in("dave", "dave", HERE)).unwrap_err(), LoginError::Wrong);
}

#[test]
fn connections_of_one_name_are_one_caller_and_a_viewer_is_no_service() {
    let viewer = || Rights::Viewer { wallets: vec!["wallet:dave".into()] };
    let caller = |name: &str, rights| Identity::new(name, rights).asks(Request::ReadAudit).caller;
    let service = || Rights::Service { grants: Vec::new() };
    assert_eq!(caller("dave", viewer()), caller("dave", viewer()));
    assert_ne!(caller("dave", viewer()), caller("dave", service()));
    assert_ne!(caller("dave", service()), caller("erin", service()));
}
