//! The operator's commands against a real server: what they print, their exit codes, and what they do when something is
//! wrong.

use std::io::{BufRead, BufReader, Read, Write};
use std::process::{Child, Command, Output, Stdio};

use serde_json::Value;

use crate::votes::{connect, ids, open_show, votes};
use crate::{SERVICE, Server, Settings, folder, wait_for};

const BINARY: &str = env!("CARGO_BIN_EXE_tidegate");

pub fn command(server: &str, arguments: &[&str]) -> Command {
    let mut command = Command::new(BINARY);
    command.args(arguments).env("TIDEGATE_SERVER", server).env("TIDEGATE_TOKEN", SERVICE).env("NO_COLOR", "1");
    command.stdin(Stdio::null());
    command
}

pub struct Operator {
    pub server: String,
}

impl Operator {
    pub fn of(server: &Server) -> Operator {
        Operator { server: format!("http://{}", server.http) }
    }

    /// Exit code, standard output and standard error.
    pub fn run(&self, arguments: &[&str]) -> (i32, String, String) {
        let Output { status, stdout, stderr } = command(&self.server, arguments).output().expect("it runs");
        let text = |bytes: Vec<u8>| String::from_utf8(bytes).expect("text");
        (status.code().expect("no signal"), text(stdout), text(stderr))
    }

    /// What is printed by a command that does what it should.
    pub fn done(&self, arguments: &[&str]) -> String {
        let (code, out, error) = self.run(arguments);
        assert_eq!(code, 0, "{arguments:?}: {out}{error}");
        out
    }

    pub fn json(&self, arguments: &[&str]) -> Vec<Value> {
        let out = self.done(&[arguments, &["--output", "json"]].concat());
        out.lines().map(|line| serde_json::from_str(line).unwrap_or_else(|error| panic!("{error}: {line}"))).collect()
    }
}

#[test]
fn an_operator_opens_moves_holds_and_looks() {
    let folder = folder();
    let server = Server::start(&Settings::new(folder.path()));
    let operator = Operator::of(&server);
    for (id, kind) in [("source:till", "source"), ("wallet:eve", "wallet"), ("wallet:fay", "wallet")] {
        operator.done(&["account", "open", id, "--asset", "point", "--kind", kind]);
    }
    let movement = ["--debit", "source:till", "--credit", "wallet:eve", "--amount", "20", "--memo", "a gift"];
    let make = [&["transfer", "make", "order 1/ü"], &movement[..]].concat();
    assert_eq!(operator.done(&make), "id         outcome\norder 1/ü  applied\n");
    assert_eq!(operator.json(&make)[0]["outcome"], "duplicate");
    let between = ["--debit", "wallet:eve", "--credit", "wallet:fay", "--amount"];
    let hold = |id| [&["hold", "place", id, "--expires-in-ms", "3600000"], &between[..], &["5"]].concat();
    operator.done(&hold("h1"));
    operator.done(&hold("h/2"));
    operator.done(&["hold", "post", "h1", "--amount", "3"]);
    operator.done(&["hold", "void", "h/2"]);

    operator.done(&["account", "set", "wallet:eve", "--balance-max", "900", "--metadata", "plan=gold"]);
    let fields = "id             wallet:eve\nasset          point\nkind           wallet\nstatus         open\n\
                  balance        17\nheld           0\navailable      17\ncredited       20\ndebited        3\n\
                  balance_min    none\nbalance_max    900\nrevision       1\nmetadata.plan  gold\n";
    assert_eq!(operator.done(&["account", "get", "wallet:eve"]), fields);
    let table = "id          asset  kind    status  balance  held  available\n\
                 wallet:fay  point  wallet  open          3     0          3\n";
    assert_eq!(operator.done(&["account", "list", "--prefix", "wallet:f"]), table);
    let listed: Vec<Value> = operator.json(&["account", "list", "--prefix", "wallet:"]);
    assert_eq!(listed.iter().map(|row| row["id"].as_str().unwrap()).collect::<Vec<_>>(), ["wallet:eve", "wallet:fay"]);
    let history = operator.json(&["account", "history", "wallet:eve"]);
    let kinds: Vec<_> = history.iter().map(|row| row["kind"].as_str().unwrap()).collect();
    assert_eq!(kinds, ["void", "post", "hold", "hold", "transfer"]);
    assert_eq!(operator.json(&["transfer", "list", "--account", "wallet:eve", "--limit", "2"]), history[..2]);
    let first = history[4]["time_ms"].to_string();
    assert_eq!(operator.json(&["account", "history", "wallet:eve", "--to", &first]), history[4..]);
    assert_eq!(operator.json(&["account", "get", "wallet:eve", "--at", &first])[0]["balance"], 20);
    assert_eq!(operator.json(&["account", "get", "wallet:eve", "--at", "1970-01-01T00:00:00Z"])[0]["balance"], 0);
    let changes = operator.json(&["changes"]);
    assert_eq!(changes.len(), 3 + 1 + 4 + 1);
    let after = changes[4]["cursor"].as_str().unwrap();
    assert_eq!(operator.json(&["changes", "--after", after, "--kinds", "hold_posted"]).len(), 1);
    assert_eq!(operator.done(&["changes", "--limit", "2"]).lines().count(), 3, "a head and two rows");

    // What is wrong, and what to do about it.
    let refused = |arguments: &[&str], code: &str, hint: &str| {
        let (exit, out, error) = operator.run(arguments);
        assert_eq!((exit, out.as_str()), (3, ""), "{error}");
        assert!(error.contains(code) && error.contains(hint), "{error}");
    };
    refused(&[&["transfer", "make", "much"], &between[..], &["100"]].concat(), "409 insufficient_funds", "only 17");
    refused(&["account", "get", "wallet:none"], "404 account_not_found", "hint: `tidegate account list`");
    refused(&["hold", "get", "none"], "404 hold_not_found", "--id-space");
    refused(&["account", "get", "wallet:eve", "--token", "another"], "401 token_invalid", "[[service]]");
    refused(&["account", "get", "wallet:eve", "--token", ""], "401 token_missing", "hint: give a token: --token");
    refused(&["changes", "--after", "yesterday"], "422 cursor_unknown", "--after start");
    let stale = ["account", "set", "wallet:eve", "--unset", "plan", "--if-revision", "0"];
    refused(&stale, "409 revision_stale", "`tidegate account get`");
    let (exit, out, error) = operator.run(&["account", "get", "wallet:none", "--json"]);
    let problem: Value = serde_json::from_str(&error).expect("JSON on standard error");
    assert_eq!((exit, out.as_str(), &problem["code"]), (3, "", &Value::from("account_not_found")), "{error}");
}

#[test]
fn status_shows_whether_all_is_well() {
    let folder = folder();
    let sections =
        "[[service]]\nname = \"shop\"\ntoken = \"a-token-without-the-audit\"\ngrants = [\"read:*\"]\n".to_owned();
    let server = Server::start(&Settings { sections, ..Settings::new(folder.path()) });
    open_show(&mut connect(&server));
    let operator = Operator::of(&server);
    let status = operator.json(&["status"]).remove(0);
    assert_eq!((&status["health"], &status["damage"]), (&"ok".into(), &0.into()), "{status}");
    assert!(status["audit"]["shards"][0]["state"].is_string(), "{status}");
    let shown = operator.done(&["status"]);
    assert!(shown.contains("health        ok\n") && shown.contains("\nshard  state "), "{shown}");
    // Anybody may ask whether it serves.
    let shown = operator.done(&["status", "--token", ""]);
    assert!(shown.contains("health        ok\n") && shown.contains("needs a token"), "{shown}");
    // A token without that right is told so, and all that everybody may see.
    let shown = operator.done(&["status", "--token", "a-token-without-the-audit"]);
    assert!(shown.contains("health        ok\n") && shown.contains("needs the grant \"audit\""), "{shown}");
    let (server, _requests) = answering(
        "503 Service Unavailable",
        r#"{"code":"recovering","status":503,"progress":0.5,"detail":"the journal is being replayed: 50.0 %"}"#,
    );
    let (code, out, _) = Operator { server }.run(&["status"]);
    assert!(code == 1 && out.contains("health        recovering\n") && out.contains("50.0 %"), "{code}: {out}");
}

#[test]
fn a_wrong_command_line_and_a_server_that_is_not_there_are_said_in_words() {
    let nowhere = Operator { server: "http://127.0.0.1:1".to_owned() };
    let (code, out, error) = nowhere.run(&["account", "list"]);
    assert_eq!((code, out.as_str()), (1, ""));
    assert!(error.contains("nobody listens at http://127.0.0.1:1") && error.contains("is it serving"), "{error}");
    let (code, _, error) = nowhere.run(&["acount", "list"]);
    assert!(code == 2 && error.contains("'account'"), "{error}");
    let (code, _, error) = nowhere.run(&["account", "open", "a", "--asset", "x", "--kind", "walet"]);
    assert!(code == 2 && error.contains("wallet"), "{error}");
    let (code, _, error) = nowhere.run(&["transfer", "make", "t", "--debit", "a", "--credit", "b", "--amount", "0"]);
    assert!(code == 2 && error.contains("--amount"), "{error}");
    for (wrong, words) in [
        (
            &["transfer", "make", "t", "--debit", "a", "--credit", "b", "--amount", "-5"][..],
            "from 1 to 9223372036854775807",
        ),
        (
            &["hold", "post", "h", "--amount", "1.5"],
            "expected minor units, a whole number from 1 to 9223372036854775807",
        ),
        (&["account", "list", "--limit", "0"], "expected rows, a whole number, 1 or more"),
        (&["account", "list", "--server", "http://127.0.0.1:99999"], "expected a URL such as http://127.0.0.1:8080"),
        (&["sessions", "delete", ""], "invalid value '' for '<CLIENT_ID>': it is empty"),
        (&["account", "get", ""], "invalid value '' for '<ID>': it is empty"),
        (&["hold", "void", ""], "invalid value '' for '<ID>': it is empty"),
        (&["users", "delete", ""], "invalid value '' for '<NAME>': it is empty"),
        (&["hold", "list", "--account", ""], "invalid value '' for '--account <ACCOUNT>': it is empty"),
        (&["account", "set", "a", "--metadata", "plan=gold", "--unset", "plan"], "\"plan\" is there twice"),
    ] {
        let (code, out, error) = nowhere.run(wrong);
        assert!(code == 2 && out.is_empty() && error.contains(words), "{wrong:?}: {code} {error}");
    }
    let (code, _, error) = nowhere.run(&["account", "list", "--server", "localhost:8080"]);
    assert!(code == 2 && error.contains("http://127.0.0.1:8080"), "{error}");
    let (code, _, error) = nowhere.run(&["account", "list", "--token", "one-line\nanother-line"]);
    assert!(code == 2 && error.contains("this is no token: sign 9 of it is '\\n'"), "{error}");
    let (code, _, error) = nowhere.run(&["account", "list", "--token", "a-token\n"]);
    assert!(code == 1 && error.contains("nobody listens"), "the end of a line is no part of it: {error}");
    let (code, _, error) = nowhere.run(&["drain", "--rate", "1", "--json"]);
    let failed: Value = serde_json::from_str(&error).expect("JSON on standard error");
    assert!(code == 1 && failed["detail"].as_str().is_some_and(|detail| detail.contains("refused")), "{error}");
    for command in ["status", "account", "account set", "transfer make", "hold", "asset", "changes", "import", "drain"]
    {
        let words: Vec<&str> = command.split(' ').chain(["--help"]).collect();
        let (code, help, _) = nowhere.run(&words);
        let says = ["Exit codes: 0 done; 1 ", "--server <URL>", "TIDEGATE_SERVER", "--json"];
        assert!(code == 0 && says.iter().all(|said| help.contains(said)), "{command}: {help}");
    }
    let (code, _, error) = nowhere.run(&["import", "no-such-file.csv"]);
    assert!(code == 1 && error.contains("no-such-file.csv"), "{error}");
}

#[test]
fn an_authority_that_is_none_and_a_server_without_tls_are_said_in_words() {
    let folder = folder();
    let server = Server::start(&Settings::new(folder.path()));
    let operator = Operator { server: format!("https://{}", server.http) };
    let file = |text: &str| {
        let path = folder.path().join("ca.pem");
        std::fs::write(&path, text).expect("there is room");
        path.display().to_string()
    };
    let (code, _, error) = operator.run(&["account", "list", "--ca-file", &file("nothing")]);
    assert!(code == 1 && error.contains("there is no certificate in PEM in it"), "{error}");
    let signed = rcgen::generate_simple_self_signed(["localhost".to_owned()]).expect("a certificate");
    let (code, _, error) = operator.run(&["account", "list", "--ca-file", &file(&signed.cert.pem())]);
    assert!(code == 1 && error.contains("does not speak TLS there: try http://"), "{error}");
    let operator = Operator { server: format!("http://{}/v1", server.http) };
    let (code, _, error) = operator.run(&["account", "list"]);
    assert!(code == 3 && error.contains("without the path of the API"), "{error}");
    let (code, _, error) = operator.run(&["account", "list", "--token-file", "/no/file"]);
    assert!(code == 1 && error.contains("cannot read a token from /no/file"), "{error}");
}

#[test]
fn a_request_whose_answer_is_lost_may_have_been_done() {
    let listener = std::net::TcpListener::bind("127.0.0.1:0").expect("a free port");
    let operator = Operator { server: format!("http://{}", listener.local_addr().expect("it listens")) };
    std::thread::spawn(move || {
        for stream in listener.incoming() {
            // Reads a little, and hangs up.
            let _ = stream.expect("a connection").read(&mut [0; 16]);
        }
    });
    let make = ["transfer", "make", "t", "--debit", "a", "--credit", "b", "--amount", "1"];
    let (code, out, error) = operator.run(&make);
    assert!(code == 1 && out.is_empty() && error.contains("with the same id nothing is done twice"), "{error}");
    let (code, _, error) = operator.run(&["account", "list"]);
    assert!(code == 1 && !error.contains("same id"), "{error}");
}

#[test]
fn changes_end_with_their_reader_and_go_on_when_the_server_comes_back() {
    let folder = folder();
    let settings = Settings::new(folder.path());
    let server = Server::start(&settings);
    open_show(&mut connect(&server));
    let operator = Operator::of(&server);
    let vote = |server: &Server, name: &str| {
        assert!(connect(server).transfers(&votes(&ids(name, 2_000))).expect("votes").iter().all(|vote| vote.is_done()));
    };
    vote(&server, "first");
    let follow = |more: &[&str]| -> Child {
        let arguments = [&["changes", "--follow"], more].concat();
        let mut command = command(&operator.server, &arguments);
        command.stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().expect("it runs")
    };
    // `| head -n 3`
    let mut child = follow(&[]);
    let mut lines = BufReader::new(child.stdout.take().expect("it is piped")).lines();
    assert_eq!(lines.by_ref().take(3).flatten().count(), 3);
    drop(lines);
    let ended = wait_for("it ends with its reader", || child.try_wait().expect("it is our child"));
    assert!(ended.success(), "{ended}");

    let mut child = follow(&["--output", "json"]);
    let mut lines = BufReader::new(child.stdout.take().expect("it is piped")).lines();
    let mut next = || -> u64 {
        let line = lines.next().expect("it goes on").expect("it can be read");
        serde_json::from_str::<Value>(&line).expect("JSON")["sequence"].as_u64().expect("a number")
    };
    let mut sequences: Vec<u64> = (0..1_000).map(|_| next()).collect();
    vote(&server, "second");
    let again = Settings { http: server.http.to_string(), ..settings };
    server.kill();
    let server = Server::start(&again);
    vote(&server, "third");
    sequences.extend((0..6 + 3 * 2_000 - 1_000).map(|_| next()));
    assert!(sequences.iter().copied().eq(1..=6 + 3 * 2_000), "without a gap, and none twice");
    child.kill().expect("it is our child");
    child.wait().expect("it is our child");
}

/// A server that answers every request with the same JSON, and gives each request's line and body.
pub fn recorder(answer: &'static str) -> (String, std::sync::mpsc::Receiver<(String, String)>) {
    answering("200 OK", answer)
}

pub fn answering(status: &'static str, answer: &'static str) -> (String, std::sync::mpsc::Receiver<(String, String)>) {
    let listener = std::net::TcpListener::bind("127.0.0.1:0").expect("a free port");
    let address = listener.local_addr().expect("it listens");
    let (sender, requests) = std::sync::mpsc::channel();
    std::thread::spawn(move || {
        for stream in listener.incoming() {
            let mut stream = BufReader::new(stream.expect("a connection"));
            let (mut head, mut length) = (Vec::new(), 0);
            loop {
                let mut line = String::new();
                stream.read_line(&mut line).expect("a head");
                if line.trim().is_empty() {
                    break;
                }
                if let Some(value) = line.to_ascii_lowercase().strip_prefix("content-length:") {
                    length = value.trim().parse().expect("a number");
                }
                head.push(line.trim_end().to_owned());
            }
            let mut body = vec![0; length];
            stream.read_exact(&mut body).expect("a body");
            let text = format!(
                "HTTP/1.1 {status}\r\ncontent-type: application/json\r\ncontent-length: {}\r\n\
                 connection: close\r\n\r\n{answer}",
                answer.len()
            );
            // Before the answer: whoever has that may look for the request.
            let body = String::from_utf8(body).expect("text");
            if sender.send((head[0].clone(), body)).is_err() {
                return;
            }
            stream.get_mut().write_all(text.as_bytes()).expect("the client reads");
        }
    });
    (format!("http://{address}"), requests)
}

#[test]
fn settings_and_look_ups_are_asked_as_the_door_takes_them() {
    let (server, requests) =
        recorder(r#"{"id":"a","status":"frozen","holds":[],"assets":[{"name":"x","decimals":2}]}"#);
    let operator = Operator { server };
    let asked = |arguments: &[&str]| {
        operator.done(arguments);
        let (line, body) = requests.recv().expect("it was asked");
        format!("{} {body}", line.trim_end_matches(" HTTP/1.1")).trim_end().to_owned()
    };
    let labelled = ["--debit", "a", "--credit", "b", "--amount", "1", "--code", "7", "--user-data", "order-1"];
    for (arguments, expected) in [
        (&["account", "freeze", "a/b"][..], r#"PATCH /v1/accounts/a%2Fb {"status":"frozen"}"#),
        (&["account", "freeze", "a", "--debits-only"], r#"PATCH /v1/accounts/a {"status":"debits_frozen"}"#),
        (&["account", "unfreeze", "a"], r#"PATCH /v1/accounts/a {"status":"open"}"#),
        (&["account", "close", "a"], r#"PATCH /v1/accounts/a {"status":"closed"}"#),
        (
            &[
                "account",
                "set",
                "a",
                "--balance-min",
                "-5",
                "--balance-max",
                "none",
                "--metadata",
                "k=v=w",
                "--unset",
                "o",
            ],
            r#"PATCH /v1/accounts/a {"balance_max":null,"balance_min":-5,"metadata":{"k":"v=w","o":null}}"#,
        ),
        (&["account", "holds", "a"], "GET /v1/accounts/a/holds?limit=1000"),
        (&["transfer", "get", "t 1"], "GET /v1/transfers/t%201"),
        (&["transfer", "get", "t", "--id-space", "dave"], "GET /v1/transfers/t?id_space=dave"),
        (&["hold", "get", "h"], "GET /v1/holds/h"),
        (&["hold", "get", "h", "--id-space", "dave"], "GET /v1/holds/h?id_space=dave"),
        (&["hold", "void", "h", "--id-space", "dave"], "POST /v1/holds/h/void?id_space=dave {}"),
        (
            &["hold", "post", "h", "--amount", "2", "--id-space", "a b"],
            r#"POST /v1/holds/h/post?id_space=a%20b {"amount":2}"#,
        ),
        (&["hold", "list", "--account", "a", "--limit", "7"], "GET /v1/accounts/a/holds?limit=7"),
        (
            &[&["transfer", "make", "t"], &labelled[..]].concat(),
            r#"POST /v1/transfers {"amount":1,"code":7,"credit":"b","debit":"a","id":"t","user_data":"order-1"}"#,
        ),
        (
            &[&["hold", "place", "h", "--expires-in-ms", "9"], &labelled[..]].concat(),
            concat!(
                r#"POST /v1/holds {"amount":1,"code":7,"credit":"b","debit":"a","expires_in_ms":9,"id":"h","#,
                r#""user_data":"order-1"}"#
            ),
        ),
        (
            &["transfer", "list", "--account", "a", "--from", "5", "--limit", "2"],
            "GET /v1/accounts/a/transfers?limit=2&from_time=5",
        ),
        (&["asset", "list"], "GET /v1/assets"),
        (&["asset", "declare", "x", "--decimals", "2"], r#"POST /v1/assets {"decimals":2,"name":"x"}"#),
    ] {
        assert_eq!(asked(arguments), expected, "{arguments:?}");
    }
    let (code, _, error) = operator.run(&["account", "set", "a"]);
    assert!(code == 2 && error.contains("--balance-min"), "{error}");
    let (code, _, error) = operator.run(&["account", "set", "a", "--metadata", "k"]);
    assert!(code == 2 && error.contains("KEY=VALUE"), "{error}");
}
