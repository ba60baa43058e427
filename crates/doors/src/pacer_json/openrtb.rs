//! What a campaign buys at exchanges, in JSON.

use serde::{Deserialize, Serialize};
use tidegate_pacer::plan::{Creative, Media, OpenRtb};
use utoipa::ToSchema;

use crate::json::word;

/// What a campaign buys in auctions of OpenRTB, and with which creatives. A list that is empty asks for nothing.
#[derive(Clone, Debug, Serialize, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub struct OpenRtbBody {
    /// The currency of the campaign's micros, as in ISO 4217.
    #[serde(default = "usd")]
    #[schema(required = false, example = "USD", pattern = "^[A-Z]{3}$")]
    currency: Box<str>,
    /// For whom it bids, as the exchange knows its buyers.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schema(required = false, value_type = String)]
    seat: Option<Box<str>>,
    /// Countries of the device, as in ISO 3166-1 alpha-3.
    #[serde(default)]
    #[schema(example = json!(["DEU", "AUT"]))]
    countries: Vec<Box<str>>,
    /// Kinds of the device: numbers of AdCOM's list "Device Types".
    #[serde(default)]
    #[schema(value_type = Vec<u32>)]
    device_types: Vec<u8>,
    /// Domains of sites, each with those below it. With `apps`: one of either.
    #[serde(default)]
    #[schema(example = json!(["news.example"]))]
    sites: Vec<Box<str>>,
    /// Bundles of apps.
    #[serde(default)]
    apps: Vec<Box<str>>,
    /// Placements, by their `tagid`.
    #[serde(default)]
    tags: Vec<Box<str>>,
    /// Deals: it bids under one of these, and in no open auction.
    #[serde(default)]
    deals: Vec<Box<str>>,
    /// What is shown; the first one that fits an impression.
    #[schema(min_items = 1, max_items = 16)]
    creatives: Vec<CreativeBody>,
}

/// What is shown.
#[derive(Clone, Debug, Serialize, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub struct CreativeBody {
    /// `crid`: by which exchanges review it.
    #[schema(example = "shoes-300x250")]
    id: Box<str>,
    /// `banner`, `video`, `audio` or `native`.
    #[serde(default = "banner")]
    #[schema(value_type = String, required = false, example = "banner")]
    media: MediaWord,
    /// Width; of a banner.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schema(required = false, value_type = u32, maximum = 65_535, example = 300)]
    width: Option<u16>,
    /// Height; of a banner.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schema(required = false, value_type = u32, maximum = 65_535, example = 250)]
    height: Option<u16>,
    /// `adm`: HTML, VAST, DAAST or the native response.
    #[schema(example = "<a href=\"https://shoes.example\">Shoes</a>")]
    markup: Box<str>,
    /// `adomain`: domains of the advertiser.
    #[schema(example = json!(["shoes.example"]))]
    domains: Vec<Box<str>>,
    /// `cat`: categories.
    #[serde(default)]
    #[schema(example = json!(["IAB18-3"]))]
    categories: Vec<Box<str>>,
    /// `cattax`: of which taxonomy these are; 1 is the content taxonomy 1.0 of the IAB.
    #[serde(default = "one")]
    #[schema(required = false, value_type = u32, maximum = 65_535)]
    category_taxonomy: u16,
    /// `attr`: numbers of AdCOM's list "Creative Attributes".
    #[serde(default)]
    #[schema(value_type = Vec<u32>)]
    attributes: Vec<u8>,
    /// `bundle` of the app that is advertised.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schema(required = false, value_type = String)]
    bundle: Option<Box<str>>,
    /// The type of its file; of video and audio.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schema(required = false, value_type = String)]
    mime: Option<Box<str>>,
    /// Its protocol, such as 3 for VAST 3.0; of video and audio.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schema(required = false, value_type = u32, minimum = 1, maximum = 63)]
    protocol: Option<u8>,
    /// How long it lasts; of video and audio.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schema(required = false, value_type = u32, maximum = 65_535)]
    duration_s: Option<u16>,
    /// It loads nothing without TLS.
    #[serde(default = "yes")]
    #[schema(required = false)]
    secure: bool,
}

/// A kind of creatives, as a word.
#[derive(Clone, Copy, Debug)]
struct MediaWord(Media);

const MEDIA: &[(&str, Media)] =
    &[("banner", Media::Banner), ("video", Media::Video), ("audio", Media::Audio), ("native", Media::Native)];

impl<'de> Deserialize<'de> for MediaWord {
    fn deserialize<D: serde::Deserializer<'de>>(deserializer: D) -> Result<MediaWord, D::Error> {
        word(deserializer, MEDIA).map(MediaWord)
    }
}

impl Serialize for MediaWord {
    fn serialize<S: serde::Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        self.0.serialize(serializer)
    }
}

fn usd() -> Box<str> {
    "USD".into()
}

fn banner() -> MediaWord {
    MediaWord(Media::Banner)
}

fn one() -> u16 {
    1
}

fn yes() -> bool {
    true
}

impl From<OpenRtbBody> for OpenRtb {
    fn from(body: OpenRtbBody) -> OpenRtb {
        let OpenRtbBody { currency, seat, countries, device_types, sites, apps, tags, deals, creatives } = body;
        let creatives = creatives.into_iter().map(Creative::from).collect();
        OpenRtb { currency, seat, countries, device_types, sites, apps, tags, deals, creatives }
    }
}

impl From<OpenRtb> for OpenRtbBody {
    fn from(plan: OpenRtb) -> OpenRtbBody {
        let OpenRtb { currency, seat, countries, device_types, sites, apps, tags, deals, creatives } = plan;
        let creatives = creatives.into_iter().map(CreativeBody::from).collect();
        OpenRtbBody { currency, seat, countries, device_types, sites, apps, tags, deals, creatives }
    }
}

/// The fields of a creative are called alike in both.
macro_rules! convert {
    ($from:ident to $to:ident, media by $of:expr; $($field:ident),+) => {
        impl From<$from> for $to {
            fn from(of: $from) -> $to {
                let media = $of(of.media);
                $to { media, $($field: of.$field),+ }
            }
        }
    };
}

convert!(CreativeBody to Creative, media by |MediaWord(media)| media;
    id, width, height, markup, domains, categories, category_taxonomy, attributes, bundle, mime, protocol, duration_s,
    secure);
convert!(Creative to CreativeBody, media by MediaWord;
    id, width, height, markup, domains, categories, category_taxonomy, attributes, bundle, mime, protocol, duration_s,
    secure);
