//! What the command line does when the server says that a caller asks too much: reads wait and go on.

use crate::commands::{Operator, answering};
use crate::votes::{CREDITS, connect, ids, open_show, votes};
use crate::{Server, Settings, folder};

/// Several pages, each of which is worth more requests than the bound lets come in a second.
const VOTES: usize = 3_200;
const SLOW: &str = "a-token-with-a-bound-of-requests";

#[test]
fn reads_of_many_rows_go_on_under_a_bound_of_requests() {
    let folder = folder();
    let sections =
        format!("[[service]]\nname = \"slow\"\ntoken = \"{SLOW}\"\ngrants = [\"read:*\"]\nrequests_per_s = 50\n");
    let server = Server::start(&Settings { sections, ..Settings::new(folder.path()) });
    let mut client = connect(&server);
    open_show(&mut client);
    for batch in ids("vote", VOTES).chunks(400) {
        assert!(client.transfers(&votes(batch)).expect("votes are decided").iter().all(|outcome| outcome.is_done()));
    }
    let operator = Operator::of(&server);
    let rows = |arguments: &[&str]| operator.json(&[arguments, &["--token", SLOW]].concat());
    let history = rows(&["account", "history", "wallet:dave"]);
    assert_eq!(history.len(), VOTES + 1, "the votes and the sale");
    let of_sale = history[VOTES]["time_ms"].to_string();
    let then = &rows(&["account", "get", "wallet:dave", "--at", &of_sale])[0]["balance"];
    assert!(then.as_u64() > Some(CREDITS - 400), "before the second request of votes: {then}");
    assert_eq!(rows(&["changes"]).len(), 4 + 2 + VOTES);
}

#[test]
fn a_read_that_would_wait_for_long_gives_up_in_words_that_are_not_those_of_a_change() {
    let problem = r#"{"code":"too_many_requests","status":429,"detail":"this caller has too many requests"}"#;
    let (server, requests) = answering("429 Too Many Requests\r\nretry-after: 3000", problem);
    let operator = Operator { server };
    let (code, _, error) = operator.run(&["account", "get", "wallet:dave"]);
    let words = "the server asks for 3000 s more, and a read waits for 300 s at most";
    assert!(code == 3 && error.contains(words) && error.ends_with("hint: ask again a little later\n"), "{error}");
    let (code, _, error) = operator.run(&["account", "freeze", "wallet:dave"]);
    assert!(code == 3 && error.contains("the same id is not done twice"), "{error}");
    assert_eq!(requests.try_iter().count(), 2, "nothing was asked twice");
}
