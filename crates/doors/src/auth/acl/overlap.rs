//! Whether two filters have a topic in common.

/// Whether some topic is matched by both filters (without their share groups). Symmetric.
pub fn filter_overlaps(one: &str, other: &str) -> bool {
    // [MQTT-4.7.2-1]: A filter that begins with a wildcard matches no topic that begins with $.
    let wild = |filter: &str| filter.starts_with(['+', '#']);
    if one.starts_with('$') && wild(other) || other.starts_with('$') && wild(one) {
        return false;
    }
    let (mut ones, mut others) = (one.split('/'), other.split('/'));
    loop {
        match (ones.next(), others.next()) {
            // Also the level above: a/# matches a.
            (Some("#"), _) | (_, Some("#")) => return true,
            (Some(level), Some(theirs)) if level == theirs || level == "+" || theirs == "+" => {}
            (None, None) => return true,
            _ => return false,
        }
    }
}
