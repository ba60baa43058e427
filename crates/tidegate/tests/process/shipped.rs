//! The program as it is shipped: its template of a configuration runs a show when it is filled in, and what is wrong
//! with a configuration is said before anything is made.

use std::collections::BTreeSet;
use std::fs;
use std::io::{Read, Write};
use std::net::TcpStream;
use std::os::unix::fs::PermissionsExt;
use std::os::unix::net::UnixDatagram;
use std::path::{Path, PathBuf};

use crate::support::server::command;
use crate::{PATIENCE, Process, Server, Settings, folder};

/// A port that the system chooses, for each door.
const FREE: [&str; 6] = ["--http", "127.0.0.1:0", "--binary", "127.0.0.1:0", "--mqtts", "127.0.0.1:0"];

/// `config/production.toml`, with the certificate of `folder` and each `CHANGE ME` replaced by one of `values`.
fn production(folder: &Path, values: &[&str]) -> PathBuf {
    let template = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../config/production.toml");
    let mut text = fs::read_to_string(template).expect("it is shipped");
    assert_eq!(text.lines().filter(|line| line.contains("= \"CHANGE ME\"")).count(), 3, "as its head says");
    text = text.replace("/etc/tidegate", &folder.display().to_string());
    for value in values {
        text = text.replacen("\"CHANGE ME\"", &format!("\"{value}\""), 1);
    }
    let signed = rcgen::generate_simple_self_signed(["localhost".to_owned()]).expect("a certificate");
    fs::write(folder.join("cert.pem"), signed.cert.pem()).expect("there is room");
    fs::write(folder.join("key.pem"), signed.signing_key.serialize_pem()).expect("there is room");
    let path = folder.join("production.toml");
    fs::write(&path, text).expect("there is room");
    path
}

fn line_of(file: &Path, begin: &str) -> usize {
    let text = fs::read_to_string(file).expect("it is there");
    1 + text.lines().position(|line| line.starts_with(begin)).expect("the line is there")
}

const HASH: &str = "$argon2id$v=19$m=19456,t=2,p=1$aO457l8gSx4MSMIy6jkA8A$pxU3XDDQLUNsfaoUn13WoUt/s391WG5KAxu+9MFL4zA";

#[test]
fn the_template_runs_a_show_when_it_is_filled_in_and_not_before() {
    let folder = folder();
    let data = folder.path().join("data");
    let place = ["--data", data.to_str().expect("text")];
    let arguments = [&FREE[..], &place].concat();

    let (one, two) = ("0".repeat(64), "1".repeat(64));
    let config = production(folder.path(), &[&one, &two]);
    let ended = Process::serve(&config, &arguments).ready().err().expect("a placeholder is left");
    let named = format!("{}:{}: user.password_hash", config.display(), line_of(&config, "password_hash"));
    assert!(!ended.status.success() && ended.log.contains(&named), "{ended}");
    assert!(ended.log.contains("`tidegate hash-password` makes one"), "{ended}");
    assert!(!data.exists(), "nothing was made");

    let config = production(folder.path(), &[&one, &two, HASH]);
    let server = Process::serve(&config, &arguments).ready().unwrap_or_else(|ended| panic!("{ended}"));
    server.says("HTTP on https://");
    assert_ne!(server.mqtts().port(), 0);
    let ended = server.terminate();
    assert!(ended.status.success(), "{ended}");
}

#[test]
fn a_check_says_what_is_wrong_and_where_and_changes_nothing() {
    let folder = folder();
    let data = folder.path().join("data");
    let check = |config: &Path| {
        let (config, data) = (config.to_str().expect("text"), data.to_str().expect("text"));
        let ended = command(&["serve", "--check", "--config", config, "--data", data]);
        assert!(!Path::new(data).exists(), "nothing was made: {ended}");
        (ended.status.code(), ended.log)
    };
    let (one, two) = ("0".repeat(64), "1".repeat(64));
    let config = production(folder.path(), &[&one, &two, HASH]);
    let (code, said) = check(&config);
    assert!(code == Some(0) && said.ends_with("ok\n"), "{said}");

    let key = folder.path().join("key.pem");
    fs::write(&key, "no key").expect("there is room");
    let (code, said) = check(&config);
    let named = format!("{}:{}: tls.key_file: cannot read PEM", config.display(), line_of(&config, "key_file"));
    assert!(code == Some(1) && said.contains(&named) && said.contains(&key.display().to_string()), "{said}");

    let seed = "[[seed.account]]\nid = \"a\"\nasset = \"credit\"\nkind = \"wallet\"\n";
    fs::write(&config, format!("{seed}{seed}")).expect("there is room");
    let (code, said) = check(&config);
    let named = format!("{}:6: the account \"a\" stands twice", config.display());
    assert!(code == Some(1) && said.contains(&named), "{said}");

    fs::write(&config, "[listen]\nhtpp = \"off\"\n").expect("there is room");
    let (code, said) = check(&config);
    let named = format!("{}:2: unknown key", config.display());
    assert!(code == Some(1) && said.contains(&named), "{said}");

    fs::write(&config, "[auth]\njwt_secret_file = \"/dev/null\"\n").expect("there is room");
    let (code, said) = check(&config);
    let named = format!("{}:2: auth.jwt_secret_file", config.display());
    assert!(code == Some(1) && said.contains(&named), "{said}");

    fs::write(&config, "[listen]\nhttp = \"0.0.0.0:8080\"\n").expect("there is room");
    let (code, said) = check(&config);
    assert!(code == Some(0) && said.contains("warning: listen.http = 0.0.0.0:8080 is open"), "{said}");
}

#[test]
fn a_start_says_what_is_open_to_a_network() {
    let folder = folder();
    let server = Server::start(&Settings { http: "0.0.0.0:0".to_owned(), ..Settings::new(folder.path()) });
    let log = server.kill().log;
    let warned = |text: &str| log.lines().any(|line| line.contains(" WARN ") && line.contains(text));
    assert!(warned("listen.http = 0.0.0.0:0 is open to other machines and does not speak TLS"), "{log}");
    assert!(warned("/metrics is served to everybody"), "{log}");
    let server = Server::start(&Settings::new(folder.path()));
    let log = server.kill().log;
    assert!(!log.contains("open to other machines"), "{log}");
}

#[test]
fn the_service_manager_learns_that_it_serves_lives_and_stops() {
    let folder = folder();
    let path = folder.path().join("notify");
    let socket = UnixDatagram::bind(&path).expect("a socket");
    socket.set_read_timeout(Some(PATIENCE)).expect("it waits");
    let next = || {
        let mut message = [0; 4096];
        let length = socket.recv(&mut message).expect("a message in time");
        String::from_utf8(message[..length].to_vec()).expect("text")
    };
    let after = |mark: &str| while !next().lines().any(|line| line == mark) {};
    let watched = |pid: &str| {
        let environment = [("NOTIFY_SOCKET", path.to_str().expect("text")), ("WATCHDOG_USEC", "200000")];
        let mut environment = environment.map(|(name, value)| (name.to_owned(), value.to_owned())).to_vec();
        environment.push(("WATCHDOG_PID".to_owned(), pid.to_owned()));
        Settings { environment, ..Settings::new(folder.path()) }
    };
    // The watchdog of another process is not ours.
    let server = Server::start(&watched("1"));
    after("READY=1");
    assert!(server.terminate().status.success());
    let message = next();
    assert!(message.starts_with("STOPPING=1"), "{message}");

    let mut settings = watched("");
    settings.environment.pop();
    let server = Server::start(&settings);
    after("READY=1");
    after("WATCHDOG=1");
    after("WATCHDOG=1");
    server.send_sigterm();
    after("STOPPING=1");
    let ended = server.ended();
    assert!(ended.status.success(), "{ended}");
}

/// Every command that its help names, and those below it: `tidegate`, `tidegate-account`, `tidegate-account-list`.
fn commands(above: &[&str], found: &mut BTreeSet<String>) {
    found.insert([&["tidegate"], above].concat().join("-"));
    let help = command(&[above, &["--help"]].concat()).log;
    let listed = help.split_once("\nCommands:\n").map_or("", |(_, rest)| rest.split("\n\n").next().unwrap_or(rest));
    // Names stand two spaces from the edge, the rest of what they mean further in.
    let names = listed.lines().filter_map(|line| line.strip_prefix("  ").filter(|line| !line.starts_with(' ')));
    for name in names.filter_map(|line| line.split_whitespace().next()).filter(|name| *name != "help") {
        commands(&[above, &[name]].concat(), found);
    }
}

#[test]
fn each_command_has_a_page_of_the_manual_and_its_completions() {
    let folder = folder();
    let pages_in = folder.path().join("new/pages");
    let ended = command(&["man", pages_in.to_str().expect("text")]);
    assert!(ended.status.success(), "{ended}");
    let entries = fs::read_dir(&pages_in).expect("it is there").map(|entry| entry.expect("an entry").file_name());
    let pages: BTreeSet<String> = entries.map(|name| name.into_string().expect("text").replace(".1", "")).collect();
    let mut expected = BTreeSet::new();
    commands(&[], &mut expected);
    assert!(expected.contains("tidegate-serve") && expected.contains("tidegate-account-list"), "{expected:?}");
    assert_eq!(pages, expected);
    let page = fs::read_to_string(pages_in.join("tidegate-account-list.1")).expect("a page");
    assert!(page.contains("\\fBtidegate account list\\fR") && page.contains(".SH OPTIONS"), "{page}");
    let page = pages_in.join("tidegate-account-list.1");
    let ended = command(&["man", page.to_str().expect("text")]);
    let named = format!("cannot make {}", page.display());
    assert!(ended.status.code() == Some(1) && ended.log.contains(&named), "{ended}");

    for shell in ["bash", "elvish", "fish", "powershell", "zsh"] {
        let ended = command(&["completions", shell]);
        let missing = ["serve", "hash-password", "mend-time"].into_iter().find(|name| !ended.log.contains(name));
        assert!(ended.status.success() && missing.is_none(), "{shell}: {missing:?}");
    }
}

#[test]
fn the_unit_of_systemd_is_one() {
    let unit = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../deploy/systemd/tidegate.service");
    let text = fs::read_to_string(&unit).expect("it is shipped");
    // `systemd-analyze verify` wants the programs that a unit names.
    let folder = folder();
    let copy = folder.path().join("tidegate.service");
    fs::write(&copy, text.replace("/usr/bin/tidegate", env!("CARGO_BIN_EXE_tidegate"))).expect("there is room");
    let mut verify = std::process::Command::new("systemd-analyze");
    let Ok(output) = verify.args(["verify", "--man=no"]).arg(&copy).output() else {
        // Not on this host: what each line means is its own matter, but the protocol must be the one that is spoken.
        return assert!(text.lines().any(|line| line == "Type=notify"));
    };
    let said = String::from_utf8_lossy(&output.stderr);
    let about: Vec<&str> = said.lines().filter(|line| line.contains("tidegate.service")).collect();
    assert!(about.is_empty(), "{said}");
}

#[test]
fn the_root_leads_to_the_voting_page_or_to_what_is_served() {
    let folder = folder();
    let asked = |open: &str| {
        let config = folder.path().join("open.toml");
        fs::write(&config, format!("[auth]\nopen_paths = [{open}]\n")).expect("there is room");
        let data = folder.path().join("data");
        let place = ["--data", data.to_str().expect("text"), "--mqtt", "off", "--http", "127.0.0.1:0"];
        let arguments = [&place[..], &["--binary", "127.0.0.1:0"]].concat();
        let server = Process::serve(&config, &arguments).ready().unwrap_or_else(|ended| panic!("{ended}"));
        let mut stream = TcpStream::connect(server.http).expect("it listens");
        stream.write_all(b"GET / HTTP/1.1\r\nhost: a\r\nconnection: close\r\n\r\n").expect("it reads");
        let mut answer = String::new();
        stream.read_to_string(&mut answer).expect("it answers");
        server.kill();
        answer
    };
    let answer = asked("\"/demo\"").to_ascii_lowercase();
    assert!(answer.starts_with("http/1.1 307 ") && answer.contains("\r\nlocation: /demo\r\n"), "{answer}");
    let answer = asked("");
    assert!(answer.starts_with("HTTP/1.1 200 ") && answer.contains("href=\"/openapi.json\""), "{answer}");
}

#[test]
fn a_certificate_that_is_over_or_an_authoritys_is_said_before_and_after_a_start() {
    let folder = folder();
    let config = production(folder.path(), &["0".repeat(64).as_str(), "1".repeat(64).as_str(), HASH]);
    let key = rcgen::KeyPair::generate().expect("a key");
    let mut parameters = rcgen::CertificateParams::new(["localhost".to_owned()]).expect("a name");
    parameters.not_before = rcgen::date_time_ymd(2024, 1, 1);
    parameters.not_after = rcgen::date_time_ymd(2025, 1, 1);
    parameters.is_ca = rcgen::IsCa::Ca(rcgen::BasicConstraints::Unconstrained);
    let signed = parameters.self_signed(&key).expect("a certificate");
    fs::write(folder.path().join("cert.pem"), signed.pem()).expect("there is room");
    fs::write(folder.path().join("key.pem"), key.serialize_pem()).expect("there is room");
    let (path, data) = (config.display().to_string(), folder.path().join("data").display().to_string());
    let over = "tls.cert_file: the certificate, or one of its chain, is over since 2025-01-01T00:00:00Z";

    let ended = command(&["serve", "--check", "--config", &path, "--data", &data]);
    let authority = "tls.cert_file: the certificate is one of an authority (CA:TRUE)";
    for complaint in [over, authority] {
        assert!(ended.status.success() && ended.log.contains(&format!("warning: {complaint}")), "{ended}");
    }
    let arguments = [&FREE[..], &["--data", &data]].concat();
    let server = Process::serve(&config, &arguments).ready().unwrap_or_else(|ended| panic!("{ended}"));
    server.says(over);
    server.says(authority);
    server.kill();
}

#[test]
fn a_check_refuses_what_a_start_would_refuse() {
    let folder = folder();
    let settings = Settings::new(folder.path());
    let check = |settings: &Settings| {
        let (path, data) = (settings.write().display().to_string(), settings.data.display().to_string());
        let ended = command(&["serve", "--check", "--config", &path, "--data", &data]);
        (ended.status.code(), ended.log)
    };
    let refuses = |settings: &Settings, says: &[&str]| {
        let (code, said) = check(settings);
        assert!(code == Some(1) && says.iter().all(|word| said.contains(word)), "{says:?}: {said}");
    };
    let accepts = |settings: &Settings, says: &str| {
        let (code, said) = check(settings);
        assert!(code == Some(0) && said.contains(says) && said.ends_with("ok\n"), "{says}: {said}");
    };
    accepts(&settings, "");
    let file = folder.path().join("file");
    fs::write(&file, "").expect("there is room");
    refuses(&Settings { data: file.clone(), ..settings.clone() }, &["data.dir: ", "file is no directory"]);
    let within = Settings { data: file.join("data"), ..settings.clone() };
    refuses(&within, &["file/data: cannot list: ", "a file stands where a folder should be"]);
    let closed = folder.path().join("closed");
    fs::create_dir(&closed).expect("there is room");
    fs::set_permissions(&closed, fs::Permissions::from_mode(0o500)).expect("it is ours");
    // Nothing is closed to root.
    if fs::write(closed.join("file"), "").is_err() {
        let nowhere = Settings { data: closed.join("data"), ..settings.clone() };
        refuses(&nowhere, &["data.dir: cannot make ", "closed may not be written: Permission denied"]);
    }
    accepts(&Settings { data: folder.path().join("not/there/yet"), ..settings.clone() }, "");

    let witnesses = folder.path().join("witnesses");
    fs::create_dir(&witnesses).expect("there is room");
    let with = |sections: String| Settings { sections, ..settings.clone() };
    let archive = |to: &str| with(format!("[archive]\nto = \"{to}\"\n"));
    refuses(&archive("s3:/bucket/x"), &["archive.to: s3:/bucket/x: segments are archived in a directory"]);
    accepts(&archive("/nowhere/at/all"), "warning: archive.to: there is no directory /nowhere/at/all");
    accepts(&archive("s3://bucket/x"), "");
    let provider = "[[identity_provider]]\nname = \"show\"\nissuer = \"x\"\naudience = [\"y\"]\nrole = \"viewer\"\n";
    let keys = with(format!("{provider}jwks_file = \"/nowhere/keys.json\"\n"));
    accepts(&keys, "warning: identity_provider.jwks_file /nowhere/keys.json: No such file or directory");

    let server = Server::start(&settings);
    accepts(&settings, "");
    let other = Settings { shards: settings.shards + 1, ..settings.clone() };
    let found = format!("was made with {}, and a start with another number is refused", settings.shards);
    refuses(&other, &["data.shards = ", &found]);
    assert!(server.terminate().status.success());
    refuses(&other, &["data.shards = ", &found]);
    let ended = Server::refused(&other);
    assert!(ended.log.contains("Set data.shards = "), "{ended}");

    let data_keys = format!("witness = {witnesses:?}");
    let witness = Settings { data_keys, ..settings.clone() };
    let unmarked = ["data.witness: ", "the file tidegate-witnesses is not in it"];
    refuses(&witness, &unmarked);
    refuses(&Settings { data: folder.path().join("new"), ..witness.clone() }, &unmarked);
    fs::write(witnesses.join("tidegate-witnesses"), "").expect("there is room");
    accepts(&witness, "");
}
