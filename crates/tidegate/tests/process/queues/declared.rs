//! Queues of the configuration.

use serde_json::json;

use super::*;

/// A server with these sections.
fn with_queues(folder: &Path, sections: &str) -> Settings {
    Settings { sections: sections.to_owned(), ..Settings::new(folder) }
}

#[test]
fn two_queues_may_be_the_dead_letter_queues_of_each_other() {
    let folder = folder();
    let both = "[[queue]]\nname = \"a\"\ndead_letter = \"b\"\nattempts_max = 3\n\n\
                [[queue]]\nname = \"b\"\ndead_letter = \"a\"\nattempts_max = 5\n";
    let settings = with_queues(folder.path(), both);
    for _ in 0..2 {
        let server = Server::start(&settings);
        let mut http = connect(&server);
        for (queue, dead_letter, attempts_max) in [("a", "b", 3), ("b", "a", 5)] {
            let of = wait_for("it is made", || {
                let answer = http.get(&format!("/v1/queues/{queue}")).ok()?;
                Some(answer.body["settings"].clone()).filter(|settings| settings["dead_letter"] == dead_letter)
            });
            assert_eq!(of["attempts_max"], attempts_max);
        }
        end(server, &settings);
    }
}

#[test]
fn a_change_of_a_queue_of_the_configuration_is_said_to_last_until_the_next_start() {
    let folder = folder();
    let settings = with_queues(folder.path(), "[[queue]]\nname = \"jobs\"\n");
    let server = Server::start(&settings);
    let mut http = connect(&server);
    let jobs = "/v1/queues/jobs";
    wait_for("it is made", || http.get(jobs).ok().filter(|answer| answer.status == 200));
    ok(http.patch(jobs, &json!({"paused": false})));
    assert!(!server.log().contains("the next start undoes this"), "nothing was changed");
    ok(http.patch(jobs, &json!({"paused": true})));
    server.says("the next start undoes this");
    assert!(server.terminate().status.success());
    let server = Server::start(&settings);
    server.says("the queue has the settings of its [[queue]] in the configuration again");
    assert_eq!(ok(connect(&server).get(jobs))["settings"]["paused"], false);
    end(server, &settings);
}

#[test]
fn another_number_of_shards_than_the_directory_has_is_refused() {
    let folder = folder();
    let server = Server::start(&settings(folder.path(), "shards = 2\n"));
    assert!(server.terminate().status.success());
    let ended = Server::refused(&settings(folder.path(), "shards = 3\n"));
    assert!(ended.log.contains("queues.shards") && ended.log.contains('2'), "{ended}");
}
