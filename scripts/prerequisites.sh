#!/bin/sh
# Installs what the build needs beside Rust: cmake and a C compiler, for Pingora's zlib. Silent when all is there.
set -eu

if ! command -v cargo >/dev/null; then
    echo "cargo is missing: install Rust from https://rustup.rs" >&2
    exit 1
fi
if command -v cmake >/dev/null && command -v cc >/dev/null && command -v c++ >/dev/null; then
    exit 0
fi

as_root() {
    if [ "$(id -u)" -eq 0 ]; then "$@"; else sudo "$@"; fi
}

if command -v apt-get >/dev/null; then
    as_root apt-get update -qq
    as_root env DEBIAN_FRONTEND=noninteractive apt-get install -y -qq cmake gcc g++ make
elif command -v dnf >/dev/null; then
    as_root dnf install -y -q cmake gcc gcc-c++ make
elif command -v apk >/dev/null; then
    as_root apk add --quiet cmake gcc g++ make musl-dev
else
    echo "cmake and a C and C++ compiler are missing: install them with your system's package manager" >&2
    exit 1
fi
