//! Generates the prost types of `tidegate.proto` and `queue.proto`. protox compiles the schemas in Rust, so that nobody
//! needs a `protoc`.

fn main() {
    println!("cargo::rerun-if-changed=tidegate.proto");
    println!("cargo::rerun-if-changed=queue.proto");
    let schema = protox::compile(["tidegate.proto", "queue.proto"], ["."]).expect("the schemas compile");
    prost_build::Config::new().compile_fds(schema).expect("prost-build writes its module to OUT_DIR");
}
