//! From an impression to the campaigns that may bid on it, from the highest price down.
//!
//! ```text
//!   (target, shape) ─▶ campaigns by price, then by number
//!   deal X, 300×250 ─▶ 2.50 #7, 2.10 #3 …  ─┐
//!   site Y, 300×250 ─▶ 3.00 #9 …            ├─▶ merged, each campaign once, a share of each owner
//!   any,    300×250 ─▶ 1.20 #1, 1.20 #4 …  ─┘
//! ```
//!
//! A campaign stands under the list of its plan that says most (deals, tags, sites and apps, countries), for each shape
//! of its creatives. So ten thousand campaigns on sites of their own cost an impression what one does; of ten thousand
//! that buy everything, so many are looked at, and each owner has a share of them before anybody has more: thousands of
//! one or of several that have high prices and do not bid keep no others from being looked at.

use std::cmp::Reverse;
use std::collections::{BTreeMap, BTreeSet, BinaryHeap, binary_heap, btree_set};

use hashbrown::HashMap;

use super::offering::{Offering, Shape, Target};
use super::request::{Impression, Request};
use crate::limits::CANDIDATES_OF_OWNER_MAX;
use crate::units::PriceMicros;

/// Campaigns by what they buy.
#[derive(Default)]
pub struct Index {
    lists: HashMap<(Target, Shape), BTreeMap<OwnerHash, BTreeSet<Posting>>, foldhash::fast::RandomState>,
    /// For which targets there are campaigns at all: most tags and sites have none.
    targets: HashMap<Target, u32, foldhash::fast::RandomState>,
}

/// Who has changed a campaign last, as a hash of the name.
pub type OwnerHash = u64;

/// A campaign that buys.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Buyer {
    /// Its number.
    pub campaign: u32,
    /// Whose it is.
    pub owner: OwnerHash,
    /// The most that it bids.
    pub price: PriceMicros,
}

/// A campaign in a list: higher prices are smaller.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
struct Posting(u64);

impl Posting {
    fn of(buyer: Buyer) -> Posting {
        Posting(u64::from(!buyer.price.0) << 32 | u64::from(buyer.campaign))
    }

    fn price(self) -> PriceMicros {
        PriceMicros(!((self.0 >> 32) as u32))
    }

    fn campaign(self) -> u32 {
        self.0 as u32
    }
}

impl Index {
    /// A campaign buys this from now on.
    pub fn insert(&mut self, buyer: Buyer, offering: &Offering) {
        let shapes = offering.shapes();
        for target in offering.targets() {
            *self.targets.entry(target).or_default() += 1;
            for shape in &shapes {
                let of_owners = self.lists.entry((target, *shape)).or_default();
                of_owners.entry(buyer.owner).or_default().insert(Posting::of(buyer));
            }
        }
    }

    /// A campaign that bought this does so no longer.
    pub fn remove(&mut self, buyer: Buyer, offering: &Offering) {
        let shapes = offering.shapes();
        for target in offering.targets() {
            if let Some(count) = self.targets.get_mut(&target) {
                *count -= 1;
                if *count == 0 {
                    self.targets.remove(&target);
                }
            }
            for shape in &shapes {
                let Some(of_owners) = self.lists.get_mut(&(target, *shape)) else { continue };
                let Some(list) = of_owners.get_mut(&buyer.owner) else { continue };
                list.remove(&Posting::of(buyer));
                if list.is_empty() {
                    of_owners.remove(&buyer.owner);
                }
                if of_owners.is_empty() {
                    self.lists.remove(&(target, *shape));
                }
            }
        }
    }

    /// At most `max` of those that may bid on an impression.
    pub fn candidates(&self, request: &Request, impression: &Impression, max: usize) -> Candidates<'_> {
        let mut candidates = Candidates { left: max, ..Candidates::default() };
        let shapes = shapes_of(impression);
        let deals = impression.deals.iter().map(|deal| Target::Deal(deal.id));
        let open =
            [Target::Tag(impression.tag), Target::App(request.app), Target::Country(request.country), Target::Any];
        let sites = request.sites.iter().map(|site| Target::Site(*site));
        let open = open.into_iter().chain(sites).filter(|_| !impression.is_private);
        for target in deals.chain(open).filter(|target| self.targets.contains_key(target)) {
            for shape in &shapes {
                for (owner, list) in self.lists.get(&(target, *shape)).into_iter().flatten() {
                    candidates.add(*owner, list.iter());
                }
            }
        }
        let share = max.checked_div(candidates.owners.len()).unwrap_or(0).clamp(1, CANDIDATES_OF_OWNER_MAX);
        candidates.bounds = [share, CANDIDATES_OF_OWNER_MAX];
        candidates
    }

    /// No campaign buys anything.
    pub fn is_empty(&self) -> bool {
        self.lists.is_empty()
    }
}

fn shapes_of(impression: &Impression) -> Vec<Shape> {
    let sizes = impression.banner.iter().flat_map(|banner| &banner.sizes);
    let mut shapes: Vec<Shape> = sizes.map(|(width, height)| Shape::Banner(*width, *height)).collect();
    let others = [
        (impression.video.is_some(), Shape::Video),
        (impression.audio.is_some(), Shape::Audio),
        (impression.native.is_some(), Shape::Native),
    ];
    shapes.extend(others.into_iter().filter(|(is_there, _)| *is_there).map(|(_, shape)| shape));
    shapes
}

/// Campaigns that may bid on an impression, each once: first those of each owner's share, then more of those that have
/// more, each time from the highest price down.
#[derive(Default)]
pub struct Candidates<'i> {
    lists: Vec<List<'i>>,
    /// The next one of each list, of those of owners that have come to their share, and of the others before.
    heads: [BinaryHeap<Reverse<(Posting, usize)>>; 2],
    /// How many of an owner come of the ones, and of both.
    bounds: [usize; 2],
    owners: Vec<Owner>,
    places: HashMap<OwnerHash, usize, foldhash::fast::RandomState>,
    /// How many more come.
    left: usize,
}

/// The rest of a list.
struct List<'i> {
    /// Where its owner stands.
    owner: usize,
    rest: btree_set::Iter<'i, Posting>,
}

/// What came of an owner.
#[derive(Default)]
struct Owner {
    came: usize,
    last: Option<Posting>,
}

impl<'i> Candidates<'i> {
    fn add(&mut self, owner: OwnerHash, mut rest: btree_set::Iter<'i, Posting>) {
        if let Some(first) = rest.next() {
            let owner = *self.places.entry(owner).or_insert(self.owners.len());
            self.owners.resize_with(self.places.len(), Owner::default);
            self.heads[0].push(Reverse((*first, self.lists.len())));
            self.lists.push(List { owner, rest });
        }
    }

    /// The next one whose price is higher than this.
    pub fn next_above(&mut self, price: u32) -> Option<u32> {
        while self.left > 0 {
            let is_above = |heads: &BinaryHeap<Reverse<(Posting, usize)>>| {
                heads.peek().is_some_and(|Reverse((posting, _))| posting.price().0 > price)
            };
            let turn = self.heads.iter().position(is_above)?;
            let mut head = self.heads[turn].peek_mut()?;
            let Reverse((posting, number)) = *head;
            let list = &mut self.lists[number];
            let owner = &mut self.owners[list.owner];
            if owner.came >= self.bounds[turn] {
                let head = binary_heap::PeekMut::pop(head);
                // Its turn comes when all others have had theirs.
                if turn == 0 {
                    self.heads[1].push(head);
                }
                continue;
            }
            match list.rest.next() {
                Some(following) => *head = Reverse((*following, number)),
                None => drop(binary_heap::PeekMut::pop(head)),
            }
            // One that stands in several lists comes from each of them in a row.
            if owner.last.replace(posting) != Some(posting) {
                (owner.came, self.left) = (owner.came + 1, self.left - 1);
                return Some(posting.campaign());
            }
        }
        None
    }
}
