//! What the users of a script may do.

use std::cell::Cell;
use std::sync::Arc;

use tidegate_broker::{Access, Rights};

thread_local! {
    static ASKED_ABOUT: Cell<usize> = const { Cell::new(0) };
}

/// How often this thread has asked whether a filter is allowed.
pub fn filters_asked_about() -> usize {
    ASKED_ABOUT.get()
}

/// The rights of a user of a script.
#[derive(Debug)]
struct ScriptRights {
    user: Option<String>,
    reloaded: bool,
}

/// The rights of a user, if there is one of that name.
pub fn rights_of(user: Option<&str>, reloaded: bool) -> Option<Arc<dyn Rights>> {
    let is_known = user != Some("nobody") && !(reloaded && user == Some("gone"));
    is_known.then(|| Arc::new(ScriptRights { user: user.map(str::to_owned), reloaded }) as Arc<dyn Rights>)
}

impl ScriptRights {
    fn access(&self, topic: &str) -> Access {
        // "part" may read all of part/ but one topic, and after a reload but another one.
        let hidden = if self.reloaded { "part/late" } else { "part/hidden" };
        if self.user.as_deref() == Some("part") && topic == hidden {
            return Access::Denied;
        }
        if self.user.as_deref() == Some("part") && (topic == "#" || topic == "part/#") {
            return Access::AllowedInPart;
        }
        if topic.starts_with("secret/")
            || topic == "$to/secret"
            || self.reloaded && (topic.starts_with("closed/") || topic == "$from/more")
        {
            return Access::Denied;
        }
        Access::Allowed
    }
}

impl Rights for ScriptRights {
    fn user(&self) -> Option<&str> {
        self.user.as_deref()
    }

    fn may_be_called(&self, client_id: &str) -> bool {
        // "of-NAME-…" is for the user of that name.
        let of_user = client_id.strip_prefix("of-").and_then(|rest| rest.split_once('-'));
        of_user.is_none_or(|(name, _)| self.user.as_deref() == Some(name))
    }

    fn may_publish(&self, _client_id: &str, topic: &str) -> Access {
        if topic.starts_with("$SYS") || topic.starts_with("$ledger/accounts") {
            return Access::Denied;
        }
        self.access(topic)
    }

    fn may_any_publish(&self, topic: &str) -> bool {
        self.access(topic) == Access::Allowed
    }

    fn may_subscribe(&self, _client_id: &str, filter: &str) -> Access {
        ASKED_ABOUT.set(ASKED_ABOUT.get() + 1);
        match filter.strip_prefix("$ledger/accounts/") {
            Some(account) => Access::IfConfirmed(account.into()),
            None => self.access(filter),
        }
    }
}
