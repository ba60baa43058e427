//! Replies of the fake ledger, page by page.

use super::*;

/// A history, page by page.
pub struct FakeReplies {
    pub(super) state: Arc<Mutex<State>>,
    pub(super) id: Box<str>,
    pub(super) before: Option<Box<str>>,
    pub(super) rows_left: u64,
}

impl FakeReplies {
    /// The next part; `None` if nobody answers.
    fn decide(&mut self) -> Option<Reply> {
        let mut state = self.state.lock().unwrap();
        if state.is_silent {
            return None;
        }
        if let Some(why) = state.unavailable {
            return Some(Reply::Unavailable(why));
        }
        let limit = self.rows_left.min(1_000) as u32;
        let before = self.before.take();
        let page = Request::ReadHistory { id: self.id.clone(), before, limit, times: TimeSpan::ALL };
        let (rows, next) = match state.decide(page) {
            Reply::History { rows, next, .. } => (rows, next),
            refused => return Some(refused),
        };
        state.parts += 1;
        self.rows_left -= rows.len() as u64;
        let is_last = next.is_none() || self.rows_left == 0;
        self.before = next;
        let written_by = rows.iter().map(|row| TimeMs(row.time_ms)).collect();
        Some(Reply::HistoryPart { rows, written_by, is_last })
    }
}

impl Replies for FakeReplies {
    async fn next(&mut self) -> Option<Reply> {
        match self.decide() {
            Some(reply) => Some(reply),
            None => std::future::pending().await,
        }
    }
}

impl Drop for FakeReplies {
    fn drop(&mut self) {
        self.state.lock().unwrap().streams -= 1;
    }
}
