//! What the machine gives this process: cores, and memory.
//!
//! ```text
//!   /proc/meminfo ─▶ the machine's ─┐
//!   /proc/self/cgroup ─▶ its group, and each one around it ─▶ their limits ─┴─▶ the least of all
//! ```
//!
//! Why the least: a container or a unit with `MemoryMax` is killed by its own limit, however much the machine has.

use std::fs;
use std::path::{Path, PathBuf};

/// What there is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Host {
    /// Cores that this process may run on.
    pub cores: usize,
    /// Bytes of memory; `None` if the system does not say.
    pub memory_bytes: Option<u64>,
}

impl Host {
    /// Looks at this one.
    pub fn this() -> Host {
        let cores = std::thread::available_parallelism().map_or(1, usize::from);
        Host { cores, memory_bytes: memory_bytes(Path::new("/")) }
    }
}

/// The least of what the machine has and what its groups allow, by the files below `root`.
fn memory_bytes(root: &Path) -> Option<u64> {
    let of_machine = fs::read_to_string(root.join("proc/meminfo")).ok().and_then(|text| total_bytes(&text));
    let groups = fs::read_to_string(root.join("proc/self/cgroup")).unwrap_or_default();
    let of_groups = groups.lines().flat_map(|line| limits_of_group(root, line));
    of_groups.chain(of_machine).filter(|bytes| *bytes > 0).min()
}

/// `MemTotal:       24684084 kB`
fn total_bytes(meminfo: &str) -> Option<u64> {
    let line = meminfo.lines().find_map(|line| line.strip_prefix("MemTotal:"))?;
    Some(line.trim().strip_suffix("kB")?.trim().parse::<u64>().ok()? << 10)
}

/// The limits of the group that a line of `/proc/self/cgroup` names, and of all around it: `0::/a/b` of version 2,
/// `4:memory:/a/b` of version 1. In a container, its own group may be mounted as the outermost.
fn limits_of_group(root: &Path, line: &str) -> Vec<u64> {
    let mut parts = line.splitn(3, ':').skip(1);
    let (Some(controllers), Some(path)) = (parts.next(), parts.next()) else { return Vec::new() };
    let (mount, file) = match controllers {
        "" => (root.join("sys/fs/cgroup"), "memory.max"),
        list if list.split(',').any(|name| name == "memory") => {
            (root.join("sys/fs/cgroup/memory"), "memory.limit_in_bytes")
        }
        _ => return Vec::new(),
    };
    let own: PathBuf = mount.join(path.trim_start_matches('/'));
    // `max` is no limit, and no number.
    let limit = |group: &Path| fs::read_to_string(group.join(file)).ok()?.trim().parse().ok();
    own.ancestors().take_while(|group| group.starts_with(&mount)).filter_map(limit).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    const MEMINFO: &str = "MemTotal:       1000 kB\nMemFree:         900 kB\n";

    /// What a machine with these files has, beside [`MEMINFO`].
    fn found(files: &[(&str, &str)]) -> Option<u64> {
        let root = tempfile::tempdir().expect("a folder");
        for (path, text) in [("proc/meminfo", MEMINFO)].iter().chain(files) {
            let path = root.path().join(path);
            fs::create_dir_all(path.parent().expect("a folder")).expect("a folder");
            fs::write(path, text).expect("a file");
        }
        memory_bytes(root.path())
    }

    #[test]
    fn the_least_of_machine_and_groups_holds() {
        assert_eq!(found(&[]), Some(1_000 << 10), "no group");
        let own = ("proc/self/cgroup", "0::/system.slice/tidegate.service\n");
        let service = "sys/fs/cgroup/system.slice/tidegate.service/memory.max";
        assert_eq!(found(&[own, (service, "4096\n")]), Some(4_096));
        assert_eq!(found(&[own, (service, "max\n")]), Some(1_000 << 10));
        let slice = ("sys/fs/cgroup/system.slice/memory.max", "2048\n");
        assert_eq!(found(&[own, (service, "4096\n"), slice]), Some(2_048), "the group around it");
        assert_eq!(found(&[own, (service, "9999999999\n")]), Some(1_000 << 10), "more than there is");
    }

    #[test]
    fn groups_of_version_1_and_of_containers_are_found() {
        let first = ("proc/self/cgroup", "9:name=systemd:/\n4:cpu,memory:/docker/abc\n0::/\n");
        let limit = |path| (path, "8192\n");
        assert_eq!(found(&[first, limit("sys/fs/cgroup/memory/docker/abc/memory.limit_in_bytes")]), Some(8_192));
        assert_eq!(
            found(&[first, limit("sys/fs/cgroup/memory/memory.limit_in_bytes")]),
            Some(8_192),
            "seen from within"
        );
        assert_eq!(
            found(&[first, ("sys/fs/cgroup/memory/memory.limit_in_bytes", "9223372036854771712")]),
            Some(1_000 << 10)
        );
        assert_eq!(found(&[("proc/self/cgroup", "0::/\n"), ("sys/fs/cgroup/memory.max", "512")]), Some(512));
    }

    #[test]
    fn this_machine_has_some() {
        assert!(Host::this().memory_bytes.is_some_and(|bytes| bytes > 1 << 20));
    }
}
