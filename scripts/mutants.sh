#!/bin/bash
# Tries the mutants of cargo-mutants with one build for all of them: mutants.sh PACKAGES [FILES]
#
#   mutants.sh "journal shard"                       all of these two
#   mutants.sh machines "ledger/apply.rs hold.rs"    those whose names hold one of these words
#
#   cargo mutants --list ─▶ woven into a copy of the tree ─▶ which tests reach which mutants
#                        ─▶ each mutant: those tests, the quickest first ─▶ those that live: simulator
#
# Tests are those of the package and of the packages that are built on it, or of those that MUTANT_TESTS names. One that
# lives is printed; all are in target/mutants/results-PACKAGE.txt. MUTANT_SEEDS (20): seeds of each world of the
# simulator; 0 for no simulator.
# A mutant that this cannot weave (in a constant, a deleted field) is in target/mutants/left-out.txt; for those and for
# one alone: cargo mutants -p tidegate-PACKAGE -F NAME.
set -euo pipefail
cd "$(dirname "$0")/.."

packages=${1:-journal shard ledger machines}
files=${2:-}
seeds=${MUTANT_SEEDS:-20}
root=$PWD
work=$(realpath -m "${CARGO_TARGET_DIR:-target}")/mutants
tree=$work/tree
mkdir -p "$tree"

tool() {
    cargo run -q --manifest-path "$root/tests/mutants/Cargo.toml" --target-dir "$work/tool" -- "$@"
}

# The package and those that are built on it.
tested_by() {
    case ${MUTANT_TESTS:+named}$1 in
    named*) echo "$MUTANT_TESTS" ;;
    journal) echo journal shard ledger ;;
    shard) echo shard ledger ;;
    machines) echo machines ledger ;;
    *) echo "$1" ;;
    esac
}

chosen=()
for package in $packages; do
    chosen+=(-p "tidegate-$package")
done
# Text for people is left out.
cargo mutants --list --json --exclude-re '(Display|Debug) for' "${chosen[@]}" >"$work/list.json"

# Weaves without what the compiler refuses, until it refuses nothing.
export CARGO_TARGET_DIR=$work/target
: >"$work/unviable.txt"
woven=false
for round in $(seq 1 60); do
    cp -a Cargo.toml Cargo.lock crates examples docs "$tree/"
    tool weave --list "$work/list.json" --tree "$tree" --without "$work/unviable.txt" >"$work/left-out.txt"
    if (cd "$tree" && cargo check "${chosen[@]}" --message-format=json 2>"$work/check.err" >"$work/check.json"); then
        woven=true
        break
    fi
    tool blame --tree "$tree" <"$work/check.json" >"$work/blamed.txt"
    if [ ! -s "$work/blamed.txt" ]; then
        break
    fi
    echo "round $round: $(wc -l <"$work/blamed.txt") mutants do not build"
    sort -un "$work/unviable.txt" "$work/blamed.txt" -o "$work/unviable.txt"
done
if ! $woven; then
    tail -20 "$work/check.err" >&2
    exit 1
fi
cut -d ' ' -f 1 "$work/left-out.txt" | sort -un - "$work/unviable.txt" -o "$work/without.txt"

# A test binary or the simulator of the woven tree.
build() {
    (cd "$tree" && cargo "$@" --message-format=json-render-diagnostics) |
        sed -n 's/.*"executable":"\([^"]*\)".*/\1/p' | tail -1
}
# A binary that ends at the first test that fails (still unstable) costs half.
export RUSTC_BOOTSTRAP=1 RUST_BACKTRACE=0 PROPTEST_CASES=${PROPTEST_CASES:-24}
# What fails with a mutant is not to be tried again without it: no proptest-regressions/ in this tree.
export PROPTEST_DISABLE_FAILURE_PERSISTENCE=true
bounds="ulimit -v 8000000;"

testing=$(for package in $packages; do tested_by "$package"; done)
for by in $(echo "$testing" | tr ' ' '\n' | sort -u); do
    echo "which mutants the tests of $by reach"
    tool reach --binary "$(build test -p "tidegate-$by" --lib --no-run)" --folder "crates/$by" \
        --out "$work/reach-$by.txt"
done
stages=()
if [ "$seeds" -gt 0 ]; then
    sim="$(build build -p tidegate-sim --bin tidegate-sim) --quiet --seeds 0..$seeds --world"
    stages=(--stage "$sim ledger && $sim gateway")
fi
only=()
for part in $files; do
    only+=(--only "$part")
done
for package in $packages; do
    reach=()
    for by in $(tested_by "$package"); do
        reach+=(--reach "$work/reach-$by.txt")
    done
    results=$work/results-$package.txt
    tool try --list "$work/list.json" --without "$work/without.txt" "${only[@]}" --only-package "$package" \
        --processor-s 60 --bounds "$bounds" "${reach[@]}" "${stages[@]}" >"$results"
    echo "$package: $(cut -f 2 "$results" | cut -d ' ' -f 1 | sort | uniq -c | tr -s ' \n' ' ')"
    grep -P '\tsurvived\t' "$results" | cut -f 4 || true
done
