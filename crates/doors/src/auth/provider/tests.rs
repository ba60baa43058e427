//! Tokens of a provider, without a network: each way in which one is no good.

use base64::Engine;
use base64::engine::general_purpose::{STANDARD, URL_SAFE_NO_PAD};
use jsonwebtoken::{Algorithm, EncodingKey, Header};
use ring::rsa::PublicKeyComponents;
use ring::signature::{
    ECDSA_P256_SHA256_FIXED_SIGNING, EcdsaKeyPair, Ed25519KeyPair, KeyPair, RSA_PKCS1_SHA256, RsaKeyPair,
};
use serde_json::{Value, json};
use tidegate_ledger::message::{Reply, Request, Unavailable};
use tidegate_machines::ledger::{AccountKind, Refusal};

use super::*;
use crate::auth::clients::MqttAuthenticator;
use crate::auth::quota::QuotaLimits;
use crate::auth::quota::Rate;
use crate::auth::tests::nobody;
use crate::auth::{AuthError, AuthSettings, Authenticator, Grant, StrangerLimits};
use crate::authorized::AuthorizedRequests;

/// Made for these tests, and good for nothing else.
const RSA_KEY: &str = include_str!("tests/rsa.pem");

const NOW_S: u64 = 1_800_000_000;

fn base64url(bytes: impl AsRef<[u8]>) -> String {
    URL_SAFE_NO_PAD.encode(bytes)
}

fn rsa_pair() -> RsaKeyPair {
    let pem = RSA_KEY.lines().filter(|line| !line.starts_with('-')).collect::<String>();
    RsaKeyPair::from_der(&STANDARD.decode(pem).unwrap()).unwrap()
}

fn rsa_modulus() -> String {
    let components: PublicKeyComponents<Vec<u8>> = rsa_pair().public().into();
    base64url(components.n)
}

/// A provider's key pair.
enum Pair {
    Rsa,
    P256(EcdsaKeyPair),
    Ed25519(Ed25519KeyPair),
}

impl Pair {
    fn p256() -> Pair {
        let random = ring::rand::SystemRandom::new();
        let pkcs8 = EcdsaKeyPair::generate_pkcs8(&ECDSA_P256_SHA256_FIXED_SIGNING, &random).unwrap();
        Pair::P256(EcdsaKeyPair::from_pkcs8(&ECDSA_P256_SHA256_FIXED_SIGNING, pkcs8.as_ref(), &random).unwrap())
    }

    fn ed25519() -> Pair {
        let pkcs8 = Ed25519KeyPair::generate_pkcs8(&ring::rand::SystemRandom::new()).unwrap();
        Pair::Ed25519(Ed25519KeyPair::from_pkcs8(pkcs8.as_ref()).unwrap())
    }

    fn name(&self) -> &'static str {
        match self {
            Pair::Rsa => "RS256",
            Pair::P256(_) => "ES256",
            Pair::Ed25519(_) => "EdDSA",
        }
    }

    fn jwk(&self, kid: &str) -> Value {
        let mut jwk = match self {
            Pair::Rsa => json!({"kty": "RSA", "n": rsa_modulus(), "e": "AQAB"}),
            Pair::P256(pair) => {
                let (x, y) = pair.public_key().as_ref()[1..].split_at(32);
                json!({"kty": "EC", "crv": "P-256", "x": base64url(x), "y": base64url(y)})
            }
            Pair::Ed25519(pair) => json!({"kty": "OKP", "crv": "Ed25519", "x": base64url(pair.public_key())}),
        };
        jwk["kid"] = kid.into();
        jwk["use"] = "sig".into();
        jwk
    }

    fn sign(&self, header: &Value, claims: &Value) -> String {
        let message = format!("{}.{}", base64url(header.to_string()), base64url(claims.to_string()));
        let signature = match self {
            Pair::Rsa => {
                let pair = rsa_pair();
                let mut signature = vec![0; pair.public().modulus_len()];
                let random = ring::rand::SystemRandom::new();
                pair.sign(&RSA_PKCS1_SHA256, &random, message.as_bytes(), &mut signature).unwrap();
                signature
            }
            Pair::P256(pair) => {
                pair.sign(&ring::rand::SystemRandom::new(), message.as_bytes()).unwrap().as_ref().to_vec()
            }
            Pair::Ed25519(pair) => pair.sign(message.as_bytes()).as_ref().to_vec(),
        };
        format!("{message}.{}", base64url(signature))
    }

    /// A token of `claims` by the key `kid`.
    fn token(&self, kid: &str, claims: &Value) -> String {
        self.sign(&json!({"alg": self.name(), "kid": kid, "typ": "JWT"}), claims)
    }
}

fn claims() -> Value {
    json!({"iss": "https://id.example", "aud": ["others", "tidegate"], "sub": "42", "exp": NOW_S + 60, "team": "red"})
}

fn with(name: &str, value: impl Into<Value>) -> Value {
    let mut claims = claims();
    claims[name] = value.into();
    claims
}

fn without(name: &str) -> Value {
    let mut claims = claims();
    claims.as_object_mut().unwrap().remove(name);
    claims
}

fn provider() -> ProviderSettings {
    ProviderSettings {
        name: "show".into(),
        issuer: "https://id.example".into(),
        audience: vec!["tidegate".into()],
        keys: KeySource::Url("https://id.example/keys".into()),
        algorithms: vec![TokenAlgorithm::Rs256, TokenAlgorithm::Es256, TokenAlgorithm::EdDsa],
        user_claim: "sub".into(),
        role: Some(ProvidedRole::Viewer),
        role_claim: Some("realm_access.roles".into()),
        wallets: vec!["wallet:show:{sub}".parse().unwrap()],
        grants: vec!["metrics".parse().unwrap()],
        grants_claim: Some("grants".into()),
        open_wallets_in: Some("credit".into()),
        leeway_s: 30,
        refresh: std::time::Duration::from_secs(300),
        refresh_least: std::time::Duration::from_secs(30),
        kept: std::time::Duration::from_secs(86_400),
        timeout: std::time::Duration::from_secs(5),
    }
}

fn settings(provider: ProviderSettings, requests: Rate) -> AuthSettings {
    AuthSettings {
        identity_providers: vec![Arc::new(provider)],
        viewer_quota: QuotaLimits { in_flight_max: 3, ..QuotaLimits::NONE },
        strangers: StrangerLimits { requests, ..StrangerLimits::NONE },
        ..nobody()
    }
}

fn authenticator() -> Authenticator {
    Authenticator::new(settings(provider(), Rate::default()))
}

fn set_keys(authenticator: &Authenticator, keys: &[Value]) {
    let text = json!({"keys": keys}).to_string();
    let of_provider = &authenticator.provider_keys()[0];
    let keys = Jwks::parse(text.as_bytes(), &of_provider.settings.algorithms).unwrap();
    authenticator.replace_keys(of_provider, keys);
}

fn shown(authenticator: &Authenticator, token: &str) -> Result<Identity, AuthError> {
    authenticator.authenticate_at(token, None, NOW_S).map(|session| session.identity)
}

fn refused(authenticator: &Authenticator, token: &str) -> Refused {
    match shown(authenticator, token) {
        Err(AuthError::Refused(refused)) => refused,
        other => panic!("{other:?}"),
    }
}

#[test]
fn a_token_of_each_algorithm_is_good_and_only_as_it_was_signed() {
    for pair in [Pair::Rsa, Pair::p256(), Pair::ed25519()] {
        let authenticator = authenticator();
        set_keys(&authenticator, &[pair.jwk("k")]);
        let token = pair.token("k", &claims());
        let identity = shown(&authenticator, &token).unwrap();
        assert_eq!((identity.name(), identity.id_space().name()), ("show:42", "show:42"));
        assert_eq!(*identity.rights(), Rights::Viewer { wallets: vec!["wallet:show:42".into()] });
        let session = authenticator.authenticate_at(&token, None, NOW_S).unwrap();
        assert_eq!(session.expires_at_s, NOW_S + 90, "with the leeway");
        let (head, signature) = token.rsplit_once('.').unwrap();
        for forged in [
            pair.token("k", &with("sub", "43")).rsplit_once('.').unwrap().0.to_owned() + "." + signature,
            format!("{head}."),
            format!("{head}.{}", base64url([0; 64])),
            format!("{head}.{}", base64url([0; 256])),
        ] {
            assert_eq!(refused(&authenticator, &forged), Refused::Signature, "{}", pair.name());
        }
    }
}

#[test]
fn a_token_cannot_choose_how_it_is_verified() {
    let (pair, authenticator) = (Pair::p256(), authenticator());
    set_keys(&authenticator, &[Pair::Rsa.jwk("rsa"), pair.jwk("ec")]);
    let with_header = |header: Value| pair.sign(&header, &claims());
    for algorithm in ["none", "None", "HS256", "HS512", "RS384", "PS256", "ES384", ""] {
        let token = with_header(json!({"alg": algorithm, "kid": "ec"}));
        assert_eq!(refused(&authenticator, &token), Refused::Algorithm, "{algorithm}");
    }
    // The public key taken for a secret: the oldest confusion.
    let secret = EncodingKey::from_secret(rsa_modulus().as_bytes());
    let header = Header { kid: Some("rsa".into()), ..Header::new(Algorithm::HS256) };
    let confused = jsonwebtoken::encode(&header, &claims(), &secret).unwrap();
    assert_eq!(refused(&authenticator, &confused), Refused::Algorithm);
    // The other's key.
    assert_eq!(refused(&authenticator, &with_header(json!({"alg": "ES256", "kid": "rsa"}))), Refused::KeyUnknown);
    assert_eq!(refused(&authenticator, &with_header(json!({"alg": "RS256", "kid": "rsa"}))), Refused::Signature);
    for header in [
        json!({"alg": "ES256", "kid": "ec", "crit": ["b64"], "b64": false}),
        json!({"alg": "ES256", "kid": "ec", "typ": "logout+jwt"}),
    ] {
        assert_eq!(refused(&authenticator, &with_header(header)), Refused::Header);
    }
    // What the key itself carries is not looked at.
    let stranger = Pair::p256();
    let carried = stranger.sign(&json!({"alg": "ES256", "kid": "ec", "jwk": stranger.jwk("ec")}), &claims());
    assert_eq!(refused(&authenticator, &carried), Refused::Signature);
    // Without a name, the only key of the algorithm.
    assert!(shown(&authenticator, &with_header(json!({"alg": "ES256"}))).is_ok());
    set_keys(&authenticator, &[stranger.jwk("other"), pair.jwk("ec")]);
    let unnamed = pair.sign(&json!({"alg": "ES256"}), &with("jti", "2"));
    assert_eq!(refused(&authenticator, &unnamed), Refused::KeyUnnamed);
    let only_rs256 = ProviderSettings { algorithms: vec![TokenAlgorithm::Rs256], ..provider() };
    let strict = Authenticator::new(settings(only_rs256, Rate::default()));
    set_keys(&strict, &[Pair::Rsa.jwk("rsa"), pair.jwk("ec")]);
    assert_eq!(refused(&strict, &pair.token("ec", &claims())), Refused::Algorithm);
}

#[test]
fn claims_must_be_there_and_of_their_form() {
    let (pair, authenticator) = (Pair::ed25519(), authenticator());
    set_keys(&authenticator, &[pair.jwk("k")]);
    let of = |claims: &Value| refused(&authenticator, &pair.token("k", claims));
    assert_eq!(of(&with("iss", "https://other.example")), Refused::Issuer);
    assert_eq!(of(&with("iss", "https://id.example/")), Refused::Issuer);
    for (claims, reason) in [
        (with("aud", "others"), Refused::Audience),
        (with("aud", json!([])), Refused::Audience),
        (without("aud"), Refused::Audience),
        (without("exp"), Refused::Times),
        (with("exp", "soon"), Refused::Times),
        (with("exp", NOW_S - 30), Refused::Expired),
        (with("nbf", NOW_S + 31), Refused::NotYet),
        (with("nbf", -1), Refused::Times),
        (without("sub"), Refused::ClaimMissing("sub".into())),
        (with("sub", Value::Null), Refused::ClaimMissing("sub".into())),
        (with("sub", json!(["42"])), Refused::ClaimType("sub".into())),
        (with("sub", true), Refused::ClaimType("sub".into())),
        (with("sub", ""), Refused::ClaimForm("sub".into())),
        (with("sub", "a/b"), Refused::ClaimForm("sub".into())),
        (with("sub", "*"), Refused::ClaimForm("sub".into())),
        (with("sub", "+"), Refused::ClaimForm("sub".into())),
        (with("sub", "a#"), Refused::ClaimForm("sub".into())),
        (with("sub", "$SYS"), Refused::ClaimForm("sub".into())),
        (with("sub", "%c"), Refused::ClaimForm("sub".into())),
        (with("sub", "{a}"), Refused::ClaimForm("sub".into())),
        (with("sub", "a\u{1f}b"), Refused::ClaimForm("sub".into())),
        (with("sub", "a\u{200b}"), Refused::ClaimForm("sub".into())),
        (with("sub", " a"), Refused::ClaimForm("sub".into())),
        (with("sub", "x".repeat(60)), Refused::ClaimForm("sub".into())),
        // As a name it would do. As a part of an id, it could be of another template.
        (with("sub", "bonus:42"), Refused::ClaimForm("sub".into())),
    ] {
        assert_eq!(of(&claims), reason, "{claims}");
    }
    for good in [with("exp", NOW_S - 29), with("nbf", NOW_S + 30), with("aud", "tidegate"), with("sub", 42)] {
        let identity = shown(&authenticator, &pair.token("k", &good)).unwrap_or_else(|error| panic!("{good}: {error}"));
        assert_eq!(identity.name(), "show:42");
    }
    // As they come with many groups.
    assert_eq!(of(&with("groups", "g".repeat(5_000))), Refused::TooLong);
    assert_eq!(refused(&authenticator, &"a".repeat(1 << 20)), Refused::TooLong);
    let said = Refused::TooLong.to_string();
    assert!(said.contains("more than 6144 bytes") && said.contains("fewer claims"), "{said}");
    assert_eq!(shown(&authenticator, "a.b.c").unwrap_err(), AuthError::Invalid);
}

#[test]
fn a_claim_names_the_role_and_grants() {
    let pair = Pair::ed25519();
    let strict = ProviderSettings { role: None, ..provider() };
    let (authenticator, strict) = (authenticator(), Authenticator::new(settings(strict, Rate::default())));
    set_keys(&authenticator, &[pair.jwk("k")]);
    set_keys(&strict, &[pair.jwk("k")]);
    let roles = |roles: Value| with("realm_access", json!({"roles": roles}));
    let rights = |claims: &Value| shown(&authenticator, &pair.token("k", claims)).unwrap().rights().clone();
    let service = Rights::Service { grants: vec![Grant::Metrics] };
    assert_eq!(rights(&roles(json!(["offline_access", "service", "viewer"]))), service);
    assert!(matches!(rights(&roles(json!(["viewer"]))), Rights::Viewer { .. }));
    assert!(matches!(rights(&roles(json!(["admin"]))), Rights::Viewer { .. }), "the role of the configuration");
    let refused_role = Refused::Role("realm_access.roles".into());
    assert_eq!(refused(&strict, &pair.token("k", &roles(json!(["admin"])))), refused_role);
    assert_eq!(refused(&strict, &pair.token("k", &claims())), refused_role);
    let mut more = roles(json!("service"));
    more["grants"] = json!(["audit"]);
    assert_eq!(rights(&more), Rights::Service { grants: vec![Grant::Metrics, Grant::Audit] });
    more["grants"] = json!(["auditor"]);
    assert_eq!(refused(&authenticator, &pair.token("k", &more)), Refused::Grant("grants".into()));
    more["grants"] = json!(vec!["audit"; 65]);
    assert_eq!(refused(&authenticator, &pair.token("k", &more)), Refused::Grant("grants".into()));
}

#[test]
fn keys_rotate_and_what_a_gone_key_has_signed_ends() {
    let (old, new, authenticator) = (Pair::p256(), Pair::p256(), authenticator());
    let token = old.token("old", &claims());
    assert_eq!(refused(&authenticator, &token), Refused::NoKeys);
    set_keys(&authenticator, &[old.jwk("old")]);
    let mut lasting = claims();
    lasting["exp"] = u32::MAX.into();
    let lasting = old.token("old", &lasting);
    let (rights, ends_at) = authenticator.rights_of(&lasting, None).unwrap();
    assert_eq!(ends_at.map(|ends| ends.0), Some((u64::from(u32::MAX) + 30) * 1_000));
    assert!(authenticator.renewed(&rights).is_some());
    let generation = authenticator.generation();

    set_keys(&authenticator, &[old.jwk("old"), new.jwk("new")]);
    assert_eq!(authenticator.generation(), generation, "nobody has lost anything");
    assert!(shown(&authenticator, &new.token("new", &claims())).is_ok());
    assert!(shown(&authenticator, &token).is_ok() && authenticator.renewed(&rights).is_some());

    set_keys(&authenticator, &[new.jwk("new")]);
    assert_ne!(authenticator.generation(), generation, "doors look again at who is connected");
    assert_eq!(refused(&authenticator, &token), Refused::KeyUnknown, "also one that was remembered");
    assert!(authenticator.renewed(&rights).is_none());
    // The name of a key is not the key.
    set_keys(&authenticator, &[new.jwk("old")]);
    assert_eq!(refused(&authenticator, &token), Refused::Signature);
}

#[test]
fn an_unknown_key_is_wanted_once_however_often_it_is_named() {
    let (pair, authenticator) = (Pair::p256(), authenticator());
    set_keys(&authenticator, &[pair.jwk("k")]);
    let provider = authenticator.provider_keys().remove(0);
    for number in 0..100 {
        let token = Pair::ed25519().token(&format!("k{number}"), &claims());
        assert_eq!(refused(&authenticator, &token), Refused::KeyUnknown);
    }
    let runtime = tokio::runtime::Builder::new_current_thread().enable_time().build().unwrap();
    runtime.block_on(async {
        provider.wanted().await;
        let mut again = std::pin::pin!(provider.wanted());
        let waker = std::task::Waker::noop();
        assert!(again.as_mut().poll(&mut std::task::Context::from_waker(waker)).is_pending());
    });
}

#[test]
fn a_reload_ends_what_other_settings_gave_and_keeps_keys_and_quotas() {
    let (pair, authenticator) = (Pair::p256(), authenticator());
    set_keys(&authenticator, &[pair.jwk("k")]);
    let mut lasting = claims();
    lasting["exp"] = u32::MAX.into();
    let token = pair.token("k", &lasting);
    let identity = shown(&authenticator, &token).unwrap();
    let quota = identity.quota().unwrap().clone();
    let (rights, _) = authenticator.rights_of(&token, None).unwrap();
    authenticator.reload(settings(provider(), Rate::default()));
    assert!(authenticator.renewed(&rights).is_some());
    assert!(Arc::ptr_eq(shown(&authenticator, &token).unwrap().quota().unwrap(), &quota));
    let other = ProviderSettings { wallets: vec!["wallet:{team}:{sub}".parse().unwrap()], ..provider() };
    authenticator.reload(settings(other, Rate::default()));
    assert!(authenticator.renewed(&rights).is_none(), "a new token may give other rights");
    let wallets = vec!["wallet:red:42".into()];
    let identity = shown(&authenticator, &token).expect("the keys stay");
    assert_eq!(*identity.rights(), Rights::Viewer { wallets });
    authenticator.reload(AuthSettings { identity_providers: Vec::new(), ..settings(provider(), Rate::default()) });
    assert_eq!(shown(&authenticator, &token).unwrap_err(), AuthError::Invalid);
}

#[test]
fn an_address_that_sends_bad_tokens_waits_and_others_do_not() {
    let pair = Pair::p256();
    let authenticator = Authenticator::new(settings(provider(), Rate { per_s: 1, burst: 10 }));
    set_keys(&authenticator, &[pair.jwk("k")]);
    let (bad, good) = ([10, 0, 0, 1].into(), [10, 0, 0, 2].into());
    let from = |address, token: &str| authenticator.authenticate_at(token, Some(address), NOW_S).map(|_| ());
    let known = pair.token("k", &with("jti", "known"));
    assert_eq!(from(bad, &known), Ok(()));
    let forged = |number: u32| Pair::p256().token("k", &with("jti", number));
    let looked_at = (0..100)
        .take_while(|number| from(bad, &forged(*number)) == Err(AuthError::Refused(Refused::Signature)))
        .count();
    assert!((10..20).contains(&looked_at), "{looked_at}");
    assert!(matches!(from(bad, &pair.token("k", &claims())), Err(AuthError::TooMany(_))));
    assert_eq!(from(bad, &known), Ok(()), "what was good costs nothing");
    assert_eq!(from(good, &pair.token("k", &claims())), Ok(()));
}

#[test]
fn a_jwks_has_bounds_and_only_keys_that_fit() {
    let all = [TokenAlgorithm::Rs256, TokenAlgorithm::Es256, TokenAlgorithm::EdDsa];
    let parse = |keys: &[Value]| Jwks::parse(json!({"keys": keys}).to_string().as_bytes(), &all);
    let key = Pair::p256().jwk("k");
    let but = |name: &str, value: Value| {
        let mut jwk = key.clone();
        jwk[name] = value;
        jwk
    };
    assert_eq!(parse(std::slice::from_ref(&key)).unwrap().len(), 1);
    assert!(matches!(parse(&vec![key.clone(); 65]), Err(JwksError::TooMany(65))));
    assert!(matches!(Jwks::parse(&vec![b' '; JWKS_BYTES_MAX + 1], &all), Err(JwksError::TooLong)));
    assert!(matches!(Jwks::parse(b"<html>", &all), Err(JwksError::Malformed(_))));
    assert!(matches!(Jwks::parse(&b"[".repeat(10_000), &all), Err(JwksError::Malformed(_))));
    let rsa = |n: String, e: &str| json!({"kty": "RSA", "n": n, "e": e});
    for unusable in [
        json!({"kty": "oct", "k": base64url([1; 32]), "alg": "HS256"}),
        but("use", "enc".into()),
        but("alg", "RS256".into()),
        but("key_ops", json!(["encrypt"])),
        but("crv", "P-384".into()),
        but("x", base64url([1; 31]).into()),
        rsa(base64url([255; 128]), "AQAB"),
        rsa(base64url(vec![255; 2_048]), "AQAB"),
        rsa(rsa_modulus(), &base64url([255; 8])),
        json!({"kty": "RSA"}),
        json!("a"),
    ] {
        assert!(matches!(parse(std::slice::from_ref(&unusable)), Err(JwksError::NoneUsable(1))), "{unusable}");
        assert_eq!(parse(&[unusable, key.clone()]).unwrap().len(), 1, "the others are taken");
    }
}

#[test]
fn templates_never_meet() {
    let template = |text: &str| text.parse::<Template>().unwrap();
    for wrong in ["wallet:dave", "wallet:{}", "wallet:{sub", "wallet:x{sub}", "wallet:{a}{b}", "a/b:{sub}", "", "*:{a}"]
    {
        assert!(wrong.parse::<Template>().is_err(), "{wrong}");
    }
    let named = template("wallet:{https://example.org/id}");
    assert_eq!(named.claims().collect::<Vec<_>>(), ["https://example.org/id"]);
    let wallet = template("wallet:{sub}");
    assert!(wallet.may_make("wallet:dave") && !wallet.may_make("wallet:show:dave") && !wallet.may_make("wallet:"));
    assert!(wallet.overlaps(&template("wallet:{email}")) && wallet.overlaps(&template("{kind}:{sub}")));
    assert!(!wallet.overlaps(&template("wallet:show:{sub}")) && !wallet.overlaps(&template("purse:{sub}")));
    assert_eq!(template("a:{b.c}:d").to_string(), "a:{b.c}:d");
}

#[test]
fn whoever_is_away_has_the_rights_of_the_last_token_or_of_the_name() {
    let (pair, authenticator) = (Pair::p256(), authenticator());
    set_keys(&authenticator, &[pair.jwk("k")]);
    let rights = |name: &str| {
        let principal = tidegate_machines::topic::Principal::provided(name);
        let rights = MqttAuthenticator::rights_of(&authenticator, &principal)?;
        authenticator.identity(&*rights).map(|identity| identity.rights().clone())
    };
    let viewer = |wallet: &str| Some(Rights::Viewer { wallets: vec![wallet.into()] });
    // The role is of the configuration, if the token does not say.
    assert_eq!(rights("show:42"), viewer("wallet:show:42"));
    let service = with("realm_access", json!({"roles": ["service"]}));
    shown(&authenticator, &pair.token("k", &service)).unwrap();
    assert_eq!(rights("show:42"), Some(Rights::Service { grants: vec![Grant::Metrics] }));
    assert_eq!(rights("other:42"), None);
    assert_eq!(rights("show"), None);
}

#[test]
fn a_wallet_is_opened_before_the_first_request_and_again_only_if_that_could_not_be_said() {
    let (pair, authenticator) = (Pair::p256(), authenticator());
    set_keys(&authenticator, &[pair.jwk("k")]);
    let identity = shown(&authenticator, &pair.token("k", &claims())).unwrap();
    let mut requests = AuthorizedRequests::new(10, 10);
    let wallet = || Request::ReadAccount { id: "wallet:show:42".into() };
    let mut answer_to_opening = |reply: Reply| {
        let mut started = Vec::new();
        assert!(requests.ask(&identity, wallet(), (), &mut |token, request| started.push((token, request))).is_none());
        let caller = identity.asks(wallet()).caller;
        assert!(started.iter().all(|(_, asks)| asks.caller == caller), "else one could overtake the other");
        let is_opening = matches!(&started[0].1.request, Request::OpenAccount { id, asset, kind: AccountKind::Wallet }
            if **id == *"wallet:show:42" && **asset == *"credit");
        let mut replies = started.iter().map(|(token, _)| *token);
        let unexpected = &mut |_, _| panic!("nothing more is asked");
        if is_opening {
            assert!(requests.reply(replies.next().unwrap(), reply, unexpected).is_none());
        }
        let busy = Reply::Unavailable(Unavailable::Busy);
        assert!(requests.reply(replies.next().unwrap(), busy, unexpected).is_some() && replies.next().is_none());
        is_opening
    };
    assert!(answer_to_opening(Reply::Unavailable(Unavailable::Busy)), "the first request");
    assert!(answer_to_opening(Reply::Refused(Refusal::AccountExists)), "the ledger could not say");
    assert!(!answer_to_opening(Reply::Unavailable(Unavailable::Busy)), "it has said");
}
