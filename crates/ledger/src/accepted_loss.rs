//! What shards of the ledger have lost of each other's credits and of claims of ids, and the records that an operator's
//! word adds for it.
//!
//! ```text
//!   states of all shards ─▶ find: what each has lost, judged by the others ─▶ the operator accepts
//!        └─▶ settle: what another's log has is written again (regain); the rest is booked as a loss;
//!                    ids that others have decided on are claimed again (claims)
//! ```
//!
//! Promise: each record is checked against the fold of its log before it is written, and a run that is cut short is run
//! again: whatever is said already is not found lost any more.
//!
//! Invariant: nobody else has the logs open. Who waits for the disk is the caller's matter.

mod appender;

use std::collections::HashMap;

use anyhow::{Result, anyhow};
use tidegate_journal::{Cursor, JournalError, LogId, LogStore, Logs, Opened, Options};
use tidegate_machines::IdSpace;
use tidegate_machines::ledger::{AccountSlot, Command, Ledger, LossSide, PeerLoss, losses};
use tidegate_machines::{Decision, Machine, TimeMs};

use crate::claims::{LostClaim, lost_claims, proofs_of};
use crate::family::LEDGER;
use crate::regain::{KnownCredit, Unregained, known_credits, placed_holds};
use crate::{loss_in_words, strange_sums};
use appender::Appender;

/// After so many debits that were written again, the other shard's confirmation is.
const CONFIRM_EVERY: u64 = 1_000;

/// What the shards have lost between them.
#[derive(Debug, Default)]
pub struct PeerLosses {
    /// Which shard has lost something, and how that is known, in words.
    pub proofs: Vec<(u16, String)>,
    /// By the shard that lost it: what is missing, by asset.
    pub booked: Vec<(u16, PeerLoss)>,
    /// What other shards' logs have of it.
    pub known: Vec<KnownCredit>,
    /// The claims of ids that are missing where others have decided on them.
    pub claims: Vec<LostClaim>,
    /// Why claims could not be looked for, if so.
    pub claims_unread: Option<JournalError>,
}

impl PeerLosses {
    /// What `states`, the folds of all shards' logs in order, have lost, judged by each other. `Err` if some logs are
    /// not of one history, or cannot be read.
    pub fn find<G: Logs>(logs: &G, directory: u64, states: &[Ledger]) -> Result<PeerLosses> {
        let mut found = PeerLosses::default();
        let shards = states.len() as u16;
        for here in states {
            for there in states.iter().filter(|there| there.shard() != here.shard()) {
                for (side, reached, number) in losses(here.exchanged(there.shard()), there.exchanged(here.shard())) {
                    let words = loss_in_words(here.shard().0, there.shard().0, side, reached.0, number.0);
                    found.proofs.push((here.shard().0, words));
                    found.known.extend(known_credits(logs, directory, (here, there), (side, reached, number), shards)?);
                }
                let lost = here.losses_against(there).map_err(|what| anyhow!("{what}: nothing was changed"))?;
                found.booked.extend(lost.into_iter().map(|loss| (here.shard().0, loss)));
            }
        }
        Ok(found)
    }

    /// The same with the claims of ids. Reads all logs; where one cannot be read, what can be told without claims is.
    pub fn find_with_claims<G: Logs>(logs: &G, directory: u64, states: &[Ledger]) -> Result<PeerLosses> {
        let mut found = PeerLosses::find(logs, directory, states)?;
        found.look_for_claims(logs, directory, states);
        Ok(found)
    }

    /// Adds the claims of ids.
    pub fn look_for_claims<G: Logs>(&mut self, logs: &G, directory: u64, states: &[Ledger]) {
        match lost_claims(logs, directory, states) {
            Ok(claims) => self.claims = claims,
            Err(error) => self.claims_unread = Some(error),
        }
        self.proofs.extend(proofs_of(&self.claims));
    }
}

/// How records are added to the logs.
pub struct Writing<'a> {
    /// Sizes of the journals.
    pub options: Options,
    /// The time of what is written.
    pub now: TimeMs,
    /// Lets the other half of a log, which is busy, do some work.
    pub wait: &'a mut dyn FnMut(LogId),
    /// Tells the operator.
    pub say: &'a mut dyn FnMut(String),
}

/// What was added to the logs.
#[derive(Debug, Default)]
pub struct Settled {
    /// The credits that are known again.
    pub regained: Vec<KnownCredit>,
    /// Losses that were booked, by asset, peer and side.
    pub booked: u64,
    /// Ids that are claimed again.
    pub claimed: u64,
}

/// Shards whose numbers fit each other and whose sums do not, in words: each log is sound, and they are of two
/// histories. `states` are the folds of all shards' logs in order.
pub fn strangers(states: &[Ledger]) -> Vec<String> {
    let mut found = Vec::new();
    for from in states {
        for to in states.iter().filter(|to| to.shard() != from.shard()) {
            let (sent, received) = (from.exchanged_sums(to.shard()), to.exchanged_sums(from.shard()));
            let number = to.exchanged(from.shard()).watermark;
            found.extend(strange_sums(from.shard().0, to.shard().0, &sent, (number, &received)));
        }
    }
    found
}

/// Writes into the logs of the shards that lost records what others know of them, again, and books as a loss what
/// cannot be written again. Claims ids again last, since what was written again decides on ids, too. Each record is
/// checked against the fold of its log first.
pub fn settle<G: Logs>(
    logs: &G,
    directory: u64,
    mut states: Vec<Ledger>,
    found: &PeerLosses,
    writing: &mut Writing<'_>,
) -> Result<Settled> {
    let mut settled = Settled::default();
    for index in 0..states.len() {
        let (before, rest) = states.split_at_mut(index);
        let (here, after) = rest.split_first_mut().expect("there are so many");
        let others: Vec<&Ledger> = before.iter().chain(after.iter()).collect();
        let losses = |here: &Ledger| -> Result<Vec<PeerLoss>> {
            let each = others.iter().map(|other| here.losses_against(other).map_err(|what| anyhow!("{what}")));
            Ok(each.collect::<Result<Vec<_>>>()?.into_iter().flatten().collect())
        };
        if losses(here)?.is_empty() {
            continue;
        }
        let log = LEDGER.log(directory, here.shard().0);
        let own: Vec<KnownCredit> = found.known.iter().filter(|credit| credit.here == here.shard()).cloned().collect();
        let placed = placed_holds(logs, directory, here, &own)?;
        let Opened { log: opened, .. } = logs.open(log, Cursor::START, writing.options)?;
        let mut appender = Appender::new(opened, log);
        for other in &others {
            open_again(&mut appender, here, other, writing)?;
        }
        // What came first: debits of accounts that were funded by them would be refused without.
        for side in [LossSide::Received, LossSide::Sent] {
            for other in &others {
                let of_peer = own.iter().filter(|credit| credit.there == other.shard() && credit.side == side);
                settled.regained.extend(regain(&mut appender, here, other, of_peer, &placed, writing)?);
            }
        }
        // What no record tells of any more.
        for loss in losses(here)? {
            book_loss(&mut appender, here, &loss, writing)?;
        }
        settled.booked += appender.losses();
        appender.close(writing)?;
    }
    if !(found.claims.is_empty() && settled.regained.is_empty()) {
        settled.claimed = claim_all_again(logs, directory, &mut states, writing)?;
    }
    Ok(settled)
}

/// Claims the ids again on which the logs have decisions now, also such as were written again just before. How many.
fn claim_all_again<G: Logs>(logs: &G, directory: u64, states: &mut [Ledger], writing: &mut Writing<'_>) -> Result<u64> {
    let lost = match lost_claims(logs, directory, states) {
        Ok(lost) => lost,
        Err(error) => {
            (writing.say)(format!("no id is claimed again: {error}. Put the file back, and run this again"));
            return Ok(0);
        }
    };
    let mut claimed = 0;
    for here in states {
        let claims: Vec<&LostClaim> = lost.iter().filter(|claim| claim.is_regained_by(here)).collect();
        if !claims.is_empty() {
            let log = LEDGER.log(directory, here.shard().0);
            let Opened { log: opened, .. } = logs.open(log, Cursor::START, writing.options)?;
            let mut appender = Appender::new(opened, log);
            claimed += claim_again(&mut appender, here, &claims, writing)?;
            appender.close(writing)?;
        }
    }
    Ok(claimed)
}

/// Opens the accounts of `here` again whose openings it has lost and `there` knows: credits to them may be on their
/// way, also such as `here` never had.
fn open_again<L: LogStore>(
    appender: &mut Appender<L>,
    here: &mut Ledger,
    there: &Ledger,
    writing: &mut Writing<'_>,
) -> Result<()> {
    for slot in (0..there.slots()).map(AccountSlot) {
        let (id, (asset, kind, _)) = there.id_at(slot).zip(there.facts_at(slot)).expect("slots have no gap");
        if let Some(event) = here.open_again(id, asset, kind, writing.now) {
            appender.append(here, &event, writing)?;
            let (here, there) = (here.shard(), there.shard());
            (writing.say)(format!("ledger shard {here}: account {id} is opened again: shard {there} knows of it"));
        }
    }
    Ok(())
}

/// Claims the ids again that others have decided on. How many.
fn claim_again<L: LogStore>(
    appender: &mut Appender<L>,
    here: &mut Ledger,
    claims: &[&LostClaim],
    writing: &mut Writing<'_>,
) -> Result<u64> {
    let mut again = 0;
    for lost in claims {
        let LostClaim { id, owner, digest, .. } = lost;
        let claim = Command::ClaimId { id, owner: *owner, digest: *digest };
        let Decision::Append { event, .. } = here.decide(&claim, None, writing.now) else {
            (writing.say)(format!("ledger shard {}: the id {} cannot be claimed again", lost.home, lost.id_in_words()));
            continue;
        };
        appender.append(here, &event, writing)?;
        again += 1;
    }
    if again > 0 {
        let here = here.shard();
        (writing.say)(format!("ledger shard {here}: {again} ids that other shards have decided on are claimed again"));
    }
    Ok(again)
}

/// Writes the credits between two shards again, in order; those that could be.
fn regain<'a, L: LogStore>(
    appender: &mut Appender<L>,
    here: &mut Ledger,
    there: &Ledger,
    credits: impl Iterator<Item = &'a KnownCredit>,
    placed: &HashMap<Box<str>, Vec<u8>>,
    writing: &mut Writing<'_>,
) -> Result<Vec<KnownCredit>> {
    let (mut again, now) = (Vec::new(), writing.now);
    for credit in credits {
        let hold = placed.get(&credit.id).map(|record| Ledger::decode(record)).transpose()?;
        while !credit.is_said(here) {
            match credit.again(here, there, hold.as_ref(), now) {
                Ok(event) => {
                    appender.append(here, &event, writing)?;
                    again.extend(credit.is_said(here).then(|| credit.clone()));
                }
                Err(why) => {
                    let why = match why {
                        Unregained::Refused(refusal) => refusal.code(),
                        Unregained::OutOfPlace => "an account of it is lost",
                    };
                    (writing.say)(format!("{}: it cannot be written again ({why})", words(credit)));
                    book_loss(appender, here, &credit.loss(), writing)?;
                }
            }
        }
        // The other shard has what it knows; so many may be unconfirmed.
        if credit.side == LossSide::Sent
            && ((again.len() as u64).is_multiple_of(CONFIRM_EVERY)
                || here.exchanged(credit.there).sent == credit.number)
        {
            let confirm = Command::ConfirmCredits { to: credit.there, number: credit.number };
            if let Decision::Append { event, .. } = here.decide(&confirm, None, now) {
                appender.append(here, &event, writing)?;
            }
        }
    }
    if !again.is_empty() {
        let (here, there, again) = (here.shard(), there.shard(), again.len());
        (writing.say)(format!("ledger shard {here}: {again} credits between it and shard {there} are written again"));
    }
    Ok(again)
}

/// Books one loss against the account that stands for it.
fn book_loss<L: LogStore>(
    appender: &mut Appender<L>,
    ledger: &mut Ledger,
    loss: &PeerLoss,
    writing: &mut Writing<'_>,
) -> Result<()> {
    let (account, slot) = ledger.accepted_loss_account(&loss.asset);
    // The account is opened first, if this is the first loss of the asset here.
    for _ in 0..if slot.is_some() { 1 } else { 2 } {
        let event = ledger.book_loss(loss, &account, writing.now);
        appender.append(ledger, &event, writing)?;
    }
    let balance = ledger.account(&account).map_or(0, |account| account.balance);
    let (shard, amount, asset) = (ledger.shard(), loss.amount.get(), &loss.asset);
    let words = format!("ledger shard {shard}: {amount} {asset} are booked as lost: {account} has {balance} {asset}");
    (writing.say)(words);
    Ok(())
}

/// A credit between two shards, for the person who has to correct what it changed.
pub fn words(credit: &KnownCredit) -> String {
    let KnownCredit { here, there, side, posted, id, debit, credit: to, asset, amount, .. } = credit;
    let kind = if *posted { "hold" } else { "transfer" };
    let (space, id) = IdSpace::split(id);
    let space = if space.is_empty() { String::new() } else { format!(" of {space}") };
    let lost = if *side == LossSide::Sent { "debit" } else { "credit" };
    format!(
        "ledger shard {here}: {kind} {id}{space}: {} {asset} from {debit} to {to}: shard {there} knows of it, and its \
         {lost} is lost here",
        amount.get()
    )
}
