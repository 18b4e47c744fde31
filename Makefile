.PHONY: engines test-engines

# Real vLLM and llama.cpp, about 7 GB in ~/.cache/pointsman-engines (or $POINTSMAN_ENGINES); quick when they are there.
engines:
	tests/engines/install-vllm.sh
	tests/engines/install-llama.sh

# Pointsman in front of them. POINTSMAN_ENGINES_REQUESTS=10000 makes the run with a killed replica longer.
test-engines: engines
	cargo test --test engines -- --test-threads=1
