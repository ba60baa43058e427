//! Lists for operators: a walk over all sessions, or over the retained messages that a filter matches, keeps the names
//! of one page, which are the smallest behind the page before.
//!
//! ```text
//!   list ─▶ walk, a slice each step ─▶ Smallest: limit + 1 names ─▶ rows, some each step ─▶ answer
//! ```
//!
//! Why a walk for each page and no order that is kept: it would cost each of a million sessions memory and each CONNECT
//! time, for a list that a person reads now and then.
//!
//! Promise: a session that is there from the first page to the last is listed once.

use std::cmp::Ordering;
use std::collections::{BinaryHeap, VecDeque};
use std::sync::Arc;

use tidegate_journal::LogStore;
use tidegate_machines::TimeMs;
use tidegate_machines::topic::Message;

use super::Broker;
use super::retain::RetainedMessage;
use crate::index::{Index, SessionIndex};
use crate::limits::{
    OPERATOR_PLACES_PER_STEP, OPERATOR_ROWS_MAX, OPERATOR_ROWS_PER_STEP, OPERATOR_SCANS_MAX, RETAINED_NODES_PER_STEP,
};
use crate::operator::{OperatorAnswer, OperatorTicket, RetainedList, SessionList, SessionRow};
use crate::retained::{Cursor, Progress};
use crate::session::{SessionRef, Stage};

/// Something under its name, by which alone it is compared.
struct Named<T>(Box<str>, T);

impl<T> PartialEq for Named<T> {
    fn eq(&self, other: &Named<T>) -> bool {
        self.0 == other.0
    }
}

impl<T> Eq for Named<T> {}

impl<T> PartialOrd for Named<T> {
    fn partial_cmp(&self, other: &Named<T>) -> Option<Ordering> {
        Some(self.cmp(other))
    }
}

impl<T> Ord for Named<T> {
    fn cmp(&self, other: &Named<T>) -> Ordering {
        self.0.cmp(&other.0)
    }
}

/// The smallest names behind `after`, one more of them than are wanted: it says that there are more.
struct Smallest<T> {
    after: Box<str>,
    limit: usize,
    kept: BinaryHeap<Named<T>>,
}

impl<T> Smallest<T> {
    fn new(after: Box<str>, limit: usize) -> Smallest<T> {
        Smallest { after, limit: limit.clamp(1, OPERATOR_ROWS_MAX), kept: BinaryHeap::new() }
    }

    fn offer(&mut self, name: &str, what: impl FnOnce() -> T) {
        let is_full = self.kept.len() > self.limit;
        let is_small = !is_full || self.kept.peek().is_some_and(|greatest| *name < *greatest.0);
        if !is_small || *name <= *self.after {
            return;
        }
        if is_full {
            self.kept.pop();
        }
        self.kept.push(Named(name.into(), what()));
    }

    /// The page in order, and its last name if there is more behind it.
    fn take(&mut self) -> (VecDeque<T>, Option<Box<str>>) {
        let mut kept = std::mem::take(&mut self.kept).into_sorted_vec();
        let has_more = kept.len() > self.limit;
        kept.truncate(self.limit);
        let next = kept.last().filter(|_| has_more).map(|Named(name, _)| name.clone());
        (kept.into_iter().map(|Named(_, what)| what).collect(), next)
    }
}

/// A walk over all sessions.
struct SessionScan {
    ticket: OperatorTicket,
    list: SessionList,
    at: u32,
    /// Sessions that are made meanwhile stand behind it, or at places that became free.
    until: u32,
    found: Smallest<SessionRef>,
    page: Option<SessionPage>,
}

/// The sessions that were found, on their way to be rows.
struct SessionPage {
    found: VecDeque<SessionRef>,
    next: Option<Box<str>>,
    rows: Vec<SessionRow>,
}

/// A walk over retained messages.
struct RetainedScan {
    ticket: OperatorTicket,
    cursor: Cursor,
    found: Smallest<Arc<Message>>,
}

enum Scan {
    Sessions(Box<SessionScan>),
    Retained(Box<RetainedScan>),
}

/// Lists that are being made; the front one is next.
#[derive(Default)]
pub(super) struct Scans(VecDeque<Scan>);

impl Scans {
    fn are_full(&self) -> bool {
        self.0.len() >= OPERATOR_SCANS_MAX
    }

    /// Cursors over retained messages that are open.
    pub fn cursors(&self) -> usize {
        self.0.iter().filter(|scan| matches!(scan, Scan::Retained(_))).count()
    }

    /// Panics if there are too many.
    pub fn assert_sound(&self) {
        assert!(self.0.len() <= OPERATOR_SCANS_MAX, "lists under way are bounded");
    }
}

impl<L: LogStore> Broker<L> {
    pub(super) fn list_sessions(&mut self, ticket: OperatorTicket, list: SessionList) {
        if self.operator.scans.are_full() {
            return self.operator.answer(ticket, OperatorAnswer::Busy);
        }
        let found = Smallest::new(list.after.clone(), list.limit);
        let until = self.clients.sessions.reached();
        let scan = SessionScan { ticket, list, at: 0, until, found, page: None };
        self.operator.scans.0.push_back(Scan::Sessions(Box::new(scan)));
    }

    pub(super) fn list_retained(&mut self, ticket: OperatorTicket, list: RetainedList) {
        if self.operator.scans.are_full() {
            return self.operator.answer(ticket, OperatorAnswer::Busy);
        }
        let cursor = self.retained.messages.open(&list.filter);
        let found = Smallest::new(list.after, list.limit);
        self.operator.scans.0.push_back(Scan::Retained(Box::new(RetainedScan { ticket, cursor, found })));
    }

    /// One slice of one list: they take turns. Whether there is one.
    pub(super) fn step_operator_scans(&mut self, now: TimeMs) -> bool {
        let Some(scan) = self.operator.scans.0.pop_front() else { return false };
        let left = match scan {
            Scan::Sessions(scan) => self.scan_sessions(scan).map(Scan::Sessions),
            Scan::Retained(scan) => self.scan_retained(scan, now).map(Scan::Retained),
        };
        self.operator.scans.0.extend(left);
        true
    }

    /// Gives the scan back if it is not over.
    fn scan_sessions(&mut self, mut scan: Box<SessionScan>) -> Option<Box<SessionScan>> {
        let Some(page) = &mut scan.page else {
            let end = scan.until.min(scan.at.saturating_add(OPERATOR_PLACES_PER_STEP));
            for place in scan.at..end {
                self.look_at_session(SessionIndex::of(place), &mut scan);
            }
            scan.at = end;
            if scan.at >= scan.until {
                let (found, next) = scan.found.take();
                scan.page = Some(SessionPage { found, next, rows: Vec::new() });
            }
            return Some(scan);
        };
        for _ in 0..OPERATOR_ROWS_PER_STEP {
            let Some(session) = page.found.pop_front() else {
                let answer = OperatorAnswer::Sessions(std::mem::take(&mut page.rows), page.next.take());
                self.operator.answer(scan.ticket, answer);
                return None;
            };
            // It may have ended since it was found.
            if let Some(place) = self.clients.session(session) {
                page.rows.push(self.session_row(place));
            }
        }
        Some(scan)
    }

    fn look_at_session(&self, place: SessionIndex, scan: &mut SessionScan) {
        let session = &self.clients.sessions[place];
        let list = &scan.list;
        let is_wanted = session.stage != Stage::Vacant
            && session.client_id.starts_with(&*list.prefix)
            && list.connected.is_none_or(|wanted| self.clients.connected(place).is_some() == wanted)
            && list
                .owner
                .as_ref()
                .is_none_or(|wanted| session.owner.as_ref().is_some_and(|owner| owner.principal() == wanted));
        if is_wanted {
            scan.found.offer(&session.client_id, || self.clients.session_ref(place));
        }
    }

    /// Gives the scan back if it is not over.
    fn scan_retained(&mut self, mut scan: Box<RetainedScan>, now: TimeMs) -> Option<Box<RetainedScan>> {
        let RetainedScan { cursor, found, .. } = &mut *scan;
        let progress =
            self.retained.messages.step(cursor, now.0, &mut { RETAINED_NODES_PER_STEP }, |RetainedMessage(message)| {
                found.offer(message.topic(), || Arc::clone(message));
                true
            });
        if progress == Progress::More {
            return Some(scan);
        }
        let RetainedScan { ticket, cursor, mut found } = *scan;
        self.retained.messages.close(cursor);
        let (messages, next) = found.take();
        self.operator.answer(ticket, OperatorAnswer::Retained(messages.into(), next));
        None
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_page_has_the_smallest_names_and_says_where_it_goes_on() {
        let page = |after: &str, limit: usize| {
            let mut smallest = Smallest::new(after.into(), limit);
            for name in ["d", "a", "c", "e", "b"] {
                smallest.offer(name, || name.to_owned());
            }
            let (names, next) = smallest.take();
            (names.into_iter().collect::<String>(), next.as_deref().unwrap_or_default().to_owned())
        };
        let is = |names: &str, next: &str| (names.to_owned(), next.to_owned());
        assert_eq!(page("", 2), is("ab", "b"));
        assert_eq!(page("b", 2), is("cd", "d"));
        assert_eq!(page("d", 2), is("e", ""));
        assert_eq!(page("", 5), is("abcde", ""));
        assert_eq!(page("e", 5), is("", ""));
        assert_eq!(page("", 0), is("a", "a"), "a page has a row at least");
    }
}
