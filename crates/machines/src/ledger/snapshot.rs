//! The ledger's snapshot, so that a restart replays only later records. The byte diagram is in
//! `docs/formats/snapshot.md`.
//!
//! Two ledgers are equal exactly when their bytes are: accounts are in slot order, holds in order of expiry, and
//! nothing depends on the order of insertion. Reading checks every rule of the fold again, so that a damaged or forged
//! snapshot is an error and never a wrong balance.

use std::collections::BTreeMap;

use super::account::{Account, AccountSlot};
use super::asset::{Asset, AssetIndex};
use super::codec::get_account_kind;
use super::hold::{HoldId, OpenHold};
use super::limits::{ACCOUNT_ID_BYTES_MAX, ASSET_BYTES_MAX, ASSET_DECIMALS_MAX, TIME_MS_MAX, WHOLE_ID_BYTES_MAX};
use super::mends::{Mend, Mends};
use super::peer::Peer;
use super::request::AccountKind;
use super::settings::{get_settings, put_settings};
use super::state::Ledger;
use super::validity::{check_expiry, is_known_account_id, is_known_asset, is_known_id};
use super::{hash::shard_of, limits::ACCOUNTS_MAX, limits::MENDS_MAX};
use crate::chunks::Chunks;
use crate::encoding::{Malformed, Parsed, Reader, put_text, put_varint, put_varint_128, put_zigzag, require};
use crate::{Amount, OutboundNumber, RecordPosition, RecordSequence, TimeMs};

/// Version of the layout; the first thing in the bytes.
const VERSION: u64 = 3;
/// No sum comes near: 2^63 transfers of the largest amount.
const GROSS_MAX: u128 = 1 << 126;

/// Accounts that are read before the first of them gets its slot. Each slot is somewhere else in memory: to wait for
/// one after the other took a third of the time of a start.
const ACCOUNTS_AHEAD: usize = 16;

// The difference of two sums fits the type that it is counted in.
const _: () = assert!(GROSS_MAX <= i128::MAX as u128);

/// Bytes that are not a snapshot of a ledger, or one that breaks the ledger's rules.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum SnapshotError {
    /// Made by another version.
    #[error("snapshot layout {0} is unknown; this program reads layout {VERSION}")]
    UnknownVersion(u64),
    /// Not of the expected form, or against a rule.
    #[error("snapshot is damaged: {0}")]
    Damaged(&'static str),
}

impl From<Malformed> for SnapshotError {
    fn from(malformed: Malformed) -> Self {
        SnapshotError::Damaged(malformed.what)
    }
}

impl Ledger {
    /// Hands the ledger's bytes to `sink`, piece by piece.
    pub fn write_snapshot(&self, sink: &mut dyn FnMut(&[u8])) {
        let mut out = Chunks::new(sink);
        out.put(|out| {
            for value in [VERSION, self.shard.0.into(), self.shard_count.into(), self.time.0, self.position.0] {
                put_varint(out, value);
            }
            put_varint(out, self.assets.len().into());
        });
        for (_, asset) in self.assets.iter() {
            out.put(|out| put_asset(out, asset));
        }
        out.put(|out| put_varint(out, self.accounts.len().into()));
        for (slot, account) in self.accounts.range(0, self.accounts.len()) {
            out.put(|out| self.put_account(out, slot, account));
        }
        self.put_all_settings(&mut out);
        out.put(|out| put_varint(out, self.holds.len() as u64));
        for hold in self.holds.iter() {
            out.put(|out| put_hold(out, hold));
        }
        for peer in self.other_peers() {
            put_peer(&mut out, peer);
        }
        out.put(|out| put_mends(out, &self.mends));
        out.flush();
    }

    /// Hands the part of the snapshot to `sink` that has what was set on accounts, also on those of other shards.
    pub fn write_settings(&self, sink: &mut dyn FnMut(&[u8])) {
        let mut out = Chunks::new(sink);
        self.put_all_settings(&mut out);
        out.flush();
    }

    fn put_all_settings<S: FnMut(&[u8]) + ?Sized>(&self, out: &mut Chunks<'_, S>) {
        out.put(|out| put_varint(out, self.settings.len() as u64));
        for (slot, settings) in self.settings.iter() {
            out.put(|out| put_settings(out, slot, settings));
        }
    }

    fn put_account(&self, out: &mut Vec<u8>, slot: AccountSlot, account: &Account) {
        out.push(account.kind as u8);
        put_text(out, &account.id);
        put_varint(out, account.asset.0.into());
        if account.is_on(self.shard) {
            put_zigzag(out, account.balance);
            put_varint(out, account.held);
            let (credited, debited) = self.accounts.gross(slot);
            put_varint_128(out, credited);
            put_varint_128(out, debited);
            put_varint(out, account.last.0);
        }
    }

    fn other_peers(&self) -> impl Iterator<Item = &Peer> {
        let own = self.shard.0 as usize;
        self.peers.iter().enumerate().filter(move |(shard, _)| *shard != own).map(|(_, peer)| peer)
    }

    /// Reads what [`Ledger::write_snapshot`] wrote. Takes time and memory in proportion to the bytes, whatever they
    /// are.
    pub fn decode_snapshot(bytes: &[u8]) -> Result<Ledger, SnapshotError> {
        let mut reader = Reader::new(bytes);
        let version = reader.varint("version")?;
        if version != VERSION {
            return Err(SnapshotError::UnknownVersion(version));
        }
        let ledger = get_ledger(&mut reader)?;
        reader.end("bytes after the end")?;
        ledger.check_sums()?;
        // What was let in is what the fold could have made.
        if cfg!(debug_assertions) {
            ledger.assert_parts_fit();
        }
        Ok(ledger)
    }

    /// What must hold between the parts: holds add up to what is held, money to nothing, issuance to the cap at most.
    pub(super) fn check_sums(&self) -> Parsed<()> {
        let mut held = vec![0u128; self.accounts.len() as usize];
        for hold in self.holds.iter() {
            held[hold.debit.0 as usize] += u128::from(hold.amount.get());
        }
        let agree = self.accounts.iter().zip(held).all(|(account, held)| u128::from(account.held) == held);
        require(agree, "holds do not add up to what accounts have held")?;
        let issued = self.assets.iter().all(|(_, asset)| asset.reserve <= self.issuance_cap());
        require(issued, "sources issued more than the cap")?;
        require(self.totals().iter().all(|totals| totals.imbalance() == 0), "money does not add up to zero")
    }
}

fn get_ledger(reader: &mut Reader<'_>) -> Parsed<Ledger> {
    let shard = reader.shard("shard")?;
    let shard_count = reader.shard("shard count")?.0;
    require(shard.0 < shard_count, "shard count")?;
    let mut ledger = Ledger::new(shard, shard_count);
    ledger.time = TimeMs(reader.varint("time")?);
    require(ledger.time.0 <= TIME_MS_MAX, "time")?;
    ledger.position = reader.position("position")?;
    for _ in 0..reader.u32("count of assets")? {
        let name = reader.text(1, ASSET_BYTES_MAX, "asset")?;
        require(is_known_asset(name) && ledger.assets.find(name).is_none(), "asset")?;
        let index = ledger.assets.find_or_add(name);
        let declared = reader.byte("decimals")?;
        require(declared <= ASSET_DECIMALS_MAX + 1, "decimals")?;
        require(declared == 0 || shard_of(name, shard_count) == shard, "home shard of an asset")?;
        ledger.assets.get_mut(index).decimals = declared.checked_sub(1);
    }
    let accounts = reader.u32("count of accounts")?;
    require(accounts < ACCOUNTS_MAX, "count of accounts")?;
    let mut parsed = Vec::with_capacity(ACCOUNTS_AHEAD);
    for ahead in (0..accounts).step_by(ACCOUNTS_AHEAD).map(|first| (accounts - first).min(ACCOUNTS_AHEAD as u32)) {
        for _ in 0..ahead {
            parsed.push(get_account(reader, &mut ledger)?);
        }
        for (account, turns) in parsed.drain(..) {
            require(ledger.accounts.find(&account.id).is_none(), "account id twice")?;
            let slot = ledger.accounts.push(account);
            ledger.accounts.add_turns(slot, turns);
        }
    }
    assert_eq!(ledger.accounts.len(), accounts, "every account has its slot");
    for _ in 0..reader.varint("count of settings")? {
        let (slot, settings) = get_settings(reader)?;
        let in_order = ledger.settings.last_slot().is_none_or(|last| last < slot);
        let account = ledger.accounts.get_mut(slot).filter(|_| in_order);
        let account = account.ok_or(Malformed { what: "account of settings" })?;
        require(settings.rules.check(account.kind).is_ok(), "rules of an account")?;
        require(account.home == shard || settings.metadata.is_empty(), "metadata away from home")?;
        account.is_restricted = settings.rules.restrict();
        ledger.settings.set(slot, settings);
    }
    let holds = reader.varint("count of holds")?;
    for _ in 0..holds {
        let hold = get_hold(reader, &ledger)?;
        let asset = ledger.accounts.get(hold.debit).expect("it was checked with its hold").asset;
        ledger.assets.change_held(asset, hold.amount.get(), 0);
        ledger.holds.insert(hold);
    }
    assert_eq!(ledger.holds.len() as u64, holds, "every hold is open once");
    for shard in 0..shard_count as usize {
        if shard != ledger.shard.0 as usize {
            ledger.peers[shard] = get_peer(reader, &ledger, shard)?;
        }
    }
    ledger.mends = get_mends(reader, ledger.position)?;
    Ok(ledger)
}

/// An account, which has no slot yet, and how often its debits have passed 2^64. Its place is being loaded.
fn get_account(reader: &mut Reader<'_>, ledger: &mut Ledger) -> Parsed<(Account, u64)> {
    let kind = get_account_kind(reader)?;
    let id = reader.text(1, ACCOUNT_ID_BYTES_MAX, "account id")?;
    require(is_known_account_id(id), "account id")?;
    ledger.accounts.seek(id);
    let asset = get_asset(reader, ledger)?;
    let mut account = Account {
        credited: 0,
        debited: 0,
        id: id.into(),
        balance: 0,
        held: 0,
        last: Default::default(),
        asset,
        home: shard_of(id, ledger.shard_count),
        kind,
        is_restricted: false,
    };
    let mut turns = 0;
    if account.is_on(ledger.shard) {
        account.balance = reader.zigzag("balance")?;
        account.held = reader.varint("held")?;
        let (credited, debited) = (get_gross(reader, "credited")?, get_gross(reader, "debited")?);
        let net = credited as i128 - debited as i128;
        require(i128::from(account.balance) == net, "balance is not credited - debited")?;
        (account.credited, account.debited) = (credited as u64, debited as u64);
        turns = (debited >> 64) as u64;
        account.last = reader.position("last record")?;
        check_account(&account, debited, ledger)?;
    }
    // A sum of damaged figures may pass 64 bits; then it is above the cap.
    let of_asset = ledger.assets.get_mut(asset);
    of_asset.reserve = of_asset.reserve.saturating_add(account.reserve());
    if account.kind == AccountKind::Source {
        of_asset.issued -= i128::from(account.balance);
    }
    Ok((account, turns))
}

fn check_account(account: &Account, debited: u128, ledger: &Ledger) -> Parsed<()> {
    require(account.last <= ledger.position, "last record")?;
    match account.kind {
        AccountKind::Wallet => {
            let covered = u64::try_from(account.balance).is_ok_and(|balance| account.held <= balance);
            require(covered, "wallet below zero or below what is held")
        }
        AccountKind::Collector => require(debited == 0 && account.held == 0, "collector was debited"),
        AccountKind::Source => Ok(()),
    }
}

fn get_gross(reader: &mut Reader<'_>, what: &'static str) -> Parsed<u128> {
    let sum = reader.varint_128(what)?;
    require(sum < GROSS_MAX, what)?;
    Ok(sum)
}

/// The name, then one more than the decimals; 0 if none were declared on this shard.
fn put_asset(out: &mut Vec<u8>, asset: &Asset) {
    put_text(out, &asset.name);
    out.push(asset.decimals.map_or(0, |decimals| decimals + 1));
}

fn get_asset(reader: &mut Reader<'_>, ledger: &Ledger) -> Parsed<AssetIndex> {
    let asset = reader.u32("asset number")?;
    require(asset < ledger.assets.len(), "asset number")?;
    Ok(AssetIndex(asset))
}

fn get_amount(reader: &mut Reader<'_>) -> Parsed<Amount> {
    Amount::new(reader.varint("amount")?).ok_or(Malformed { what: "amount" })
}

fn put_hold(out: &mut Vec<u8>, hold: &OpenHold) {
    put_text(out, hold.id.as_str());
    put_varint(out, hold.debit.0.into());
    put_varint(out, hold.credit.0.into());
    put_varint(out, hold.amount.get());
    put_varint(out, hold.expires_in_ms);
    put_varint(out, hold.expires_at.0);
    put_varint(out, hold.placed.0);
}

fn get_hold(reader: &mut Reader<'_>, ledger: &Ledger) -> Parsed<OpenHold> {
    let id = reader.text(1, WHOLE_ID_BYTES_MAX, "hold id")?;
    require(is_known_id(id) && ledger.holds.find(id).is_none(), "hold id")?;
    let debit = AccountSlot(reader.u32("debit account of a hold")?);
    let credit = AccountSlot(reader.u32("credit account of a hold")?);
    let hold = OpenHold {
        id: HoldId::new(id),
        debit,
        credit,
        amount: get_amount(reader)?,
        expires_in_ms: reader.varint("lifetime of a hold")?,
        expires_at: TimeMs(reader.varint("expiry of a hold")?),
        placed: reader.position("record of a hold")?,
    };
    let (Some(from), Some(to)) = (ledger.accounts.get(debit), ledger.accounts.get(credit)) else {
        return Err(Malformed { what: "accounts of a hold" });
    };
    let may_debit = from.home == ledger.shard && from.kind != AccountKind::Collector;
    require(may_debit && debit != credit && from.asset == to.asset, "accounts of a hold")?;
    require(check_expiry(hold.expires_in_ms).is_ok(), "lifetime of a hold")?;
    let placed_at = hold.expires_at.0.checked_sub(hold.expires_in_ms);
    require(placed_at.is_some_and(|time| time <= ledger.time.0), "expiry of a hold")?;
    require(hold.placed <= ledger.position, "record of a hold")?;
    let after_the_last = ledger.holds.last().is_none_or(|last| last.key() < hold.key());
    require(after_the_last, "order of holds")?;
    Ok(hold)
}

fn put_peer<S: FnMut(&[u8]) + ?Sized>(out: &mut Chunks<'_, S>, peer: &Peer) {
    out.put(|out| {
        put_varint(out, peer.watermark.0);
        put_varint(out, peer.confirmed().0);
        put_varint(out, peer.pending() as u64);
    });
    for credit in peer.after(peer.confirmed()) {
        out.put(|out| {
            put_varint(out, credit.position.0);
            put_varint(out, credit.slot.0.into());
            put_varint(out, credit.amount.get());
        });
    }
    for sums in [&peer.sent, &peer.received] {
        out.put(|out| put_varint(out, sums.len() as u64));
        for (asset, sum) in sums {
            out.put(|out| {
                put_varint(out, asset.0.into());
                put_varint_128(out, *sum);
            });
        }
    }
}

fn get_peer(reader: &mut Reader<'_>, ledger: &Ledger, shard: usize) -> Parsed<Peer> {
    let watermark = reader.number("watermark")?;
    let confirmed = reader.number("confirmed credits")?;
    let mut peer = Peer::new(confirmed, watermark);
    let pending = reader.varint("pending credits")?;
    require(confirmed.0.checked_add(pending).is_some_and(|last| last < u64::MAX), "pending credits")?;
    require(watermark.0 < u64::MAX, "watermark")?;
    let (mut before, mut under_way) = (RecordPosition::NONE, BTreeMap::<AssetIndex, u128>::new());
    for _ in 0..pending {
        let position = reader.position("record of a credit")?;
        let slot = AccountSlot(reader.u32("account of a credit")?);
        let amount = get_amount(reader)?;
        require(before < position && position <= ledger.position, "record of a credit")?;
        let theirs = |account: &&Account| account.home.0 as usize == shard && !account.is_on(ledger.shard);
        let account = ledger.accounts.get(slot).filter(theirs).ok_or(Malformed { what: "account of a credit" })?;
        *under_way.entry(account.asset).or_default() += u128::from(amount.get());
        peer.push(position, slot, amount);
        before = position;
    }
    assert_eq!(peer.pending() as u64, pending, "all credits were read");
    for sums in [&mut peer.sent, &mut peer.received] {
        for _ in 0..reader.u32("sums by asset")? {
            let asset = get_asset(reader, ledger)?;
            let sum = get_gross(reader, "sum of credits")?;
            let in_order = sums.last_key_value().is_none_or(|(last, _)| *last < asset);
            require(sum > 0 && in_order, "sums by asset")?;
            sums.insert(asset, sum);
        }
    }
    let is_sent = |(asset, sum): (&AssetIndex, &u128)| peer.sent.get(asset).is_some_and(|sent| sum <= sent);
    require(under_way.iter().all(is_sent), "more credits are under way than were sent")?;
    require(peer.last() != OutboundNumber(0) || peer.sent.is_empty(), "money was sent without a credit")?;
    require(watermark != OutboundNumber(0) || peer.received.is_empty(), "money was taken in without a credit")?;
    Ok(peer)
}

fn put_mends(out: &mut Vec<u8>, mends: &Mends) {
    put_varint(out, mends.forgotten());
    put_varint(out, mends.kept().len() as u64);
    for Mend { position, sequence, was, to } in mends.kept() {
        for value in [position.0, sequence.0, was.0, to.0] {
            put_varint(out, value);
        }
    }
}

fn get_mends(reader: &mut Reader<'_>, last: RecordPosition) -> Parsed<Mends> {
    let forgotten = reader.varint("forgotten mends")?;
    let count = reader.varint("count of mends")?;
    require(count <= MENDS_MAX as u64, "count of mends")?;
    let mut kept = Vec::new();
    for _ in 0..count {
        let position = reader.position("record of a mend")?;
        let sequence = RecordSequence(reader.varint("sequence of a mend")?);
        let (was, to) = (TimeMs(reader.varint("time of a mend")?), TimeMs(reader.varint("time of a mend")?));
        require(was.0 <= TIME_MS_MAX, "time of a mend")?;
        kept.push(Mend { position, sequence, was, to });
    }
    Mends::restore(forgotten, kept, last).ok_or(Malformed { what: "order of mends" })
}
