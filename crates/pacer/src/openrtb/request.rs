//! What of a bid request decides who bids.

use super::name::CurrencyCode;

/// A bid request.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Request {
    /// Hash of its id.
    pub id: u64,
    /// Hash of the user; 0: unknown, or not to be followed.
    pub user: u64,
    /// Hashes of the site's domain and of those that it is below.
    pub sites: Vec<u64>,
    /// Hash of the app's bundle; 0: no app.
    pub app: u64,
    /// Hash of the device's country; 0: unknown.
    pub country: u64,
    /// The kind of the device; 0: unknown.
    pub device_type: u8,
    /// What bids may be in, in the order of the request; one at least.
    pub currencies: Vec<CurrencyCode>,
    /// What is not wanted.
    pub blocked: Blocked,
    /// Who may bid.
    pub seats: Seats,
    /// Nothing that is bid costs anything.
    pub is_test: bool,
    /// What is auctioned.
    pub impressions: Vec<Impression>,
}

/// What a request does not want. The lists are sorted.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Blocked {
    /// Hashes of categories.
    pub categories: Vec<u64>,
    /// Of which taxonomy they are.
    pub taxonomy: u16,
    /// Hashes of domains of advertisers.
    pub domains: Vec<u64>,
    /// Hashes of bundles of advertised apps.
    pub apps: Vec<u64>,
}

/// Which buyers may bid. The lists are sorted.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Seats {
    /// Only these; all, if there are none.
    pub allowed: Vec<u64>,
    /// Not these.
    pub blocked: Vec<u64>,
}

/// An impression.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Impression {
    /// Hash of its id.
    pub id: u64,
    /// It may be a banner.
    pub banner: Option<Banner>,
    /// It may be a film.
    pub video: Option<Stream>,
    /// It may be a sound.
    pub audio: Option<Stream>,
    /// It may be native, without these attributes.
    pub native: Option<u64>,
    /// Hash of its placement; 0: none.
    pub tag: u64,
    /// The least that is taken in the open auction.
    pub floor: Floor,
    /// Creatives must load nothing without TLS.
    pub is_secure: bool,
    /// Only bids under deals are taken.
    pub is_private: bool,
    /// Deals.
    pub deals: Vec<Deal>,
}

/// A banner.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Banner {
    /// Width and height.
    pub sizes: Vec<(u16, u16)>,
    /// Attributes that are not wanted, a bit each.
    pub blocked: u64,
}

/// A film or a sound.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Stream {
    /// Hashes of the types of files that can be played.
    pub mimes: Vec<u64>,
    /// Protocols, a bit each; 0: not said.
    pub protocols: u64,
    /// It lasts so long at least.
    pub seconds_min: u16,
    /// And so long at most; 0: not said.
    pub seconds_max: u16,
    /// Attributes that are not wanted, a bit each.
    pub blocked: u64,
}

/// A deal.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Deal {
    /// Hash of its id.
    pub id: u64,
    /// The least that is taken under it.
    pub floor: Floor,
    /// Buyers that may bid; all, if there are none. Sorted.
    pub seats: Vec<u64>,
    /// Domains of advertisers that may bid; all, if there are none. Sorted.
    pub domains: Vec<u64>,
}

/// The least that is taken.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Floor {
    /// For one impression, in micros.
    pub micros: u64,
    /// Of this currency.
    pub currency: CurrencyCode,
}

impl Default for Floor {
    fn default() -> Floor {
        Floor { micros: 0, currency: CurrencyCode::USD }
    }
}

impl Floor {
    /// A floor as requests say it, the price of a thousand: the least price that is not below it. What is a part of a
    /// micro is a whole one, however small the part.
    pub fn of_cpm(cpm: f64, currency: CurrencyCode) -> Floor {
        // As an exchange compares them: a price is written as a decimal, and read as the number nearest to that.
        let is_met = |micros: u64| micros as f64 / 1e3 >= cpm;
        let near = (cpm.max(0.0) * 1e3).ceil() as u64;
        // The product is rounded, so what is wanted may be beside it.
        let micros = match near.checked_sub(1) {
            Some(less) if is_met(less) => less,
            _ if cpm > 0.0 && !is_met(near) => near.saturating_add(1),
            _ => near,
        };
        Floor { micros, currency }
    }

    /// Whether so much is enough.
    pub fn allows(&self, micros: u64, currency: CurrencyCode) -> bool {
        self.micros == 0 || self.currency == currency && micros >= self.micros
    }
}

impl Seats {
    /// Whether this buyer may bid; `None` is one without a name.
    pub fn allow(&self, seat: Option<u64>) -> bool {
        match seat {
            Some(seat) => (self.allowed.is_empty() || has(&self.allowed, seat)) && !has(&self.blocked, seat),
            None => self.allowed.is_empty(),
        }
    }
}

/// A list that can be searched.
pub fn sorted(mut all: Vec<u64>) -> Vec<u64> {
    all.sort_unstable();
    all
}

/// Whether a sorted list has it.
pub(super) fn has(sorted: &[u64], wanted: u64) -> bool {
    !sorted.is_empty() && sorted.binary_search(&wanted).is_ok()
}
