//! What a campaign buys at exchanges that speak OpenRTB 2.6, and with which creatives.

use std::collections::BTreeSet;

use serde::{Deserialize, Serialize};

use super::Fault;
use crate::limits::{
    CREATIVES_MAX, MARKUP_BYTES_MAX, OPENRTB_COMPARED_MAX, OPENRTB_NAME_BYTES_MAX, OPENRTB_NAMES_MAX,
    OPENRTB_PLAN_BYTES_MAX,
};

/// What a campaign buys, and with which creatives. Each list that is empty asks for nothing.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct OpenRtb {
    /// The currency of the campaign's micros, as in ISO 4217.
    pub currency: Box<str>,
    /// For whom it bids, as an exchange knows its buyers.
    pub seat: Option<Box<str>>,
    /// Countries of the device, as in ISO 3166-1 alpha-3.
    pub countries: Vec<Box<str>>,
    /// Kinds of the device: numbers of AdCOM's list "Device Types".
    pub device_types: Vec<u8>,
    /// Domains of sites, each with those below it. Together with `apps`: one of either.
    pub sites: Vec<Box<str>>,
    /// Bundles of apps.
    pub apps: Vec<Box<str>>,
    /// Placements, by their `tagid`.
    pub tags: Vec<Box<str>>,
    /// Deals: it bids under one of these, and in no open auction.
    pub deals: Vec<Box<str>>,
    /// What is shown; the first one that fits an impression.
    pub creatives: Vec<Creative>,
}

/// What is shown.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Creative {
    /// `crid`: by which exchanges review it.
    pub id: Box<str>,
    /// Of which kind it is.
    pub media: Media,
    /// Width in device independent pixels; of a banner.
    pub width: Option<u16>,
    /// Height; of a banner.
    pub height: Option<u16>,
    /// `adm`: HTML, VAST, DAAST or the native response.
    pub markup: Box<str>,
    /// `adomain`: of the advertiser.
    pub domains: Vec<Box<str>>,
    /// `cat`.
    pub categories: Vec<Box<str>>,
    /// `cattax`: of which taxonomy these are; 1 is the content taxonomy 1.0 of the IAB.
    pub category_taxonomy: u16,
    /// `attr`: numbers of AdCOM's list "Creative Attributes".
    pub attributes: Vec<u8>,
    /// `bundle` of the app that is advertised.
    pub bundle: Option<Box<str>>,
    /// The type of its file; of video and audio.
    pub mime: Option<Box<str>>,
    /// Its protocol, such as 3 for VAST 3.0; of video and audio.
    pub protocol: Option<u8>,
    /// How long it lasts; of video and audio.
    pub duration_s: Option<u16>,
    /// It loads nothing without TLS.
    pub secure: bool,
}

/// Kinds of creatives.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Media {
    /// A picture or HTML.
    Banner,
    /// A film.
    Video,
    /// A sound.
    Audio,
    /// Parts that a publisher arranges.
    Native,
}

impl Media {
    /// `mtype` of OpenRTB 2.6.
    pub const fn number(self) -> u8 {
        match self {
            Media::Banner => 1,
            Media::Video => 2,
            Media::Audio => 3,
            Media::Native => 4,
        }
    }
}

fn fault(field: &'static str, why: impl Into<String>) -> Result<(), Fault> {
    Err(Fault { field, why: why.into() })
}

impl OpenRtb {
    /// Bytes of memory, about.
    pub fn bytes(&self) -> usize {
        let names = |names: &[Box<str>]| names.iter().map(|name| size_of::<Box<str>>() + name.len()).sum::<usize>();
        let lists = [&self.countries, &self.sites, &self.apps, &self.tags, &self.deals].map(|list| names(list));
        let of_creative = |creative: &Creative| {
            let texts = creative.markup.len() + names(&creative.domains) + names(&creative.categories);
            size_of::<Creative>() + texts + creative.id.len() + creative.attributes.len()
        };
        let creatives: usize = self.creatives.iter().map(of_creative).sum();
        size_of::<OpenRtb>() + lists.iter().sum::<usize>() + creatives
    }

    /// The first thing that is wrong with it.
    pub fn check(&self) -> Result<(), Fault> {
        if !is_of_letters(&self.currency, 3) {
            return fault("openrtb.currency", "expected three capital letters of ISO 4217, such as \"USD\"");
        }
        if !self.countries.iter().all(|country| is_of_letters(country, 3)) {
            let why = "expected three capital letters of ISO 3166-1 each, such as \"DEU\"";
            return fault("openrtb.countries", why);
        }
        for (field, names) in [
            ("openrtb.countries", &self.countries),
            ("openrtb.sites", &self.sites),
            ("openrtb.apps", &self.apps),
            ("openrtb.tags", &self.tags),
            ("openrtb.deals", &self.deals),
        ] {
            check_names(field, names)?;
        }
        check_names("openrtb.seat", self.seat.as_slice())?;
        if self.device_types.len() > OPENRTB_NAMES_MAX || self.device_types.contains(&0) {
            return fault("openrtb.device_types", "expected at most 64 numbers from 1 to 255");
        }
        if !(1..=CREATIVES_MAX).contains(&self.creatives.len()) {
            return fault("openrtb.creatives", format!("expected 1 to {CREATIVES_MAX} creatives"));
        }
        self.creatives.iter().try_for_each(Creative::check)?;
        let domains = self.creatives.iter().flat_map(|creative| &creative.domains);
        check_compared("openrtb.creatives.domains", domains, '.')?;
        let categories = self.creatives.iter().flat_map(|creative| &creative.categories);
        check_compared("openrtb.creatives.categories", categories, '-')?;
        let bytes: usize = self.creatives.iter().map(|creative| creative.markup.len()).sum();
        if bytes > OPENRTB_PLAN_BYTES_MAX {
            let why = format!("expected at most {OPENRTB_PLAN_BYTES_MAX} bytes of markup in all creatives together");
            return fault("openrtb.creatives", why);
        }
        Ok(())
    }
}

impl Creative {
    fn check(&self) -> Result<(), Fault> {
        check_names("openrtb.creatives.id", std::slice::from_ref(&self.id))?;
        if !(1..=MARKUP_BYTES_MAX).contains(&self.markup.len()) {
            return fault("openrtb.creatives.markup", format!("expected 1 to {MARKUP_BYTES_MAX} bytes"));
        }
        let is_sized = [self.width, self.height].iter().all(|side| side.is_some_and(|side| side > 0));
        if self.media == Media::Banner && !is_sized {
            return fault("openrtb.creatives.width", "expected width and height of a banner, 1 to 65535 each");
        }
        if self.domains.is_empty() {
            let why = "expected the domain of the advertiser: exchanges block by it (`badv`)";
            return fault("openrtb.creatives.domains", why);
        }
        check_names("openrtb.creatives.domains", &self.domains)?;
        check_names("openrtb.creatives.categories", &self.categories)?;
        check_names("openrtb.creatives.bundle", self.bundle.as_slice())?;
        check_names("openrtb.creatives.mime", self.mime.as_slice())?;
        if self.attributes.iter().any(|attribute| !(1..64).contains(attribute)) {
            return fault("openrtb.creatives.attributes", "expected numbers from 1 to 63");
        }
        if self.protocol.is_some_and(|protocol| !(1..64).contains(&protocol)) {
            return fault("openrtb.creatives.protocol", "expected 1 to 63");
        }
        Ok(())
    }
}

fn is_of_letters(text: &str, count: usize) -> bool {
    text.len() == count && text.bytes().all(|byte| byte.is_ascii_uppercase())
}

/// Each name is compared with all that it is below, which `separator` tells apart.
fn check_compared<'p>(
    field: &'static str,
    names: impl Iterator<Item = &'p Box<str>>,
    separator: char,
) -> Result<(), Fault> {
    let different: BTreeSet<&str> = names.map(|name| &**name).collect();
    let compared: usize = different.iter().map(|name| name.split(separator).count()).sum();
    if compared <= OPENRTB_COMPARED_MAX {
        return Ok(());
    }
    let why = format!(
        "expected at most {OPENRTB_COMPARED_MAX} in all creatives together, each counted with those that it is below; \
         there are {compared}"
    );
    fault(field, why)
}

fn check_names(field: &'static str, names: &[Box<str>]) -> Result<(), Fault> {
    let lengths = 1..=OPENRTB_NAME_BYTES_MAX;
    if names.len() <= OPENRTB_NAMES_MAX && names.iter().all(|name| lengths.contains(&name.len())) {
        return Ok(());
    }
    fault(field, format!("expected at most {OPENRTB_NAMES_MAX}, each of 1 to {OPENRTB_NAME_BYTES_MAX} bytes"))
}
