//! What a campaign buys, made ready to be compared.

use serde::Serialize;
use tidegate_shard::form;

use super::name::{CurrencyCode, categories, domains, exact, folded, site};
use super::request::{Blocked, Deal, Floor, Impression, Request, Stream, has};
use crate::limits::CREATIVES_MAX;
use crate::plan::{Creative, Media, OpenRtb};

/// What a campaign buys.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Offering {
    /// What it bids in.
    pub currency: CurrencyCode,
    /// For whom, as the exchange names it.
    pub seat: Option<Box<str>>,
    seat_hash: Option<u64>,
    countries: Box<[u64]>,
    device_types: Box<[u8]>,
    sites: Box<[u64]>,
    apps: Box<[u64]>,
    tags: Box<[u64]>,
    deals: Box<[(u64, Box<str>)]>,
    creatives: Box<[Offered]>,
    /// Domains of the creatives and those that they are below.
    domains: Names,
    /// Categories of the creatives and those that they are below.
    categories: Names,
}

/// Some creatives of a campaign, a bit each.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct CreativeSet(u16);

const _: () = assert!(CREATIVES_MAX <= u16::BITS as usize);

/// Hashes of names of creatives, sorted, each once: with the creatives that have it.
#[derive(Clone, Debug, PartialEq, Eq)]
struct Names(Box<[(u64, CreativeSet)]>);

/// Of two sorted lists, the shorter one is looked up in the other if that is so many times as long; else both are gone
/// through together.
const SEARCH_RATIO: usize = 8;

/// A creative, made ready.
#[derive(Clone, Debug, PartialEq, Eq)]
struct Offered {
    media: Media,
    size: (u16, u16),
    has_category: bool,
    taxonomy: u16,
    attributes: u64,
    bundle: u64,
    mime: u64,
    /// A bit, or none.
    protocol: u64,
    duration_s: Option<u16>,
    is_secure: bool,
    written: Box<[u8]>,
}

/// With what a campaign takes part in the auction of an impression.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Fit {
    /// Which creative.
    creative: usize,
    /// Under which deal of the plan.
    deal: Option<usize>,
    /// What the bid must be at least.
    pub floor: Floor,
}

/// What a bid says of its creative: fields as OpenRTB names them.
#[derive(Serialize)]
struct Written<'p> {
    adm: &'p str,
    adomain: &'p [Box<str>],
    cid: &'p str,
    crid: &'p str,
    #[serde(skip_serializing_if = "<[_]>::is_empty")]
    cat: &'p [Box<str>],
    #[serde(skip_serializing_if = "Option::is_none")]
    cattax: Option<u16>,
    #[serde(skip_serializing_if = "<[_]>::is_empty")]
    attr: &'p [u8],
    #[serde(skip_serializing_if = "Option::is_none")]
    bundle: Option<&'p str>,
    #[serde(skip_serializing_if = "Option::is_none")]
    w: Option<u16>,
    #[serde(skip_serializing_if = "Option::is_none")]
    h: Option<u16>,
    #[serde(skip_serializing_if = "Option::is_none")]
    protocol: Option<u8>,
    #[serde(skip_serializing_if = "Option::is_none")]
    dur: Option<u16>,
    mtype: u8,
}

impl Offering {
    /// Of the plan of this campaign.
    pub fn of(campaign: &str, plan: &OpenRtb) -> Offering {
        let all = |names: &[Box<str>], hash: fn(&str) -> u64| names.iter().map(|name| hash(name)).collect();
        Offering {
            currency: CurrencyCode::of(&plan.currency).unwrap_or(CurrencyCode::USD),
            seat: plan.seat.clone(),
            seat_hash: plan.seat.as_deref().map(exact),
            countries: all(&plan.countries, folded),
            device_types: plan.device_types.clone().into(),
            sites: all(&plan.sites, site),
            apps: all(&plan.apps, folded),
            tags: all(&plan.tags, exact),
            deals: plan.deals.iter().map(|deal| (exact(deal), deal.clone())).collect(),
            creatives: plan.creatives.iter().map(|creative| Offered::of(campaign, creative)).collect(),
            domains: Names::of(plan.creatives.iter().map(|creative| &*creative.domains), domains),
            categories: Names::of(plan.creatives.iter().map(|creative| &*creative.categories), categories),
        }
    }

    /// The creatives that a request does not block. A taxonomy that one is not in says nothing of it, so that it may be
    /// blocked.
    pub fn wanted(&self, blocked: &Blocked) -> CreativeSet {
        let by_domain = self.domains.which(&blocked.domains);
        let by_category = self.categories.which(&blocked.categories);
        let is_wanted = |(place, creative): &(usize, &Offered)| {
            let is_category_blocked = !blocked.categories.is_empty()
                && creative.has_category
                && (blocked.taxonomy != creative.taxonomy || by_category.has(*place));
            let is_app_blocked = creative.bundle != 0 && has(&blocked.apps, creative.bundle);
            !is_category_blocked && !is_app_blocked && !by_domain.has(*place)
        };
        self.creatives.iter().enumerate().filter(is_wanted).map(|(place, _)| place).collect()
    }

    /// What bids of this campaign are looked up by: of its lists, the one that says most.
    pub(super) fn targets(&self) -> Vec<Target> {
        if !self.deals.is_empty() {
            return self.deals.iter().map(|(deal, _)| Target::Deal(*deal)).collect();
        }
        if !self.tags.is_empty() {
            return self.tags.iter().map(|tag| Target::Tag(*tag)).collect();
        }
        if !self.sites.is_empty() || !self.apps.is_empty() {
            let sites = self.sites.iter().map(|site| Target::Site(*site));
            return sites.chain(self.apps.iter().map(|app| Target::App(*app))).collect();
        }
        if !self.countries.is_empty() {
            return self.countries.iter().map(|country| Target::Country(*country)).collect();
        }
        vec![Target::Any]
    }

    /// Of which kinds and sizes its creatives are.
    pub(super) fn shapes(&self) -> Vec<Shape> {
        let mut shapes: Vec<Shape> = self.creatives.iter().map(Offered::shape).collect();
        shapes.sort_unstable();
        shapes.dedup();
        shapes
    }

    /// Whether it takes part in the auction of this impression in this currency, and with what. `wanted` gives what
    /// [`Offering::wanted`] says of the request, and is asked last.
    pub fn fits(
        &self,
        request: &Request,
        impression: &Impression,
        currency: CurrencyCode,
        wanted: impl FnOnce() -> CreativeSet,
    ) -> Option<Fit> {
        let is_in = |list: &[u64], one: u64| list.is_empty() || list.contains(&one);
        if self.currency != currency
            || !request.seats.allow(self.seat_hash)
            || !is_in(&self.countries, request.country)
            || !is_in(&self.tags, impression.tag)
            || !(self.device_types.is_empty() || self.device_types.contains(&request.device_type))
            || !self.is_at(request)
        {
            return None;
        }
        let (deal, offered) = match self.deals.is_empty() {
            true if impression.is_private => return None,
            true => (None, None),
            false => {
                let known = |deal: &Deal| self.deals.iter().position(|(id, _)| *id == deal.id);
                let mut allowed = impression.deals.iter().filter(|deal| self.may_under(deal));
                let (place, deal) = allowed.find_map(|deal| Some((known(deal)?, deal)))?;
                (Some(place), Some(deal))
            }
        };
        if !self.creatives.iter().any(|creative| creative.has_room(impression)) {
            return None;
        }
        let mut allowed = wanted();
        if let Some(deal) = offered.filter(|deal| !deal.domains.is_empty()) {
            allowed.0 &= self.domains.which(&deal.domains).0;
        }
        let fits = |(place, creative): (usize, &Offered)| allowed.has(place) && creative.has_room(impression);
        let creative = self.creatives.iter().enumerate().position(fits)?;
        Some(Fit { creative, deal, floor: offered.map_or(impression.floor, |deal| deal.floor) })
    }

    fn is_at(&self, request: &Request) -> bool {
        self.sites.is_empty() && self.apps.is_empty()
            || request.sites.iter().any(|site| self.sites.contains(site))
            || request.app != 0 && self.apps.contains(&request.app)
    }

    fn may_under(&self, deal: &Deal) -> bool {
        deal.seats.is_empty() || self.seat_hash.is_some_and(|seat| has(&deal.seats, seat))
    }

    /// What a bid says of its creative: members of a JSON object, each with a comma before it.
    pub fn written(&self, fit: &Fit) -> &[u8] {
        &self.creatives[fit.creative].written
    }

    /// The id of the deal under which it bids.
    pub fn deal(&self, fit: &Fit) -> Option<&str> {
        fit.deal.map(|place| &*self.deals[place].1)
    }
}

/// By what campaigns are looked up.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(super) enum Target {
    Any,
    Country(u64),
    Site(u64),
    App(u64),
    Tag(u64),
    Deal(u64),
}

/// Kind and size of a creative: what its room must have.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub(super) enum Shape {
    Banner(u16, u16),
    Video,
    Audio,
    Native,
}

impl Offered {
    fn of(campaign: &str, creative: &Creative) -> Offered {
        let attributes = creative.attributes.iter().fold(0, |mask, attribute| mask | bit(*attribute));
        Offered {
            media: creative.media,
            size: (creative.width.unwrap_or(0), creative.height.unwrap_or(0)),
            has_category: !creative.categories.is_empty(),
            taxonomy: creative.category_taxonomy,
            attributes,
            bundle: creative.bundle.as_deref().map_or(0, folded),
            mime: creative.mime.as_deref().map_or(0, folded),
            protocol: creative.protocol.map_or(0, bit),
            duration_s: creative.duration_s,
            is_secure: creative.secure,
            written: written(campaign, creative),
        }
    }

    fn shape(&self) -> Shape {
        match self.media {
            Media::Banner => Shape::Banner(self.size.0, self.size.1),
            Media::Video => Shape::Video,
            Media::Audio => Shape::Audio,
            Media::Native => Shape::Native,
        }
    }

    /// Whether it can be shown there.
    fn has_room(&self, impression: &Impression) -> bool {
        if impression.is_secure && !self.is_secure {
            return false;
        }
        match self.media {
            Media::Banner => impression
                .banner
                .as_ref()
                .is_some_and(|banner| banner.blocked & self.attributes == 0 && banner.sizes.contains(&self.size)),
            Media::Video => impression.video.as_ref().is_some_and(|video| self.plays(video)),
            Media::Audio => impression.audio.as_ref().is_some_and(|audio| self.plays(audio)),
            Media::Native => impression.native.is_some_and(|blocked| blocked & self.attributes == 0),
        }
    }

    fn plays(&self, stream: &Stream) -> bool {
        let in_time =
            |seconds: u16| stream.seconds_min <= seconds && (stream.seconds_max == 0 || seconds <= stream.seconds_max);
        stream.blocked & self.attributes == 0
            && (self.mime == 0 || stream.mimes.is_empty() || stream.mimes.contains(&self.mime))
            && (self.protocol == 0 || stream.protocols == 0 || stream.protocols & self.protocol != 0)
            && self.duration_s.is_none_or(in_time)
    }
}

impl Names {
    /// Of the names of each creative; `hashes` makes of one its own hash and those of all that it is below.
    fn of<'p>(all: impl Iterator<Item = &'p [Box<str>]>, hashes: fn(&str) -> Vec<u64>) -> Names {
        let of_creative = |(place, names): (usize, &'p [Box<str>])| {
            let hashed = names.iter().flat_map(move |name| hashes(name));
            hashed.map(move |hash| (hash, CreativeSet::of(place)))
        };
        let mut sorted: Vec<(u64, CreativeSet)> = all.enumerate().flat_map(of_creative).collect();
        sorted.sort_unstable_by_key(|(hash, _)| *hash);
        sorted.dedup_by(|(hash, set), (kept, of_kept)| {
            let is_same = hash == kept;
            if is_same {
                of_kept.0 |= set.0;
            }
            is_same
        });
        Names(sorted.into())
    }

    /// The creatives with a name of a sorted list.
    fn which(&self, list: &[u64]) -> CreativeSet {
        let names = &*self.0;
        let mut found = 0;
        if names.len() * SEARCH_RATIO <= list.len() {
            names.iter().filter(|(hash, _)| has(list, *hash)).for_each(|(_, set)| found |= set.0);
        } else if list.len() * SEARCH_RATIO <= names.len() {
            let places = list.iter().filter_map(|hash| names.binary_search_by_key(hash, |(name, _)| *name).ok());
            places.for_each(|place| found |= names[place].1.0);
        } else {
            let mut rest = list;
            for (hash, set) in names {
                while let [first, behind @ ..] = rest
                    && first < hash
                {
                    rest = behind;
                }
                found |= if rest.first() == Some(hash) { set.0 } else { 0 };
            }
        }
        CreativeSet(found)
    }
}

impl CreativeSet {
    fn of(place: usize) -> CreativeSet {
        CreativeSet(1 << place)
    }

    fn has(self, place: usize) -> bool {
        self.0 & CreativeSet::of(place).0 != 0
    }
}

impl FromIterator<usize> for CreativeSet {
    fn from_iter<I: IntoIterator<Item = usize>>(places: I) -> CreativeSet {
        places.into_iter().fold(CreativeSet::default(), |set, place| CreativeSet(set.0 | CreativeSet::of(place).0))
    }
}

/// A bit for a number below 64; none for others.
pub(super) fn bit(number: u8) -> u64 {
    1u64.checked_shl(number.into()).unwrap_or(0)
}

fn written(campaign: &str, creative: &Creative) -> Box<[u8]> {
    let has_category = !creative.categories.is_empty();
    let mut written = form::write(&Written {
        adm: &creative.markup,
        adomain: &creative.domains,
        cid: campaign,
        crid: &creative.id,
        cat: &creative.categories,
        cattax: has_category.then_some(creative.category_taxonomy),
        attr: &creative.attributes,
        bundle: creative.bundle.as_deref(),
        w: creative.width,
        h: creative.height,
        protocol: creative.protocol,
        dur: creative.duration_s,
        mtype: creative.media.number(),
    });
    // `{"adm":…}` becomes `,"adm":…`.
    written[0] = b',';
    written.pop();
    written.into()
}
