#!/bin/sh
# Installs what is missing. Without an argument: cmake and a C compiler, for Pingora's zlib. With `bench`: wrk, nginx and
# HAProxy too. Silent when all is there.
set -eu

if ! command -v cargo >/dev/null; then
    echo "cargo is missing: install Rust from https://rustup.rs" >&2
    exit 1
fi

has() {
    for tool in "$@"; do
        command -v "$tool" >/dev/null || [ -x "/usr/sbin/$tool" ] || return 1
    done
}

as_root() {
    if [ "$(id -u)" -eq 0 ]; then "$@"; else sudo "$@"; fi
}

# install TOOLS FOR-APT FOR-DNF FOR-APK
install() {
    # shellcheck disable=SC2086
    if has $1; then
        return
    elif command -v apt-get >/dev/null; then
        as_root apt-get update -qq
        as_root env DEBIAN_FRONTEND=noninteractive apt-get install -y -qq --no-install-recommends $2
    elif command -v dnf >/dev/null; then
        as_root dnf install -y -q $3
    elif command -v apk >/dev/null; then
        as_root apk add --quiet $4
    else
        echo "missing, install with your system's package manager: $1" >&2
        exit 1
    fi
}

install "cmake cc c++ make" "cmake gcc g++ make libc6-dev" "cmake gcc gcc-c++ make" "cmake gcc g++ make musl-dev"
if [ "${1:-}" = bench ]; then
    install "wrk nginx haproxy taskset" "wrk nginx-light haproxy util-linux" "wrk nginx haproxy util-linux" \
        "wrk nginx haproxy util-linux"
fi
