# Sourced by the install scripts: the cache folder of the engines, one installer at a time, and stamps.
#
# A part of the cache (an environment, a model, a binary) is there when its stamp equals the fingerprint of all that went
# into it. The stamp is written last, so a part whose install was cut off is made again from nothing.

set -euo pipefail

here=$(cd "$(dirname "${BASH_SOURCE[0]}")" && pwd)
cache=${POINTSMAN_ENGINES:-$HOME/.cache/pointsman-engines}
uv_version=0.13.9

say() { echo "engines: $*" >&2; }

fail() {
  say "$*"
  exit 1
}

# Wait until no other installer works in the cache; the lock goes with this process, however it ends.
only_one() {
  need flock util-linux
  mkdir -p "$cache"
  exec 9>"$cache/lock"
  flock -n 9 || {
    say "another installer works in $cache, waiting for it"
    flock 9
  }
}

# need COMMAND PACKAGE: COMMAND is there, or Debian's PACKAGE brings it, or the reason is said.
need() {
  command -v "$1" >/dev/null || debian_install "$2" "the command $1"
}

debian_install() {
  command -v apt-get >/dev/null || fail "$2 is missing: install it (on Debian: package $1) and try again"
  local root=()
  [ "$(id -u)" -eq 0 ] || root=(sudo)
  say "$2 is missing, installing Debian's $1"
  "${root[@]}" apt-get update -qq || fail "apt-get update failed, so $2 cannot be installed"
  DEBIAN_FRONTEND=noninteractive "${root[@]}" apt-get install -qq -y "$1" >&2 || fail "cannot install $1, which brings $2"
}

# A python3 that the locked versions have wheels for, with venv.
need_python() {
  need python3 python3
  python3 -c 'import sys; sys.exit(not (3, 11) <= sys.version_info[:2] <= (3, 13))' ||
    fail "python3 is $(python3 -V), but the engines' wheels need 3.11 to 3.13"
  python3 -c 'import ensurepip, venv' 2>/dev/null || debian_install python3-venv "Python's venv"
}

# uv, itself from PyPI: pip takes minutes for what uv does in seconds.
need_uv() {
  uv=$cache/tools/bin/uv
  [ "$("$uv" --version 2>/dev/null | cut -d' ' -f2)" = "$uv_version" ] && return
  need_python
  rm -rf "$cache/tools"
  python3 -m venv "$cache/tools"
  "$cache/tools/bin/pip" install -q "uv==$uv_version"
}

# fingerprint FILE...: one word for the contents of the files (- is the standard input) and the Python.
fingerprint() {
  { python3 -V; cat "$@"; } | sha256sum | cut -c1-16
}

# is_there PART FINGERPRINT: PART was installed completely from what FINGERPRINT stands for.
is_there() { [ "$(cat "$cache/$1.stamp" 2>/dev/null)" = "$2" ]; }

# begin PART: throw away what a former or unfinished install left of it.
begin() {
  say "installing $1 in $cache"
  rm -rf "${cache:?}/$1.stamp" "${cache:?}/$1"
}

done_with() { echo "$2" >"$cache/$1.stamp"; }

# environment NAME: a Python environment of exactly what locks/NAME.lock says.
environment() {
  local name=$1 print
  print=$(fingerprint "$here/locks/$name.lock")
  is_there "$name" "$print" && return
  begin "$name"
  need_uv
  "$uv" venv -q --no-python-downloads --python "$(command -v python3)" "$cache/$name"
  VIRTUAL_ENV=$cache/$name "$uv" pip sync -q "$here/locks/$name.lock"
  done_with "$name" "$print"
}
