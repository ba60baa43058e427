//! A bid request, decoded in one pass: what is compared becomes a hash while it is read, what is echoed is borrowed
//! from the body, and all else is skipped.
//!
//! `null` is as good as absent, because exchanges send it; unknown fields pass. A field that is read and of another
//! type is an error that names it.

use std::fmt;
use std::marker::PhantomData;

use serde::Deserialize;
use serde::de::{self, Deserializer, SeqAccess, Visitor};
use tidegate_pacer::limits::{DEALS_MAX, IMPRESSIONS_MAX, SIZES_MAX};
use tidegate_pacer::openrtb::{
    Banner, Blocked, CurrencyCode, Deal, Floor, Impression, Request, Seats, Stream, domains, exact, folded, site,
    sorted,
};

use crate::json::{Object, Problem, Text, decode};

/// Bytes of a bid request.
pub const REQUEST_BYTES_MAX: usize = 256 << 10;
/// Currencies of a request that are looked at.
const CURRENCIES_MAX: usize = 8;
/// The taxonomy of categories if a request names none: the content taxonomy 1.0 of the IAB.
const TAXONOMY: u16 = 1;

/// A bid request.
#[derive(Debug)]
pub struct Decoded<'a> {
    /// Its id, which the answer repeats.
    pub id: Text<'a>,
    /// The ids of its impressions, in order.
    pub impression_ids: Vec<Text<'a>>,
    /// What decides who bids.
    pub request: Request,
}

/// Decodes the body of a bid request.
pub fn read(body: &[u8]) -> Result<Decoded<'_>, Problem> {
    decode::<BidRequestBody<'_>>(body).map(BidRequestBody::into_decoded)
}

#[derive(Deserialize)]
struct BidRequestBody<'a> {
    #[serde(borrow)]
    id: Text<'a>,
    #[serde(borrow)]
    imp: Few<Object<ImpBody<'a>>, IMPRESSIONS_MAX>,
    #[serde(borrow)]
    site: Option<Object<SiteBody<'a>>>,
    app: Option<Object<AppBody>>,
    device: Option<Object<DeviceBody>>,
    user: Option<Object<UserBody>>,
    regs: Option<Object<RegsBody>>,
    test: Option<i64>,
    #[serde(borrow)]
    cur: Option<Vec<Text<'a>>>,
    wseat: Option<Vec<Exact>>,
    bseat: Option<Vec<Exact>>,
    bcat: Option<Vec<Folded>>,
    cattax: Option<u16>,
    badv: Option<Vec<Site>>,
    bapp: Option<Vec<Folded>>,
}

#[derive(Deserialize)]
struct ImpBody<'a> {
    #[serde(borrow)]
    id: Text<'a>,
    banner: Option<Object<BannerBody>>,
    video: Option<Object<StreamBody>>,
    audio: Option<Object<StreamBody>>,
    native: Option<Object<NativeBody>>,
    #[serde(borrow)]
    pmp: Option<Object<PmpBody<'a>>>,
    tagid: Option<Exact>,
    bidfloor: Option<f64>,
    #[serde(borrow)]
    bidfloorcur: Option<Text<'a>>,
    secure: Option<i64>,
}

#[derive(Deserialize)]
struct BannerBody {
    format: Option<Few<Object<FormatBody>, SIZES_MAX>>,
    w: Option<Side>,
    h: Option<Side>,
    battr: Option<Mask>,
}

#[derive(Deserialize)]
struct FormatBody {
    w: Option<Side>,
    h: Option<Side>,
}

/// Of video and audio.
#[derive(Deserialize)]
struct StreamBody {
    mimes: Option<Vec<Folded>>,
    minduration: Option<Side>,
    maxduration: Option<Side>,
    protocols: Option<Mask>,
    battr: Option<Mask>,
}

#[derive(Deserialize)]
struct NativeBody {
    battr: Option<Mask>,
}

#[derive(Deserialize)]
struct PmpBody<'a> {
    private_auction: Option<i64>,
    #[serde(borrow)]
    deals: Option<Few<Object<DealBody<'a>>, DEALS_MAX>>,
}

#[derive(Deserialize)]
struct DealBody<'a> {
    id: Exact,
    bidfloor: Option<f64>,
    #[serde(borrow)]
    bidfloorcur: Option<Text<'a>>,
    wseat: Option<Vec<Exact>>,
    wadomain: Option<Vec<Site>>,
}

#[derive(Deserialize)]
struct SiteBody<'a> {
    #[serde(borrow)]
    domain: Option<Text<'a>>,
}

#[derive(Deserialize)]
struct AppBody {
    bundle: Option<Folded>,
}

#[derive(Deserialize)]
struct DeviceBody {
    geo: Option<Object<GeoBody>>,
    devicetype: Option<i64>,
    dnt: Option<i64>,
    lmt: Option<i64>,
    ifa: Option<Exact>,
}

#[derive(Deserialize)]
struct GeoBody {
    country: Option<Folded>,
}

#[derive(Deserialize)]
struct UserBody {
    id: Option<Exact>,
    buyeruid: Option<Exact>,
}

#[derive(Deserialize)]
struct RegsBody {
    coppa: Option<i64>,
}

impl<'a> BidRequestBody<'a> {
    fn into_decoded(self) -> Decoded<'a> {
        let user = self.user();
        let device = self.device.as_ref().map(|device| &device.0);
        let country = device.and_then(|device| device.geo.as_ref()?.0.country.as_ref()).map_or(0, |country| country.0);
        let device_type = device.and_then(|device| u8::try_from(device.devicetype?).ok()).unwrap_or(0);
        let (impression_ids, impressions) = self.imp.0.into_iter().map(|imp| imp.0.into_impression()).unzip();
        let request = Request {
            id: exact(&self.id),
            user,
            sites: self.site.and_then(|site| site.0.domain).map_or(Vec::new(), |domain| domains(&domain)),
            app: self.app.and_then(|app| app.0.bundle).map_or(0, |bundle| bundle.0),
            country,
            device_type,
            currencies: currencies(self.cur.as_deref()),
            blocked: Blocked {
                categories: list(self.bcat),
                taxonomy: self.cattax.unwrap_or(TAXONOMY),
                domains: list(self.badv),
                apps: list(self.bapp),
            },
            seats: Seats { allowed: list(self.wseat), blocked: list(self.bseat) },
            is_test: is_set(self.test),
            impressions,
        };
        Decoded { id: self.id, impression_ids, request }
    }

    /// The user as frequency caps count them. Whoever does not want to be followed is not.
    fn user(&self) -> u64 {
        let device = self.device.as_ref().map(|device| &device.0);
        let is_private = device.is_some_and(|device| is_set(device.lmt) || is_set(device.dnt))
            || self.regs.as_ref().is_some_and(|regs| is_set(regs.0.coppa));
        if is_private {
            return 0;
        }
        let user = self.user.as_ref().map(|user| &user.0);
        let ids = [
            user.and_then(|user| user.buyeruid.as_ref()),
            user.and_then(|user| user.id.as_ref()),
            device.and_then(|device| device.ifa.as_ref()),
        ];
        // Some exchanges send an empty text for what they do not know.
        ids.into_iter().flatten().map(|id| id.0).find(|id| *id != 0).unwrap_or(0)
    }
}

impl<'a> ImpBody<'a> {
    fn into_impression(self) -> (Text<'a>, Impression) {
        let pmp = self.pmp.map(|pmp| pmp.0);
        let is_private = pmp.as_ref().is_some_and(|pmp| is_set(pmp.private_auction));
        let deals = pmp.and_then(|pmp| pmp.deals).map_or(Vec::new(), |deals| deals.0);
        let impression = Impression {
            id: exact(&self.id),
            banner: self.banner.map(|banner| banner.0.into_banner()),
            video: self.video.map(|video| video.0.into_stream()),
            audio: self.audio.map(|audio| audio.0.into_stream()),
            native: self.native.map(|native| mask(native.0.battr.as_ref())),
            tag: self.tagid.map_or(0, |tag| tag.0),
            floor: floor(self.bidfloor, self.bidfloorcur.as_ref()),
            is_secure: is_set(self.secure),
            is_private,
            deals: deals.into_iter().map(|deal| deal.0.into_deal()).collect(),
        };
        (self.id, impression)
    }
}

impl BannerBody {
    fn into_banner(self) -> Banner {
        let whole = (self.w, self.h);
        let formats = self.format.map_or(Vec::new(), |formats| formats.0);
        let sizes = std::iter::once(whole).chain(formats.into_iter().map(|format| (format.0.w, format.0.h)));
        let mut known: Vec<(u16, u16)> = sizes.filter_map(|(w, h)| Some((w?.0, h?.0))).collect();
        // Most name their first format twice.
        if known.len() > 1 && known[1..].contains(&known[0]) {
            known.remove(0);
        }
        Banner { sizes: known, blocked: mask(self.battr.as_ref()) }
    }
}

impl StreamBody {
    fn into_stream(self) -> Stream {
        Stream {
            mimes: list(self.mimes),
            protocols: mask(self.protocols.as_ref()),
            seconds_min: self.minduration.map_or(0, |seconds| seconds.0),
            seconds_max: self.maxduration.map_or(0, |seconds| seconds.0),
            blocked: mask(self.battr.as_ref()),
        }
    }
}

impl DealBody<'_> {
    fn into_deal(self) -> Deal {
        Deal {
            id: self.id.0,
            floor: floor(self.bidfloor, self.bidfloorcur.as_ref()),
            seats: list(self.wseat),
            domains: list(self.wadomain),
        }
    }
}

fn is_set(flag: Option<i64>) -> bool {
    flag == Some(1)
}

fn mask(mask: Option<&Mask>) -> u64 {
    mask.map_or(0, |mask| mask.0)
}

/// A currency that is none has no campaigns: what is asked for then is not bid.
fn currency(code: &str) -> CurrencyCode {
    CurrencyCode::of(code).unwrap_or(CurrencyCode(*b"???"))
}

fn currencies(codes: Option<&[Text<'_>]>) -> Vec<CurrencyCode> {
    match codes {
        None | Some([]) => vec![CurrencyCode::USD],
        Some(codes) => codes.iter().take(CURRENCIES_MAX).map(|code| currency(code)).collect(),
    }
}

fn floor(cpm: Option<f64>, code: Option<&Text<'_>>) -> Floor {
    Floor::of_cpm(cpm.unwrap_or(0.0), code.map_or(CurrencyCode::USD, |code| currency(code)))
}

/// A sorted list of hashes.
fn list<H: Into<u64>>(hashes: Option<Vec<H>>) -> Vec<u64> {
    hashes.map_or(Vec::new(), |hashes| sorted(hashes.into_iter().map(Into::into).collect()))
}

/// A text that becomes a hash while it is read.
macro_rules! hashes {
    ($($name:ident by $hash:path: $what:literal;)+) => { $(
        #[doc = $what]
        struct $name(u64);

        impl From<$name> for u64 {
            fn from(of: $name) -> u64 {
                of.0
            }
        }

        impl<'de> Deserialize<'de> for $name {
            fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
                struct HashVisitor;
                impl Visitor<'_> for HashVisitor {
                    type Value = $name;
                    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                        f.write_str("a string")
                    }
                    fn visit_str<E: de::Error>(self, text: &str) -> Result<$name, E> {
                        Ok($name($hash(text)))
                    }
                }
                deserializer.deserialize_str(HashVisitor)
            }
        }
    )+ };
}

hashes! {
    Exact by exact: "An id.";
    Folded by folded: "A name whose case does not count.";
    Site by site: "A domain.";
}

/// A width, a height or a time: what is larger than any that is looked for is the largest.
#[derive(Clone, Copy)]
struct Side(u16);

impl<'de> Deserialize<'de> for Side {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        let number = i64::deserialize(deserializer)?;
        Ok(Side(u16::try_from(number.max(0)).unwrap_or(u16::MAX)))
    }
}

/// A list of numbers as bits. Those that exchanges define for themselves, from 500 on, no creative has.
struct Mask(u64);

impl<'de> Deserialize<'de> for Mask {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        struct MaskVisitor;
        impl<'de> Visitor<'de> for MaskVisitor {
            type Value = Mask;
            fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str("a list of integers")
            }
            fn visit_seq<A: SeqAccess<'de>>(self, mut numbers: A) -> Result<Mask, A::Error> {
                let mut mask = 0;
                while let Some(number) = numbers.next_element::<i64>()? {
                    let bit = u32::try_from(number).ok().and_then(|number| 1u64.checked_shl(number));
                    mask |= bit.unwrap_or(0);
                }
                Ok(Mask(mask))
            }
        }
        deserializer.deserialize_seq(MaskVisitor)
    }
}

/// A list of at most so many: each of them is work.
struct Few<T, const MAX: usize>(Vec<T>);

impl<'de, T: Deserialize<'de>, const MAX: usize> Deserialize<'de> for Few<T, MAX> {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        struct FewVisitor<T, const MAX: usize>(PhantomData<T>);
        impl<'de, T: Deserialize<'de>, const MAX: usize> Visitor<'de> for FewVisitor<T, MAX> {
            type Value = Few<T, MAX>;
            fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                write!(f, "a list of at most {MAX}")
            }
            fn visit_seq<A: SeqAccess<'de>>(self, mut items: A) -> Result<Few<T, MAX>, A::Error> {
                let mut few = Vec::new();
                while let Some(item) = items.next_element()? {
                    if few.len() == MAX {
                        return Err(de::Error::invalid_length(MAX + 1, &self));
                    }
                    few.push(item);
                }
                Ok(Few(few))
            }
        }
        deserializer.deserialize_seq(FewVisitor(PhantomData))
    }
}

#[cfg(test)]
mod tests;
