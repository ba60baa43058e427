#!/bin/bash
# Makes one tool available, or says in one line what to install:
#
#   setup.sh compiler|first_build|rust|python|clients|libraries|golang|redis|postgres|mosquitto|mochi|rabbitmq|
#            beanstalkd|nats|elasticmq|pacer_go|watchers|fuzz|mutants|miri
#
# Idempotent and quick when the tool is there, because most make targets call it.
set -euo pipefail
cd "$(dirname "$0")/.."

missing() {
    echo "setup: $1 is missing: $2" >&2
    exit 1
}

have() {
    command -v "$1" >/dev/null 2>&1
}

# Installs Debian packages when we may; else names them.
debian() {
    local what=$1
    shift
    if [ "$(id -u)" != 0 ] || ! have apt-get; then
        missing "$what" "install the package(s) $*"
    fi
    echo "setup: installing $*"
    # The services of the packages must not start: tests and benches start their own.
    export DEBIAN_FRONTEND=noninteractive RUNLEVEL=1
    apt-get install -y -qq --no-install-recommends "$@" >/dev/null 2>&1 && return
    apt-get update -qq >/dev/null || true
    apt-get install -y -qq --no-install-recommends "$@" >/dev/null || missing "$what" "apt-get could not install $*"
}

# What a build needs: a compiler that is not too old.
compiler() {
    have cc || debian "a C compiler (ring and libfuzzer need one)" gcc g++ libc6-dev
    if have cargo; then
        local wanted found
        wanted=$(sed -n 's/^rust-version = "\(.*\)"$/\1/p' Cargo.toml)
        found=$(cargo --version 2>/dev/null | cut -d' ' -f2) || missing "a Rust toolchain" "rustup default stable"
        [ "$(printf '%s\n' "$wanted" "$found" | sort -V | head -1)" = "$wanted" ] ||
            missing "Rust $wanted or newer" "this is $found; rustup update, or see https://rustup.rs"
        return
    fi
    rust
}

# The first build takes long: whoever waits knows why.
first_build() {
    compiler
    [ -e "${CARGO_TARGET_DIR:-target}/release/tidegate" ] ||
        echo "setup: the first build takes about 15 minutes on two cores, and 4 GB of disk"
}

rust() {
    if have cargo; then
        compiler
        # A toolchain of the minimal profile has neither.
        cargo clippy --version >/dev/null 2>&1 && cargo fmt --version >/dev/null 2>&1 && return
        have rustup || missing "clippy or rustfmt" "install them beside cargo, or see https://rustup.rs"
        echo "setup: installing clippy and rustfmt"
        rustup component add clippy rustfmt || missing "clippy or rustfmt" "rustup component add clippy rustfmt"
        return
    fi
    have cc || debian "a C compiler (ring and libfuzzer need one)" gcc g++ libc6-dev
    have curl || debian curl curl ca-certificates
    echo "setup: installing Rust with rustup"
    curl -sSf https://sh.rustup.rs | sh -s -- -y -q --profile minimal -c clippy -c rustfmt ||
        missing cargo "see https://rustup.rs"
}

# A virtual environment of our own in .venv, rebuilt when the requirements change.
python() {
    local wanted=tests/doors/requirements.txt built=.venv/requirements.txt
    cmp -s "$wanted" "$built" && return
    have curl || debian curl curl
    have python3 || debian python3 python3 python3-venv
    rm -rf .venv
    if ! python3 -m venv .venv 2>/dev/null; then
        debian "python3's venv module" python3-venv
        python3 -m venv .venv
    fi
    echo "setup: installing $(tr '\n' ' ' <"$wanted")"
    .venv/bin/pip install -q --disable-pip-version-check -r "$wanted" ||
        missing "what $wanted lists" "pip could not install it"
    cp "$wanted" "$built"
}

# What people talk MQTT and SQS with, and a browser for the voting page; their Python halves come with `python`.
clients() {
    have mosquitto_pub || debian "mosquitto's clients" mosquitto-clients
    { have chromium && have chromedriver; } || debian "a browser that can be driven" chromium chromium-driver
    node_modules tests/doors/clients/javascript "mqtt.js, the SDK of AWS, an OpenID provider and an SMSC"
}

# What the client libraries are tested with. The one for Python needs nothing but Python 3.10.
libraries() {
    have cc || debian "a C compiler (for clients/c)" gcc libc6-dev
    have curl || debian curl curl
    have python3 || debian python3 python3
    golang
    node_modules clients/typescript "TypeScript"
}

# The packages of a folder's package-lock.json.
node_modules() {
    local home=$1 what=$2
    { have node && have npm; } || debian "Node.js with npm" nodejs npm
    local wanted=$home/package-lock.json built=$home/node_modules/wanted.json
    cmp -s "$wanted" "$built" && return
    echo "setup: installing $what"
    npm --prefix "$home" ci --silent --no-audit --no-fund --ignore-scripts || missing "$what" "npm ci in $home failed"
    cp "$wanted" "$built"
}

# 1.19, which Debian has, is enough for what is ours.
golang() {
    have go || debian Go golang-go ca-certificates
}

redis() {
    have redis-server || debian redis-server redis-server
}

postgres() {
    compgen -G "/usr/lib/postgresql/*/bin/postgres" >/dev/null || have postgres || debian postgresql postgresql
}

mosquitto() {
    [ -x /usr/sbin/mosquitto ] || debian mosquitto mosquitto
}

# What operators watch a server with, and put before it.
watchers() {
    { have prometheus && have promtool; } || debian Prometheus prometheus
    have fail2ban-regex || debian fail2ban fail2ban
    [ -x /usr/sbin/haproxy ] || debian HAProxy haproxy
}

# A broker in Go. Its authors call the program `cmd`; the go.sum of its own module pins what it is made of.
mochi() {
    local version=v2.7.9 built=target/peers/mochi
    [ -x "$built" ] && return
    # Debian's own Go may be too old: it then fetches the one that the module asks for.
    have go || debian "Go" golang-go
    echo "setup: installing mochi-mqtt $version"
    mkdir -p "$(dirname "$built")"
    GOBIN="$PWD/$(dirname "$built")" go install "github.com/mochi-mqtt/server/v2/cmd@$version" ||
        missing mochi-mqtt "go install could not build it"
    mv "$(dirname "$built")/cmd" "$built"
}

rabbitmq() {
    [ -x /usr/lib/rabbitmq/bin/rabbitmq-server ] || debian RabbitMQ rabbitmq-server
}

beanstalkd() {
    have beanstalkd || debian beanstalkd beanstalkd
}

nats() {
    local version=v2.15.3 folder=target/peers
    [ -x "$folder/nats-server" ] && return
    have go || debian "Go" golang-go
    echo "setup: installing nats-server $version"
    mkdir -p "$folder"
    GOBIN="$PWD/$folder" go install "github.com/nats-io/nats-server/v2@$version" ||
        missing nats-server "go install could not build it"
}

# The pacer of tests/peers/pacer. Built each time: it is ours, and Go builds nothing twice.
pacer_go() {
    golang
    mkdir -p target/peers
    local built=$PWD/target/peers/pacer-go
    (cd tests/peers/pacer && go build -o "$built" .) || missing "the pacer in Go" "go build failed"
}

# The server and what it needs, from Maven Central.
elasticmq() {
    local version=1.7.1 folder=target/peers/elasticmq
    [ -e "$folder/elasticmq-server_2.13-$version.jar" ] && return
    have mvn || debian "Maven and Java" maven default-jdk-headless
    echo "setup: installing ElasticMQ $version"
    mkdir -p "$folder"
    cat >"$folder/pom.xml" <<EOF
<project xmlns="http://maven.apache.org/POM/4.0.0">
  <modelVersion>4.0.0</modelVersion>
  <groupId>tidegate</groupId><artifactId>peer</artifactId><version>1</version>
  <dependencies>
    <dependency>
      <groupId>org.elasticmq</groupId><artifactId>elasticmq-server_2.13</artifactId><version>$version</version>
    </dependency>
  </dependencies>
</project>
EOF
    mvn -q -B -f "$folder/pom.xml" dependency:copy-dependencies -DoutputDirectory="$PWD/$folder" \
        -DincludeScope=runtime || missing ElasticMQ "Maven could not fetch it"
}

nightly() {
    have rustup || missing rustup "nightly Rust is needed for this target; see https://rustup.rs"
    rustup run nightly rustc --version >/dev/null 2>&1 || rustup toolchain install nightly --profile minimal
}

fuzz() {
    nightly
    have cargo-fuzz || cargo install --locked --quiet cargo-fuzz
}

package() {
    have cargo-deb || cargo install --locked --quiet cargo-deb
}

mutants() {
    have cargo-mutants || cargo install --locked --quiet cargo-mutants
}

miri() {
    nightly
    rustup component add --toolchain nightly miri rust-src >/dev/null 2>&1 ||
        missing miri "rustup component add --toolchain nightly miri"
}

case ${1:-} in
compiler | first_build | rust | python | clients | libraries | golang) "$1" ;;
redis | postgres | mosquitto | mochi | watchers) "$1" ;;
rabbitmq | beanstalkd | nats | elasticmq | pacer_go) "$1" ;;
fuzz | mutants | miri | package) "$1" ;;
*)
    sed -n '2,5p' "$0"
    exit 2
    ;;
esac
