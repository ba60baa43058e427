//! Generates the prost types of `tidegate.proto`. protox compiles the schema in Rust, so that nobody needs a `protoc`.

fn main() {
    println!("cargo::rerun-if-changed=tidegate.proto");
    let schema = protox::compile(["tidegate.proto"], ["."]).expect("tidegate.proto compiles");
    prost_build::Config::new().compile_fds(schema).expect("prost-build writes its module to OUT_DIR");
}
