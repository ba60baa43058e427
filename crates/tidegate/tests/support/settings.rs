//! The configuration of a test's server.

use std::fs;
use std::path::{Path, PathBuf};

use super::SERVICE;

/// The configuration, with what tests vary. All addresses are on loopback, and the system chooses the ports.
#[derive(Clone, Debug)]
pub struct Settings {
    /// Where `config.toml` goes.
    pub root: PathBuf,
    /// The data directory.
    pub data: PathBuf,
    /// Address of the HTTP door.
    pub http: String,
    /// Address of the binary door.
    pub binary: String,
    /// Shards of a new directory.
    pub shards: u16,
    /// Worker threads.
    pub workers: u16,
    /// Seconds between snapshots, 0 for none.
    pub snapshot_interval_s: u64,
    /// Seconds between audits, 0 for none.
    pub audit_interval_s: u64,
    /// Whether there is an MQTT door, open to anonymous clients.
    pub mqtt: bool,
    /// Where MQTT is served over TLS, or "off".
    pub mqtts: String,
    /// More lines for `[data]`.
    pub data_keys: String,
    /// More lines for `[limits]`.
    pub limits: String,
    /// More lines for `[auth]`.
    pub auth: String,
    /// More sections.
    pub sections: String,
    /// The limit of open files, if not the host's.
    pub open_files_max: Option<u64>,
    /// More environment.
    pub environment: Vec<(String, String)>,
}

impl Settings {
    /// One shard, one worker, the smallest segments, no snapshots and audits by time.
    pub fn new(root: &Path) -> Settings {
        Settings {
            root: root.to_path_buf(),
            data: root.join("data"),
            http: "127.0.0.1:0".to_owned(),
            binary: "127.0.0.1:0".to_owned(),
            shards: 1,
            workers: 1,
            snapshot_interval_s: 0,
            audit_interval_s: 0,
            mqtt: false,
            mqtts: "off".to_owned(),
            data_keys: String::new(),
            limits: String::new(),
            auth: String::new(),
            sections: String::new(),
            open_files_max: None,
            environment: Vec::new(),
        }
    }

    /// Writes the file and returns its path.
    pub fn write(&self) -> PathBuf {
        let mqtt = if self.mqtt { "127.0.0.1:0" } else { "off" };
        let Settings { http, binary, mqtts, shards, workers, snapshot_interval_s, audit_interval_s, .. } = self;
        let Settings { data_keys, limits, auth, sections, .. } = self;
        let text = format!(
            "[listen]\nhttp = \"{http}\"\nbinary = \"{binary}\"\nmqtt = \"{mqtt}\"\n\
             mqtts = \"{mqtts}\"\n\n\
             [data]\nshards = {shards}\nsegment_bytes = {SEGMENT_BYTES}\n\
             snapshot_interval_s = {snapshot_interval_s}\naudit_interval_s = {audit_interval_s}\n{data_keys}\n\
             [limits]\nworkers = {workers}\n{limits}\n\n\
             [listener.mqtt]\nanonymous = true\n\n\
             [auth]\nopen_paths = [\"/metrics\"]\n{auth}\n\n\
             [[service]]\nname = \"test\"\ntoken = \"{SERVICE}\"\ngrants = [\"*\"]\n\n{sections}"
        );
        let path = self.root.join("config.toml");
        fs::write(&path, text).expect("the test's folder takes a file");
        path
    }
}

/// The smallest that the configuration allows, so that segments roll often.
pub const SEGMENT_BYTES: u64 = 16 << 20;
