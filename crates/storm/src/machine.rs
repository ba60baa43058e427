//! What a result depends on besides the code: the machine it was measured on.

use std::fs;

/// Processor, cores, memory and kernel in one line.
pub fn describe() -> String {
    let read = |path: &str| fs::read_to_string(path).unwrap_or_default();
    let processors = read("/proc/cpuinfo");
    let field =
        |name: &str| processors.lines().find(|line| line.starts_with(name)).and_then(|line| line.split_once(": "));
    let model = field("model name").map_or("unknown processor", |(_, model)| model.trim());
    let cores = processors.lines().filter(|line| line.starts_with("processor")).count();
    let kibibytes = read("/proc/meminfo").split_whitespace().nth(1).and_then(|total| total.parse::<u64>().ok());
    let gibibytes = kibibytes.unwrap_or(0).div_ceil(1 << 20);
    let kernel = read("/proc/sys/kernel/osrelease");
    format!("{model}, {cores} cores, {gibibytes} GiB, Linux {}", kernel.trim())
}
