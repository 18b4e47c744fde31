#!/usr/bin/env bash
# `make test-page`: the dashboard in a real Chromium. Installs what is missing: Debian's chromium and nodejs, and playwright-core
# of a fixed version from npm into ~/.cache/pointsman-page (or $POINTSMAN_PAGE). Further arguments go to run.mjs.
set -euo pipefail
cd "$(dirname "$0")/../.."
# The newest that takes the Node 18 of Debian 12.
version=1.56.1
cache=${POINTSMAN_PAGE:-${XDG_CACHE_HOME:-$HOME/.cache}/pointsman-page}

missing=()
command -v chromium >/dev/null || missing+=(chromium)
command -v node >/dev/null || missing+=(nodejs)
command -v npm >/dev/null || missing+=(npm)
if [ "${#missing[@]}" -gt 0 ]; then
  as_root=()
  [ "$(id -u)" -eq 0 ] || as_root=(sudo)
  "${as_root[@]}" apt-get update -qq
  DEBIAN_FRONTEND=noninteractive "${as_root[@]}" apt-get install -y -qq --no-install-recommends "${missing[@]}"
fi
if [ ! -e "$cache/node_modules/playwright-core/package.json" ] ||
  ! grep -q "\"version\": \"$version\"" "$cache/node_modules/playwright-core/package.json"; then
  mkdir -p "$cache"
  npm install --silent --no-audit --no-fund --prefix "$cache" "playwright-core@$version"
fi

cargo build --quiet --bin pointsman
PLAYWRIGHT="$cache" CHROMIUM="$(command -v chromium)" exec node tests/dashboard/run.mjs "${CARGO_TARGET_DIR:-target}/debug/pointsman" "$@"
