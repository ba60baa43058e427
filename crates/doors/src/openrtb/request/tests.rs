//! What is read of the requests of exchanges, and what is refused.

use super::*;

/// A sample, decoded.
macro_rules! sample {
    ($name:literal) => {
        read(include_bytes!(concat!("../samples/", $name, ".json"))).expect("a request of an exchange")
    };
}

fn refused(body: &str) -> (String, String) {
    let problem = read(body.as_bytes()).expect_err("it is refused");
    (problem.code().name().to_owned(), problem.detail().to_owned())
}

#[test]
fn a_banner_on_a_site() {
    let decoded = sample!("iab_banner");
    assert_eq!((&*decoded.id, &*decoded.impression_ids[0]), ("4f8c2b7e1d9a36508ce7", "1"));
    let usd = CurrencyCode::USD;
    let banner = Some(Banner { sizes: vec![(300, 250)], blocked: 0 });
    let floor = Floor { micros: 40, currency: usd };
    let impression = Impression { id: exact("1"), banner, floor, ..Impression::default() };
    let expected = Request {
        id: exact("4f8c2b7e1d9a36508ce7"),
        user: exact("b30f1c94d2e74a8d"),
        sites: domains("daily-paper.example"),
        currencies: vec![usd],
        blocked: Blocked { taxonomy: 1, ..Blocked::default() },
        impressions: vec![impression],
        ..Request::default()
    };
    assert_eq!(decoded.request, expected);
}

#[test]
fn a_banner_in_an_app() {
    let request = sample!("iab_app").request;
    assert_eq!((request.app, request.sites.len(), request.device_type), (folded("628677001"), 0, 1));
    assert_eq!(request.user, exact("f0a1c3"));
    assert!(request.blocked.categories.is_sorted() && request.blocked.categories.contains(&folded("IAB8-18")));
    assert_eq!(request.blocked.domains, sorted(vec![site("rival.example"), site("other-rival.example")]));
    let impression = &request.impressions[0];
    assert_eq!((impression.tag, impression.floor.micros), (exact("bottom-bar-17"), 500));
    assert_eq!(impression.banner, Some(Banner { sizes: vec![(728, 90)], blocked: 1 << 14 }));
    assert_eq!(request.currencies, [CurrencyCode::USD], "what is meant if none is named");
}

#[test]
fn a_film_a_sound_and_parts() {
    let video = sample!("iab_video").request;
    assert_eq!(video.user, exact("54567"), "the id that the buyer knows comes first");
    let stream = video.impressions[0].video.as_ref().expect("a film");
    assert_eq!((stream.seconds_min, stream.seconds_max, stream.protocols), (5, 30, 1 << 2 | 1 << 3));
    assert_eq!(stream.blocked, 1 << 13 | 1 << 14);
    assert!(stream.mimes.contains(&folded("video/mp4")) && stream.mimes.len() == 3);
    let audio = sample!("fluct_audio").request;
    let stream = audio.impressions[0].audio.as_ref().expect("a sound");
    assert!(stream.mimes.contains(&folded("audio/mpeg")), "a solidus that is escaped");
    assert_eq!(audio.impressions[0].floor, Floor { micros: 300_000, currency: CurrencyCode(*b"JPY") });
    let native = sample!("triplelift_native").request;
    assert_eq!((native.impressions[0].native, native.country, native.user), (Some(0), folded("USA"), 0));
}

#[test]
fn deals_and_who_may_have_them() {
    let request = sample!("iab_deals").request;
    let impression = &request.impressions[0];
    assert!(impression.is_private);
    let floor = |micros| Floor { micros, currency: CurrencyCode::USD };
    let deal = |id: &str, micros, seat: &str| Deal {
        id: exact(id),
        floor: floor(micros),
        seats: vec![exact(seat)],
        domains: vec![],
    };
    assert_eq!(impression.deals, [deal("SHOES-Q4-01", 2_500, "agency-a"), deal("HATS-Q4-01", 2_000, "agency-b")]);
}

#[test]
fn what_an_exchange_leaves_empty_is_not_there() {
    let request = sample!("fluct_web").request;
    assert_eq!(request.currencies, [CurrencyCode(*b"JPY"), CurrencyCode::USD]);
    assert_eq!(request.seats, Seats::default(), "an empty list of buyers is none");
    assert_eq!(request.user, exact("9c73dc20"), "the buyer knows no id");
    let impression = &request.impressions[0];
    assert_eq!((impression.id, impression.is_secure, impression.deals.len()), (0, true, 0));
    assert_eq!(impression.banner, Some(Banner { sizes: vec![(300, 250)], blocked: 0 }), "named twice");
    assert_eq!(impression.floor, Floor { micros: 2_431, currency: CurrencyCode::USD }, "2.430134 is above 2.430");
    let nulls = r#"{"id":"a","imp":[{"id":"1","banner":null,"bidfloor":null,"pmp":null}],"site":null,"cur":null}"#;
    assert_eq!(read(nulls.as_bytes()).expect("null is absent").request.impressions[0].banner, None);
}

#[test]
fn who_does_not_want_to_be_followed_is_nobody() {
    let user = |rest: &str| {
        let body = format!(r#"{{"id":"a","imp":[],"user":{{"id":"u"}},{rest}}}"#);
        read(body.as_bytes()).expect("a request").request.user
    };
    assert_eq!(user(r#""device":{"lmt":0,"dnt":0}"#), exact("u"));
    for private in [r#""device":{"lmt":1}"#, r#""device":{"dnt":1}"#, r#""regs":{"coppa":1}"#] {
        assert_eq!(user(private), 0, "{private}");
    }
}

#[test]
fn what_is_wrong_is_named() {
    let code = |body: &str| refused(body).0;
    for body in ["", "{\"id\":\"a\",\"imp\":[", "\u{feff}{}"] {
        assert_eq!(code(body), "json_invalid", "{body}");
    }
    let (code, detail) = refused(r#"{"id":"a","imp":[{"id":"1","banner":{"w":"300"}}]}"#);
    assert_eq!(code, "field_invalid");
    assert!(detail.starts_with("imp[0].banner.w: "), "{detail}");
    for (body, said) in [
        (r#"{"imp":[]}"#, "missing field `id`"),
        (r#"{"id":"a"}"#, "missing field `imp`"),
        (r#"{"id":7,"imp":[]}"#, "expected a string"),
        (r#"{"id":"a","imp":[{}]}"#, "missing field `id`"),
        (r#"{"id":"a","imp":[],"site":[]}"#, "expected a JSON object"),
        (r#"{"id":"a","imp":[],"bcat":"IAB1"}"#, "expected a sequence"),
    ] {
        let (_, detail) = refused(body);
        assert!(detail.contains(said), "{detail}");
    }
    let many = format!(r#"{{"id":"a","imp":[{}]}}"#, vec![r#"{"id":"1"}"#; 65].join(","));
    assert!(refused(&many).1.contains("a list of at most 64"), "{}", refused(&many).1);
}

#[test]
fn numbers_of_any_size_are_taken_for_what_they_mean() {
    let body = r#"{"id":"a","imp":[{"id":"1","bidfloor":1e300,"banner":{"w":99999999,"h":-1,"battr":[-1,3,64,500]}}],
        "device":{"devicetype":-4},"test":1}"#;
    let request = read(body.as_bytes()).expect("a request").request;
    assert_eq!(request.impressions[0].banner, Some(Banner { sizes: vec![(u16::MAX, 0)], blocked: 1 << 3 }));
    assert_eq!((request.device_type, request.is_test), (0, true));
    assert_eq!(request.impressions[0].floor.micros, u64::MAX);
}
