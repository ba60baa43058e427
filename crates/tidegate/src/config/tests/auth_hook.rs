//! `[auth_hook]`, and who else may not be called as its users.

use std::time::Duration;

use tidegate_doors::auth::hash_password;

use super::*;

/// A hook with `more`, and a file with its secret.
fn with(more: &str, secret: &str) -> Result<Config, String> {
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("secret");
    std::fs::write(&file, secret).unwrap();
    settle(&format!("[auth_hook]\nsecret_file = {:?}\n{more}\n", file.display().to_string()))
}

fn wrong(more: &str, what: &str) {
    let error = with(more, "0123456789abcdef\n").expect_err(more);
    assert!(error.contains(what), "{more}: {error}");
}

#[test]
fn what_a_hook_needs_and_what_it_has_without_words() {
    assert!(settle("").unwrap().auth_hook.is_none());
    let hook = with("url = \"https://id.example/login\"", "0123456789abcdef\n").unwrap().auth_hook.unwrap();
    assert_eq!((hook.secret.1.value(), &*hook.name), ("0123456789abcdef", "hook"));
    assert_eq!((hook.timeout, hook.allowed), (Duration::from_secs(2), Duration::from_secs(60)));
    assert!(!format!("{hook:?}").contains("0123456789abcdef"), "a log does not show the secret");
    let far = "url = \"http://id.example/login\"\n";
    let plain = with(&format!("{far}plain_http = true"), "0123456789abcdef").unwrap();
    let [told] = &crate::openness::warnings(&plain)[..] else { panic!("one thing is open") };
    assert!(told.contains("is asked without TLS"), "{told}");
    assert!(with("url = \"http://127.0.0.1:9/\"", "0123456789abcdef").is_ok());
}

#[test]
fn what_is_wrong_is_said() {
    let url = "url = \"https://id.example/login\"\n";
    let missing = settle(&format!("[auth_hook]\n{url}")).unwrap_err();
    assert!(missing.contains("whoever reaches the hook can try passwords there"), "{missing}");
    wrong("", "write auth_hook.url");
    wrong("url = \"http://id.example/login\"", "auth_hook.plain_http = true allows it");
    wrong("url = \"ftp://id.example\"\nplain_http = true", "expected an address with https");
    for secret in ["short", "0123456789abcdef\nsecond line", &"x".repeat(5_000)] {
        assert!(with(url, secret).is_err(), "{secret}");
    }
    wrong(&format!("{url}secret_header = \"two words\""), "is no name of a header");
    wrong(&format!("{url}name = \"A\""), "a-z");
    wrong(&format!("{url}wallets = [\"wallet:{{sub}}\"]"), "write {user}");
    wrong(&format!("{url}grants = [\"all\"]"), "is unknown");
    wrong(&format!("{url}open_wallets_in = \"a\\n\""), "is no asset");
}

#[test]
fn nobody_else_is_called_as_its_users_are() {
    let url = "url = \"https://id.example/login\"\nwallets = [\"wallet:{user}\"]\n";
    let hash = hash_password("x");
    let user = |name: &str, wallet: &str| {
        let hash = hash.as_str();
        format!("{url}[[user]]\nname = {name:?}\npassword_hash = {hash:?}\nrole = \"viewer\"\nwallets = [{wallet:?}]")
    };
    wrong(&user("hook:dave", "w:dave"), "is called as users of this provider are");
    wrong(&user("dave", "wallet:dave"), "may be a wallet of a user of this provider");
    let provider = |name: &str, wallet: &str| {
        format!(
            "{url}[[identity_provider]]\nname = {name:?}\nissuer = \"https://id.example\"\naudience = [\"a\"]\n\
             jwks_url = \"https://id.example\"\nwallets = [{wallet:?}]"
        )
    };
    wrong(&provider("hook", "wallet:show:{sub}"), "there is a provider \"hook\" already");
    wrong(&provider("show", "wallet:{sub}"), "may be a wallet of a user of provider \"show\"");
}
