//! `[[identity_provider]]`, and who else may not be called as its users.

use tidegate_doors::auth::hash_password;
use tidegate_doors::auth::provider::{KeySource, ProvidedRole};

use super::*;

const PROVIDER: &str = "[[identity_provider]]\nname = \"show\"\nissuer = \"https://id.example\"\n\
                        audience = [\"tidegate\"]\n";

fn with(more: &str) -> String {
    format!("{PROVIDER}{more}\n")
}

fn wrong(more: &str, what: &str) {
    let error = settle(&with(more)).expect_err(more).to_string();
    assert!(error.contains(what), "{more}: {error}");
}

#[test]
fn what_a_provider_needs_and_what_it_has_without_words() {
    let config = settle(&with("jwks_url = \"https://id.example/keys\"\nwallets = [\"wallet:show:{sub}\"]")).unwrap();
    let [provider] = &config.identity_providers[..] else { panic!("one provider") };
    assert_eq!(provider.keys, KeySource::Url("https://id.example/keys".into()));
    assert_eq!((provider.role, provider.algorithms.len()), (Some(ProvidedRole::Viewer), 3));
    let by_claim = settle(&with("jwks_file = \"keys.json\"\nrole_claim = \"role\"")).unwrap();
    assert_eq!(by_claim.identity_providers[0].role, None, "the token must say");
    let here = settle(&with("jwks_url = \"http://127.0.0.1:9/keys\""));
    assert!(here.is_ok() && settle(&with("jwks_url = \"http://[::1]:9/keys\"")).is_ok());
}

#[test]
fn what_is_wrong_is_said() {
    let url = "jwks_url = \"https://id.example/keys\"\n";
    wrong("", "jwks_url or jwks_file is missing");
    wrong(&format!("{url}jwks_file = \"a\""), "not both");
    wrong("jwks_url = \"http://id.example/keys\"", "expected an address with https");
    wrong("jwks_url = \"http://127.0.0.1.id.example/keys\"", "expected an address with https");
    wrong("jwks_url = \"id.example\"", "expected an address with https");
    for algorithm in ["HS256", "none", "RS512", ""] {
        wrong(&format!("{url}algorithms = [{algorithm:?}]"), "others are not taken");
    }
    wrong(&format!("{url}wallets = [\"wallet:dave\"]"), "{CLAIM}");
    wrong(&format!("{url}open_wallets_in = \"credit\""), "there are no wallets");
    wrong(&format!("{url}grants = [\"all\"]"), "is unknown");
    wrong(&format!("{url}[[identity_provider]]\nname = \"a:b\"\nissuer = \"b\"\naudience = [\"c\"]"), "a-z");
}

#[test]
fn nobody_else_is_called_as_its_users_are() {
    let url = "jwks_url = \"https://id.example/keys\"\nwallets = [\"wallet:{sub}\"]\n";
    let hash = hash_password("x");
    let user = |name: &str, wallet: &str| {
        let hash = hash.as_str();
        format!("{url}[[user]]\nname = {name:?}\npassword_hash = {hash:?}\nrole = \"viewer\"\nwallets = [{wallet:?}]")
    };
    wrong(&user("show:dave", "w:dave"), "is called as users of this provider are");
    wrong(&user("dave", "wallet:dave"), "may be a wallet of a user of this provider");
    assert!(settle(&with(&user("dave", "wallet:file:dave"))).is_ok());
    let service = "[[service]]\nname = \"shop\"\ntoken = \"0123456789abcdef\"\nid_space = \"show:1\"";
    wrong(&format!("{url}{service}"), "is called as users of this provider are");
    let other = |name: &str, issuer: &str, wallet: &str| {
        format!(
            "{url}[[identity_provider]]\nname = {name:?}\nissuer = {issuer:?}\naudience = [\"a\"]\n\
             jwks_file = \"b\"\nwallets = [{wallet:?}]"
        )
    };
    wrong(&other("show", "https://other.example", "wallet:o:{sub}"), "there is a provider");
    wrong(&other("other", "https://id.example", "wallet:o:{sub}"), "has the same");
    wrong(&other("other", "https://other.example", "wallet:{email}"), "write the name of the provider into it");
    assert!(settle(&with(&other("other", "https://other.example", "wallet:o:{sub}"))).is_ok());
}
