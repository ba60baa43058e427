//! Log-ins that a hook decides on, without a hook: the test takes the questions and says what comes back.

use std::net::IpAddr;
use std::time::Duration;

use super::*;
use crate::auth::provider::ProvidedRole;
use crate::auth::tests::nobody;
use crate::auth::{AuthError, AuthSettings, Authenticator, Grant, LoginLimits, UserSettings, hash_password};

const HERE: IpAddr = IpAddr::V4(std::net::Ipv4Addr::LOCALHOST);

fn hook() -> HookSettings {
    HookSettings {
        name: "hook".into(),
        url: "http://127.0.0.1:9/".into(),
        secret: ("X-Secret".into(), HookSecret::new("0123456789abcdef")),
        timeout: Duration::from_secs(2),
        asked_max: 4,
        waiting_max: 60,
        role: ProvidedRole::Viewer,
        wallets: vec!["wallet:hook:{user}".parse().unwrap()],
        grants: Vec::new(),
        open_wallets_in: None,
        allowed: Duration::from_secs(60),
        denied: Duration::from_secs(5),
        remembered_max: 1_000,
        retry_max: Duration::from_secs(10),
    }
}

fn settings(hook: HookSettings) -> AuthSettings {
    AuthSettings {
        users: vec![UserSettings {
            name: "dave".into(),
            password_hash: hash_password("dave"),
            rights: Rights::Viewer { wallets: vec!["wallet:dave".into()] },
        }],
        auth_hook: Some(Arc::new(hook)),
        token_ttl: Duration::from_secs(1_000),
        ..nobody()
    }
}

/// An authenticator whose questions the test answers.
struct Asked {
    by: Authenticator,
    questions: mpsc::Receiver<HookQuestion>,
}

impl Asked {
    fn new(hook: HookSettings) -> Asked {
        let by = Authenticator::new(settings(hook));
        let questions = by.hook_questions().unwrap();
        assert!(by.hook_questions().is_none(), "there is one who asks");
        Asked { by, questions }
    }

    /// Logs in; the hook says `says`, if it is asked. `Ok` with the user's name and rights.
    fn log_in(&mut self, user: &str, password: &str, says: Option<&str>) -> Result<Identity, LoginError> {
        let runtime = tokio::runtime::Builder::new_current_thread().build().unwrap();
        let Asked { by, questions } = self;
        let issued = runtime.block_on(async {
            let answer = async {
                let question = questions.recv().await.expect("the authenticator is there");
                question.give(says.map(|text| HookAnswer::read(text.as_bytes())));
                std::future::pending::<()>().await;
            };
            tokio::select! {
                biased;
                issued = by.log_in(user, password, HERE) => issued,
                () = answer => unreachable!(),
            }
        })?;
        Ok(by.authenticate(&issued.token).expect("the token is good"))
    }
}

const ALLOW: &str = r#"{"result":"allow"}"#;
const DENY: &str = r#"{"result":"deny"}"#;

#[test]
fn what_the_hook_says_is_what_a_user_may() {
    let mut asked = Asked::new(hook());
    let anna = asked.log_in("anna", "right", Some(ALLOW)).unwrap();
    assert_eq!((anna.name(), anna.id_space().name()), ("hook:anna", "hook:anna"));
    assert_eq!(*anna.rights(), Rights::Viewer { wallets: vec!["wallet:hook:anna".into()] });
    let both = r#"{"result":"allow","wallets":["a","b"],"role":"viewer"}"#;
    let ben = asked.log_in("ben", "right", Some(both)).unwrap();
    assert_eq!(*ben.rights(), Rights::Viewer { wallets: vec!["a".into(), "b".into()] });
    let service = r#"{"result":"allow","role":"service","grants":["audit","sys"]}"#;
    let cara = asked.log_in("cara", "right", Some(service)).unwrap();
    assert_eq!(*cara.rights(), Rights::Service { grants: vec![Grant::Audit, Grant::Sys] });
    assert_eq!(cara.id_space().name(), "hook:cara", "also of a service: others' ids are not its own");
}

#[test]
fn what_cannot_be_followed_lets_nobody_in() {
    for (user, says) in [
        ("a", r#"{"result":"allow","wallets":["wallet:dave"]}"#),
        ("b", r#"{"result":"allow","wallets":["no/account"]}"#),
        ("c", r#"{"result":"allow","role":"service","grants":["everything"]}"#),
        ("d", r#"{"result":"allow","expires_at":1000}"#),
        ("with:colon", ALLOW),
        ("e", DENY),
        ("f", r#"{"result":"ignore"}"#),
    ] {
        let mut asked = Asked::new(hook());
        assert_eq!(asked.log_in(user, "right", Some(says)).unwrap_err(), LoginError::Wrong, "{user}");
    }
    for name in ["", "a/b", "a+b", "#", "a\u{1}", &"x".repeat(65)] {
        // The hook would not be asked: nothing would answer.
        assert_eq!(Asked::new(hook()).log_in(name, "right", None).unwrap_err(), LoginError::Wrong, "{name:?}");
    }
    let misspelt = [r#"{"result":"allow","expire_at":9}"#, r#"{"result":"allow","walets":[]}"#];
    let wrong = ["", "[]", "{}", r#"{"result":"yes"}"#, r#"{"result":"allow","role":"admin"}"#];
    for text in wrong.into_iter().chain(misspelt) {
        assert!(matches!(HookAnswer::read(text.as_bytes()).decide(0), Err(Unusable::Unreadable(_))), "{text}");
    }
}

#[test]
fn an_answer_that_cannot_be_read_refuses_that_user_only() {
    let many: Vec<String> = (0..400).map(|n| format!("\"wallet:hook:{n}\"")).collect();
    let long = format!(r#"{{"result":"allow","wallets":[{}]}}"#, many.join(","));
    for says in
        [r#"{"result":"allow","role":"admin"}"#, r#"{"result":"allow","expires_at":-1}"#, &long, "<html>", "", "{"]
    {
        let mut asked = Asked::new(HookSettings { denied: Duration::ZERO, ..hook() });
        for _ in 0..20 {
            assert_eq!(asked.log_in("anna", "right", Some(says)).unwrap_err(), LoginError::Wrong, "{says}");
        }
        asked.log_in("ben", "right", Some(ALLOW)).expect("the hook is not left alone, and the address need not wait");
    }
    let too_long = HookAnswer::too_long().decide(0).unwrap_err().to_string();
    assert_eq!(too_long, "it is longer than 4096 bytes");
    let quoted = HookAnswer::read(format!(r#"{{"result":"{}"}}"#, "x".repeat(4_000)).as_bytes()).decide(0);
    assert!(quoted.unwrap_err().to_string().len() < 300, "a line of the log stays short");
}

#[test]
fn answers_that_cannot_be_followed_are_told_once_a_second() {
    let mut faults = Faults::default();
    let told: Vec<_> = [0, 1, 999, 1_000, 1_500, 9_000].into_iter().map(|now_ms| faults.told_after(now_ms)).collect();
    assert_eq!(told, [Some(0), None, None, Some(2), None, Some(1)]);
}

#[test]
fn what_is_remembered_is_not_asked_again() {
    let mut asked = Asked::new(hook());
    asked.log_in("anna", "right", Some(ALLOW)).unwrap();
    // An answer of now would deny; nobody is asked.
    asked.log_in("anna", "right", Some(DENY)).unwrap();
    assert_eq!(asked.log_in("anna", "wrong", Some(DENY)).unwrap_err(), LoginError::Wrong);
    assert_eq!(asked.log_in("anna", "wrong", Some(ALLOW)).unwrap_err(), LoginError::Wrong, "remembered");
    assert!(asked.log_in("ben", "right", Some(DENY)).is_err(), "another user's");
    let mut never = Asked::new(HookSettings { allowed: Duration::ZERO, denied: Duration::ZERO, ..hook() });
    never.log_in("anna", "right", Some(ALLOW)).unwrap();
    assert!(never.log_in("anna", "right", Some(DENY)).is_err(), "asked again");
    never.log_in("anna", "right", Some(ALLOW)).unwrap();
}

#[test]
fn a_hook_that_is_down_refuses_whoever_is_not_remembered() {
    let mut asked = Asked::new(hook());
    asked.log_in("anna", "right", Some(ALLOW)).unwrap();
    for _ in 0..5 {
        assert!(matches!(asked.log_in("ben", "right", None), Err(LoginError::Unavailable { .. })));
    }
    // Now it is left alone.
    assert!(matches!(asked.log_in("ben", "right", Some(ALLOW)), Err(LoginError::Unavailable { .. })));
    assert!(asked.questions.try_recv().is_err(), "nothing was asked");
    asked.log_in("anna", "right", None).unwrap();
    let totals: Vec<_> = asked.by.hook_figures().totals().into_iter().filter(|(_, count)| *count > 0).collect();
    assert_eq!(totals, [("allowed", 1), ("cached_allowed", 1), ("unavailable", 6)]);
}

#[test]
fn denials_make_an_address_wait_and_failures_do_not() {
    let mut asked = Asked::new(hook());
    let wrong_max = LoginLimits::default().wrong_max;
    for number in 0..=wrong_max {
        assert_eq!(asked.log_in(&format!("u{number}"), "x", Some(DENY)).unwrap_err(), LoginError::Wrong);
    }
    assert!(matches!(asked.log_in("anna", "right", Some(ALLOW)), Err(LoginError::Later { .. })));
    let mut down = Asked::new(hook());
    for _ in 0..2 * wrong_max {
        assert!(matches!(down.log_in("anna", "right", None), Err(LoginError::Unavailable { .. })));
    }
}

#[test]
fn other_settings_end_what_these_have_given() {
    let mut asked = Asked::new(hook());
    asked.log_in("anna", "right", Some(ALLOW)).unwrap();
    let runtime = tokio::runtime::Builder::new_current_thread().build().unwrap();
    let token = runtime.block_on(asked.by.log_in("anna", "right", HERE)).unwrap().token;
    let secret = ("X-Secret".into(), HookSecret::new("another secret of the same"));
    asked.by.reload(settings(HookSettings { secret, timeout: Duration::from_secs(9), ..hook() }));
    assert!(asked.by.authenticate(&token).is_ok(), "a secret and a time say nothing of rights");
    let again = Authenticator::new(settings(hook()));
    assert_eq!(again.authenticate(&token).unwrap().name(), "hook:anna", "after a restart");
    asked.by.reload(settings(HookSettings { wallets: Vec::new(), ..hook() }));
    assert_eq!(asked.by.authenticate(&token).unwrap_err(), AuthError::Invalid);
    asked.by.reload(AuthSettings { auth_hook: None, ..settings(hook()) });
    assert_eq!(asked.by.authenticate(&token).unwrap_err(), AuthError::Invalid);
    assert_eq!(runtime.block_on(asked.by.log_in("anna", "right", HERE)).unwrap_err(), LoginError::Wrong);
}

#[test]
fn a_log_in_during_a_reload_is_decided_by_what_is_new() {
    let service = HookSettings { role: ProvidedRole::Service, wallets: Vec::new(), ..hook() };
    let elsewhere = HookSettings { url: "http://127.0.0.1:10/".into(), ..hook() };
    // Between a question and its answer come these settings, one after the other.
    let log_in = |reloads: Vec<Option<HookSettings>>| {
        let Asked { by, mut questions } = Asked::new(hook());
        let runtime = tokio::runtime::Builder::new_current_thread().build().unwrap();
        let issued = runtime.block_on(async {
            let answers = async {
                let mut reloads = reloads.into_iter();
                loop {
                    let question = questions.recv().await.expect("the authenticator is there");
                    if let Some(to) = reloads.next() {
                        by.reload(AuthSettings { auth_hook: to.map(Arc::new), ..settings(hook()) });
                    }
                    question.give(Some(HookAnswer::read(ALLOW.as_bytes())));
                }
            };
            tokio::select! {
                biased;
                issued = by.log_in("anna", "right", HERE) => issued,
                () = answers => unreachable!(),
            }
        })?;
        Ok(by.authenticate(&issued.token).expect("the token is good").rights().clone())
    };
    assert_eq!(log_in(vec![Some(service.clone())]), Ok(Rights::Service { grants: Vec::new() }), "the new role");
    assert_eq!(log_in(vec![None]), Err(LoginError::Wrong), "nobody knows the user any more");
    let changed = log_in(vec![Some(service), Some(elsewhere)]).unwrap_err();
    assert_eq!(changed.to_string(), "what decides on log-ins of this user was changed while it was asked; try again");
}

#[test]
fn the_longest_answer_makes_a_token_that_is_taken() {
    let grants: Vec<String> = (0..64).map(|n| format!("\"read:{n:048}\"")).collect();
    let says = format!(r#"{{"result":"allow","role":"service","grants":[{}]}}"#, grants.join(","));
    assert!(says.len() > HOOK_ANSWER_BYTES_MAX - 500 && says.len() <= HOOK_ANSWER_BYTES_MAX, "{}", says.len());
    assert!(Asked::new(hook()).log_in(&"u".repeat(59), "right", Some(&says)).is_ok());
}
