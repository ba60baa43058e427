use super::*;

#[test]
fn the_date_is_of_the_second() {
    let mut date = DateLine::default();
    let first = SystemTime::UNIX_EPOCH + Duration::from_millis(1_795_252_489_900);
    for (later_ms, expected) in [
        (0, "Sat, 21 Nov 2026 09:14:49 GMT"),
        (99, "Sat, 21 Nov 2026 09:14:49 GMT"),
        (100, "Sat, 21 Nov 2026 09:14:50 GMT"),
        (86_400_000, "Sun, 22 Nov 2026 09:14:49 GMT"),
        // The clock was put back.
        (0, "Sat, 21 Nov 2026 09:14:49 GMT"),
    ] {
        assert_eq!(date.at(first + Duration::from_millis(later_ms)), expected, "{later_ms}");
    }
}

#[test]
fn the_last_answer_says_that_it_is() {
    let text = |answer: Response<Full<Bytes>>, is_last| {
        let mut bytes = Vec::new();
        let ends = append(&mut bytes, answer, is_last, &mut DateLine::default());
        (String::from_utf8(bytes).unwrap().replace('\r', ""), ends)
    };
    let answer = || Response::new(Full::from("hello"));
    let (kept, ends) = text(answer(), false);
    assert!(kept.starts_with("HTTP/1.1 200 OK\ncontent-length: 5\ndate: ") && kept.ends_with("\n\nhello"), "{kept}");
    assert!(!ends && !kept.contains("connection"), "{kept}");
    let (last, ends) = text(answer(), true);
    assert!(ends && last.starts_with("HTTP/1.1 200 OK\nconnection: close\ncontent-length: 5\n"), "{last}");
    let mut none = Response::new(Full::default());
    *none.status_mut() = StatusCode::NO_CONTENT;
    let (none, _) = text(none, false);
    assert!(none.starts_with("HTTP/1.1 204 No Content\ndate: ") && none.ends_with("\n\n"), "{none}");
    let mut closing = answer();
    closing.headers_mut().insert(header::CONNECTION, HeaderValue::from_static("close"));
    let (closing, ends) = text(closing, false);
    assert!(ends && closing.matches("connection: close").count() == 1, "{closing}");
}
