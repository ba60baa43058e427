#!/bin/bash
# Runs every fuzz target for so many seconds:  fuzz.sh SECONDS [TARGET...]
# New finds go to fuzz/artifacts; what was learned stays out of the tree (a copy of the corpus is what grows).
set -euo pipefail
cd "$(dirname "$0")/.."

seconds=$1
shift
targets=("$@")
[ $# -gt 0 ] || mapfile -t targets < <(cargo +nightly fuzz list)

learned=$(mktemp -d)
trap 'rm -rf "$learned"' EXIT
unset CARGO_TARGET_DIR # cargo-fuzz keeps its sanitised builds apart, in fuzz/target
for target in "${targets[@]}"; do
    echo "=== fuzz $target for ${seconds}s"
    mkdir -p "$learned/$target"
    cargo +nightly fuzz run "$target" "$learned/$target" "fuzz/corpus/$target" -- \
        -max_total_time="$seconds" -print_final_stats=1
done
