//! What queues and messages are called in SQS.
//!
//! ```text
//!   queue jobs   http://HOST/000000000000/jobs      arn:aws:sqs:tidegate:000000000000:jobs
//!   message      the 128 bits of its key as a UUID: 019aca2e-8f3a-0000-0000-010000000001
//! ```

use tidegate_queue::machine::{MessageKey, is_queue_name};

use super::Done;
use super::error::AwsError;

/// The only account that there is.
pub const ACCOUNT: &str = "000000000000";
/// What ARNs begin with.
const ARN_PREFIX: &str = "arn:aws:sqs:tidegate:000000000000:";
/// What the names of queues end in whose messages have an order.
const FIFO_SUFFIX: &str = ".fifo";

/// Whether the messages of a queue have an order.
pub fn is_fifo(queue: &str) -> bool {
    queue.ends_with(FIFO_SUFFIX)
}

/// The URL of a queue of a server that the client calls `host`, and speaks to by `scheme`.
pub fn url_of(scheme: &str, host: &str, queue: &str) -> String {
    let name = queue.replace('{', "%7B").replace('}', "%7D");
    format!("{scheme}://{host}/{ACCOUNT}/{name}")
}

/// The queue of a URL: what stands behind the last slash. Which host the URL names is left open, because a server has
/// many names.
pub fn queue_of(url: Option<&str>) -> Done<Box<str>> {
    let url = url.filter(|url| !url.is_empty()).ok_or_else(|| AwsError::missing("QueueUrl"))?;
    let last = url.rsplit('/').next().unwrap_or_default();
    let name = ["%7B", "%7b"].into_iter().fold(last.to_owned(), |name, coded| name.replace(coded, "{"));
    let name = ["%7D", "%7d"].into_iter().fold(name, |name, coded| name.replace(coded, "}"));
    match is_queue_name(&name) {
        true => Ok(name.into()),
        false => Err(AwsError::parameter("QueueUrl", "expected what CreateQueue or GetQueueUrl answered")),
    }
}

/// The ARN of a queue.
pub fn arn_of(queue: &str) -> String {
    format!("{ARN_PREFIX}{queue}")
}

/// The queue of an ARN, whatever its region is.
pub fn queue_of_arn(arn: &str) -> Option<&str> {
    let rest = arn.strip_prefix("arn:aws:sqs:")?;
    let (_region, rest) = rest.split_once(':')?;
    rest.strip_prefix(ACCOUNT)?.strip_prefix(':').filter(|name| is_queue_name(name))
}

/// The id of a message.
pub fn message_id(key: MessageKey) -> String {
    uuid(key.bits())
}

/// Bits in the form of a UUID; they are none by its versions.
pub fn uuid(bits: u128) -> String {
    let digits = format!("{bits:032x}");
    [&digits[..8], &digits[8..12], &digits[12..16], &digits[16..20], &digits[20..]].join("-")
}
