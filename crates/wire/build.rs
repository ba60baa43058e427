//! Generates the prost types of `tidegate.proto`, `queue.proto` and `pacer.proto`. protox compiles the schemas in
//! Rust, so that nobody needs a `protoc`.

fn main() {
    println!("cargo::rerun-if-changed=tidegate.proto");
    println!("cargo::rerun-if-changed=queue.proto");
    println!("cargo::rerun-if-changed=pacer.proto");
    let schema = protox::compile(["tidegate.proto", "queue.proto", "pacer.proto"], ["."]).expect("the schemas compile");
    prost_build::Config::new().compile_fds(schema).expect("prost-build writes its module to OUT_DIR");
}
