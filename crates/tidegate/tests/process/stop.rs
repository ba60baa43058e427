//! SIGTERM: what was accepted is finished, the exit code is 0, and the next start finds a clean end.

use tidegate_client::{ClientError, Outcome, Reply};

use crate::votes::{connect, ids, open_show, votes};
use crate::{Server, Settings, folder};

/// Requests in flight when the signal comes, of [`VOTES`] votes each.
const REQUESTS: usize = 100;
const VOTES: usize = 200;

#[test]
fn sigterm_finishes_what_was_accepted_and_leaves_a_clean_end() {
    let folder = folder();
    let settings = Settings::new(folder.path());
    let server = Server::start(&settings);
    let mut client = connect(&server);
    open_show(&mut client);

    let requests: Vec<Vec<String>> = (0..REQUESTS).map(|number| ids(&format!("vote-{number}"), VOTES)).collect();
    let mut waiting = Vec::new();
    for request in &requests {
        waiting.push(client.send_transfers(&votes(request), false).expect("they fit the window"));
    }
    client.flush().expect("the server reads");
    let mut answered = vec![false; REQUESTS];
    let mut signalled = false;
    let broken = loop {
        match client.receive() {
            Ok((correlation, Reply::Outcomes(outcomes))) => {
                assert!(outcomes.iter().all(|outcome| *outcome == Outcome::Applied), "{outcomes:?}");
                answered[waiting.iter().position(|of| *of == correlation).expect("it was asked")] = true;
            }
            // Refused because of the stop: not done, and the client was told so.
            Ok((_, Reply::Error(error))) => assert_eq!(error.code, "stopping"),
            Ok(other) => panic!("{other:?}"),
            Err(error) => break error,
        }
        if !signalled {
            server.send_sigterm();
            signalled = true;
        }
    };
    assert!(matches!(broken, ClientError::Closed { .. }), "{broken}");
    let ended = server.ended();
    assert!(ended.status.success(), "{ended}");

    let server = Server::start(&settings);
    assert!(!server.log().contains("behind the last whole group"), "{}", server.log());
    let mut client = connect(&server);
    for (request, answered) in requests.iter().zip(answered) {
        // Accepted requests were answered, so the others were never begun.
        let right = if answered { Outcome::Duplicate } else { Outcome::Applied };
        let again = client.transfers(&votes(request)).expect("the server serves");
        assert!(again.iter().all(|outcome| *outcome == right), "{right:?} expected: {:?}", again[0]);
    }
    assert_eq!(client.account("candidate:1").expect("it is there").balance, (REQUESTS * VOTES) as i64);
}

#[test]
fn sigterm_ends_an_idle_server_with_open_connections() {
    let folder = folder();
    let server = Server::start(&Settings::new(folder.path()));
    let _idle: Vec<_> = (0..20).map(|_| connect(&server)).collect();
    let _silent = std::net::TcpStream::connect(server.http).expect("the door is open");
    let ended = server.terminate();
    assert!(ended.status.success(), "{ended}");
}
