use super::*;

fn row(client_id: &str) -> PeerRow {
    let session = SessionRow {
        client_id: client_id.into(),
        owner: None,
        connection: None,
        is_durable: false,
        expiry_s: 0,
        detached_at: None,
        subscriptions: 0,
        in_flight: 0,
        inbox_messages: 0,
        inbox_bytes: 0,
    };
    PeerRow { session, peer: None }
}

/// A page of the parts of several workers: names, and `>` where a part says that there are more behind a name.
fn page(parts: &[&str], limit: usize) -> String {
    let part = |part: &&str| {
        let (names, next) = part.split_once('>').unwrap_or((part, ""));
        let next = Some(next).filter(|next| !next.is_empty()).map(Into::into);
        Ok(PortAnswer::Sessions(names.split_terminator(' ').map(row).collect(), next))
    };
    match merged(parts.iter().map(part).collect(), limit) {
        Ok(PortAnswer::Sessions(rows, next)) => {
            let names: Vec<_> = rows.iter().map(|row| &*row.session.client_id).collect();
            format!("{}>{}", names.join(" "), next.as_deref().unwrap_or_default())
        }
        other => format!("{other:?}"),
    }
}

#[test]
fn a_page_over_workers_ends_where_the_first_of_them_ends() {
    assert_eq!(page(&["a c", "b"], 3), "a b c>");
    assert_eq!(page(&["a c", "b d"], 3), "a b c>c");
    assert_eq!(page(&["a b>b", "x y"], 3), "a b>b", "the first worker has some between b and x");
    assert_eq!(page(&["b>c", "x y"], 2), "b>c", "c has ended since it was found, and d may follow");
    assert_eq!(page(&["", ""], 2), ">");
    assert_eq!(page(&["a b>b", "a2 z>z"], 2), "a a2>a2");
}

#[test]
fn a_worker_that_cannot_answer_spoils_the_page() {
    let answers = vec![Ok(PortAnswer::Sessions(vec![row("a")], None)), Err(Unavailable::Busy)];
    assert_eq!(merged(answers, 2).err(), Some(Unavailable::Busy));
}

#[test]
fn connections_are_added_up() {
    let drain = |connections| Ok(PortAnswer::Drain(DrainOfNetwork { per_second: Some(7), connections }));
    let Ok(PortAnswer::Drain(all)) = merged(vec![drain(2), drain(3)], 1) else { panic!("a drain") };
    assert_eq!(all, DrainOfNetwork { per_second: Some(7), connections: 5 });
}
