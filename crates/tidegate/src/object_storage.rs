//! Archived segments in an S3-compatible store.
//!
//! ```text
//!   s3://bucket/prefix   bucket and prefix; who asks, and which server, stand in the environment (AWS_…)
//! ```
//!
//! Why the environment: keys do not belong on a command line, and every tool for such stores reads these variables.
//!
//! Invariant: the async runtime ends here. Each call builds one, waits, and returns; it is called on threads that may
//! wait.

use std::fs::File;
use std::future::Future;
use std::io::{Read, Write};
use std::path::Path;

use object_store::aws::{AmazonS3, AmazonS3Builder};
use object_store::path::Path as ObjectPath;
use object_store::{ObjectStoreExt, PutPayload};
use tidegate_backup::{ArchiveTarget, Pace};
use tidegate_journal::archive::ArchiveSource;

const SCHEME: &str = "s3://";
/// How much is sent or asked for at a time; parts of an upload, but for the last, must have 5 MiB.
const PART_BYTES: usize = 8 << 20;

/// Segments below one prefix of a bucket.
pub struct Bucket {
    /// `s3://bucket/prefix`, without a slash at the end.
    url: String,
}

impl Bucket {
    /// The place that a URL names; `None` for anything but `s3://bucket` and `s3://bucket/prefix`.
    pub fn of(url: &str) -> Option<Bucket> {
        let url = url.trim_end_matches('/');
        place(url).filter(|(bucket, _)| !bucket.is_empty()).map(|_| Bucket { url: url.to_owned() })
    }
}

impl ArchiveTarget for Bucket {
    fn put(&self, file: &Path, name: &str, pace: Pace<'_>) -> Result<String, String> {
        let url = format!("{}/{name}", self.url);
        run(&url, async |store, path| {
            let mut source = File::open(file).map_err(|cause| cause.to_string())?;
            let mut upload = store.put_multipart(&path).await.map_err(|cause| cause.to_string())?;
            loop {
                let mut part = Vec::new();
                (&mut source).take(PART_BYTES as u64).read_to_end(&mut part).map_err(|cause| cause.to_string())?;
                if part.is_empty() {
                    break;
                }
                let bytes = part.len() as u64;
                upload.put_part(PutPayload::from(part)).await.map_err(|cause| cause.to_string())?;
                if let Err(ended) = pace(bytes) {
                    // Parts of an upload that is never completed cost storage.
                    let _ = upload.abort().await;
                    return Err(ended);
                }
            }
            upload.complete().await.map_err(|cause| cause.to_string())
        })?;
        Ok(url)
    }

    fn get(&self, at: &str, into: &Path, pace: Pace<'_>) -> Result<(), String> {
        let mut target = File::create_new(into).map_err(|cause| format!("{}: {cause}", into.display()))?;
        fetch(at, &mut target, pace)
    }

    /// Nobody has been asked.
    fn is_gone(&self, _at: &str) -> bool {
        false
    }
}

/// Fetches archived segments of any bucket.
pub struct Fetcher;

impl ArchiveSource for Fetcher {
    fn fetch(&self, url: &str, into: &mut File) -> Result<(), String> {
        fetch(url, into, &mut |_| Ok(()))
    }
}

fn fetch(url: &str, target: &mut File, pace: Pace<'_>) -> Result<(), String> {
    run(url, async |store, path| {
        let bytes = store.head(&path).await.map_err(|cause| cause.to_string())?.size;
        let mut at = 0;
        while at < bytes {
            let end = bytes.min(at + PART_BYTES as u64);
            let part = store.get_range(&path, at..end).await.map_err(|cause| cause.to_string())?;
            target.write_all(&part).map_err(|cause| cause.to_string())?;
            pace(end - at)?;
            at = end;
        }
        target.sync_all().map_err(|cause| cause.to_string())
    })
}

/// Bucket and path of a URL.
fn place(url: &str) -> Option<(&str, &str)> {
    let place = url.strip_prefix(SCHEME)?;
    Some(place.split_once('/').unwrap_or((place, "")))
}

/// Does `work` with the store and the path that `url` names, and waits for it.
fn run<T, F>(url: &str, work: impl FnOnce(AmazonS3, ObjectPath) -> F) -> Result<T, String>
where
    F: Future<Output = Result<T, String>>,
{
    let said = |cause: String| format!("{url}: {cause}");
    // Whoever was first has set it; there is one for the process.
    let _ = rustls::crypto::ring::default_provider().install_default();
    let (bucket, path) = place(url).ok_or_else(|| said("only s3:// can be asked".into()))?;
    let store = AmazonS3Builder::from_env().with_bucket_name(bucket).build();
    let store = store.map_err(|cause| said(cause.to_string()))?;
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build();
    let runtime = runtime.map_err(|cause| said(cause.to_string()))?;
    runtime.block_on(work(store, ObjectPath::from(path))).map_err(said)
}

#[cfg(test)]
mod tests {
    use super::{Bucket, place};

    #[test]
    fn a_place_is_a_bucket_and_a_prefix() {
        assert_eq!(place("s3://shop/tidegate/one"), Some(("shop", "tidegate/one")));
        assert_eq!(Bucket::of("s3://shop/").map(|bucket| bucket.url), Some("s3://shop".into()));
        for url in ["s3://", "s3:///prefix", "gs://shop", "/var/archive", "shop"] {
            assert!(Bucket::of(url).is_none(), "{url}");
        }
    }
}
