#!/bin/bash
# Tries the mutants of cargo-mutants with one build for all of them: mutants.sh PACKAGES [FILES]
#
#   mutants.sh "journal shard"                       all of these two
#   mutants.sh shard "src/fold.rs src/replay.rs"     those whose names hold one of these words
#
#   cargo mutants --list ─▶ woven into a copy of the tree ─▶ unit and property tests ─▶ those that live: simulator
#
# One that lives is printed; all are in target/mutants/results-PACKAGE.txt. MUTANT_SEEDS (20): seeds of each world.
# A mutant that this cannot weave (in a constant, a deleted field) is in target/mutants/left-out.txt; for those and for
# one alone: cargo mutants -p tidegate-PACKAGE -F NAME.
set -euo pipefail
cd "$(dirname "$0")/.."

packages=${1:-journal shard ledger machines}
files=${2:-}
root=$PWD
work=$(realpath -m "${CARGO_TARGET_DIR:-target}")/mutants
tree=$work/tree
mkdir -p "$tree"
: >"$work/without.txt"

tool() {
    cargo run -q --manifest-path "$root/tests/mutants/Cargo.toml" --target-dir "$work/tool" -- "$@"
}

chosen=()
for package in $packages; do
    chosen+=(-p "tidegate-$package")
done
cargo mutants --list --json "${chosen[@]}" >"$work/list.json"

# Weaves without what the compiler refuses, until it refuses nothing.
export CARGO_TARGET_DIR=$work/target
for round in $(seq 1 30); do
    cp -a Cargo.toml Cargo.lock crates examples docs "$tree/"
    tool weave --list "$work/list.json" --tree "$tree" --without "$work/without.txt" >"$work/left-out.txt"
    if (cd "$tree" && cargo check "${chosen[@]}" --message-format=json 2>"$work/check.err" >"$work/check.json"); then
        break
    fi
    tool blame --tree "$tree" <"$work/check.json" >"$work/blamed.txt"
    if [ ! -s "$work/blamed.txt" ]; then
        tail -20 "$work/check.err" >&2
        exit 1
    fi
    sort -un "$work/without.txt" "$work/blamed.txt" -o "$work/without.txt"
    echo "round $round: $(wc -l <"$work/blamed.txt") mutants do not build"
done
cp "$work/without.txt" "$work/unviable.txt"
cut -d ' ' -f 1 "$work/left-out.txt" | sort -un - "$work/unviable.txt" -o "$work/without.txt"

build() {
    (cd "$tree" && cargo "$@" --message-format=json) |
        sed -n 's/.*"executable":"\([^"]*\)".*/\1/p' | tail -1
}
simulator=$(build build -p tidegate-sim --bin tidegate-sim)
# A binary that ends at the first test that fails (still unstable) costs half.
export RUSTC_BOOTSTRAP=1 RUST_BACKTRACE=0 PROPTEST_CASES=${PROPTEST_CASES:-24}
# What fails with a mutant is not to be tried again without it: no proptest-regressions/ in this tree.
export PROPTEST_DISABLE_FAILURE_PERSISTENCE=true
bounded="ulimit -v 8000000; ulimit -t 60;"
only=()
for part in $files; do
    only+=(--only "$part")
done
for package in $packages; do
    tests=$(build test -p "tidegate-$package" --lib --no-run)
    sim="$simulator --quiet --seeds 0..${MUTANT_SEEDS:-20} --world"
    results=$work/results-$package.txt
    (cd "crates/$package" && tool try --list "$work/list.json" --without "$work/without.txt" "${only[@]}" \
        --only-package "$package" --timeout 300 \
        --stage "$bounded $tests -q -Zunstable-options --fail-fast" \
        --stage "$bounded $sim ledger && $sim gateway" >"$results")
    echo "$package: $(cut -f 2 "$results" | cut -d ' ' -f 1 | sort | uniq -c | tr -s ' \n' ' ')"
    grep -P '\tsurvived\t' "$results" | cut -f 4 || true
done
