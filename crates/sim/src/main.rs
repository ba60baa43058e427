//! Placeholder.
fn main() {
    let mut args = std::env::args().skip(1);
    let from: u64 = args.next().unwrap().parse().unwrap();
    let to: u64 = args.next().unwrap().parse().unwrap();
    let aloud = args.next().is_some();
    let began = std::time::Instant::now();
    for seed in from..to {
        let run = tidegate_sim::run(seed, 4000, aloud);
        if let Some(v) = run.violation {
            for l in run.last_lines { println!("{}", l.chars().take(600).collect::<String>()); }
            println!("SEED {seed}: {v}");
            if std::env::var("KEEP").is_err() { break; }
        }
        println!("{seed} {:?} {:x}", run.tally, run.trace_hash);
    }
    println!("{:?}", began.elapsed());
}
