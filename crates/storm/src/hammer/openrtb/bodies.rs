//! Bid requests as exchanges send them, made of the samples of the door: other sites, apps, sizes and users in each.
//!
//! Their lengths are those of real ones, 1 to 2 kB: browsers say what they are in 120 bytes, and consent takes 200.

use serde_json::{Value, json};

/// Different requests.
const COUNT: usize = 240;
/// Sites, and as many apps, that campaigns of the bench buy: on the others nobody bids.
pub const PLACES_BOUGHT: usize = 120;
/// Sizes of banners: what campaigns of the bench have creatives for.
pub const SIZES: [(u16, u16); 4] = [(300, 250), (728, 90), (320, 50), (160, 600)];
/// Where devices are.
const COUNTRIES: [&str; 4] = ["DEU", "USA", "JPN", "FRA"];

/// Digits of ids that differ from request to request.
pub const ID_DIGITS: usize = 16;
/// What stands for them in a body until it is found and replaced.
const REQUEST_ID: &str = "5a5aa5a55a5a0001";
const USER_ID: &str = "5a5aa5a55a5a0002";

/// A request of which only the ids are still to be written.
pub struct Body {
    /// JSON.
    pub bytes: Vec<u8>,
    /// Where the digits of its id begin.
    pub id_at: usize,
    /// Where those of the user begin.
    pub user_at: usize,
}

/// All bodies, in the order in which they are sent.
pub fn bodies() -> Vec<Body> {
    let samples: Vec<Value> = [
        include_str!("../../../../doors/src/openrtb/samples/fluct_web.json"),
        include_str!("../../../../doors/src/openrtb/samples/iab_app.json"),
        include_str!("../../../../doors/src/openrtb/samples/iab_video.json"),
        include_str!("../../../../doors/src/openrtb/samples/triplelift_native.json"),
        include_str!("../../../../doors/src/openrtb/samples/iab_deals.json"),
    ]
    .iter()
    .map(|text| serde_json::from_str(text).expect("a sample is JSON"))
    .collect();
    // One after the other of each kind; places that are bought and places that are not take turns.
    (0..COUNT).map(|index| body(samples[index % samples.len()].clone(), index)).collect()
}

/// The domain of a site.
pub fn site(place: usize) -> String {
    format!("site-{place}.example")
}

/// The bundle of an app.
pub fn app(place: usize) -> String {
    format!("com.example.app{place}")
}

fn body(mut request: Value, index: usize) -> Body {
    // 97 and the number of places have no common divisor, so that all places are asked for.
    let place = index * 97 % (2 * PLACES_BOUGHT);
    let (width, height) = SIZES[index / 5 % SIZES.len()];
    request["id"] = json!(format!("{REQUEST_ID}-4b8e-9a3f-0c2f9d0e55aa"));
    request["tmax"] = json!(120);
    if request["app"].is_object() {
        request["app"]["bundle"] = json!(app(place));
    } else {
        request["site"]["domain"] = json!(site(place));
        request["site"]["page"] = json!(format!("https://{}/world/2026/11/28/an-article-{index}.html", site(place)));
    }
    if request["imp"][0]["banner"].is_object() {
        request["imp"][0]["banner"] =
            json!({ "w": width, "h": height, "pos": 1, "battr": [9, 14], "format": [{ "w": width, "h": height }] });
    }
    request["device"]["ua"] = json!(format!(
        "Mozilla/5.0 (Linux; Android 14; Pixel {}) AppleWebKit/537.36 (KHTML, like Gecko) Chrome/{}.0.0.0 Mobile \
         Safari/537.36",
        6 + index % 4,
        120 + index % 9
    ));
    request["device"]["geo"] = json!({
        "country": COUNTRIES[index % COUNTRIES.len()], "lat": 50.11, "lon": 8.68, "type": 2, "city": "Frankfurt",
    });
    request["user"]["id"] = json!(format!("{USER_ID}-{index}"));
    request["user"]["buyeruid"] = json!("");
    request["user"]["ext"] = json!({ "consent": "CPzHq4APzHq4AAHABBENDzCsAP_AAH_AAAAAJ".repeat(5) });
    let bytes = request.to_string().into_bytes();
    let at = |digits: &str| {
        let found = bytes.windows(ID_DIGITS).position(|window| window == digits.as_bytes());
        found.expect("the digits are in the body")
    };
    let (id_at, user_at) = (at(REQUEST_ID), at(USER_ID));
    Body { bytes, id_at, user_at }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::collections::HashSet;

    #[test]
    fn bodies_are_those_of_exchanges() {
        let bodies = bodies();
        let lengths: Vec<usize> = bodies.iter().map(|body| body.bytes.len()).collect();
        assert!(lengths.iter().all(|length| (1_000..2_100).contains(length)), "{lengths:?}");
        let requests: Vec<Value> =
            bodies.iter().map(|body| serde_json::from_slice(&body.bytes).expect("JSON")).collect();
        let place = |request: &Value| match &request["app"]["bundle"] {
            Value::String(bundle) => bundle.clone(),
            _ => request["site"]["domain"].as_str().expect("a site or an app").to_owned(),
        };
        let places: HashSet<String> = requests.iter().map(place).collect();
        assert_eq!(places.len(), COUNT);
        let bought: HashSet<String> = (0..PLACES_BOUGHT).flat_map(|place| [site(place), app(place)]).collect();
        assert_eq!(places.intersection(&bought).count(), COUNT / 2);
    }
}
