//! Figures of processor time.

/// Prints what one of `count` has cost since `begun`.
pub fn report(what: &str, begun: u64, count: usize) {
    println!("{:>10.1} ns {what}", (cpu_ns() - begun) as f64 / count as f64);
}

/// Processor time of this thread, which neighbours on the machine do not stretch much.
pub fn cpu_ns() -> u64 {
    let statistics = std::fs::read_to_string("/proc/thread-self/schedstat").expect("Linux has it");
    statistics.split(' ').next().and_then(|first| first.parse().ok()).expect("nanoseconds on the processor come first")
}
