"""A tiny Llama with random weights, and LoRA adapters that answer with a word of their own.

usage: make_tiny_model.py INTO     (runs in vLLM's environment)

INTO/base       the model: its greedy answer depends on the whole prompt and never contains an adapter's word
INTO/lora-1..6  rank 8; whatever the prompt, lora-1 answers " one one one", lora-2 " two two two", and so on
INTO/rank-16    an adapter that an engine started with --max-lora-rank 8 refuses

So an answer tells by itself which weights made it. How: coordinate 0 of the residual stream is a constant that value
dimension 0 carries through attention (whose weights add up to 1). Coordinate k is one that the base model never writes and
that alone feeds the logit of word k. Adapter k is a single product in the output projection: constant -> coordinate k.
All is float32 and the margins are wide, so that no order of batching turns a greedy answer.
"""

import json
import pathlib
import sys

import torch
from safetensors.torch import save_file
from tokenizers import Tokenizer, decoders, models, pre_tokenizers, trainers
from transformers import LlamaConfig, LlamaForCausalLM, PreTrainedTokenizerFast

WORDS = [" one", " two", " three", " four", " five", " six"]
HIDDEN, LAYERS, HEADS, HEAD_DIM, RANK = 128, 2, 2, 64, 8
MARKS = slice(1, len(WORDS) + 1)  # the coordinates that adapters write
PAD, BOS, EOS = 0, 1, 2
SPECIAL = ["<pad>", "<s>", "</s>", "<|user|>", "<|assistant|>", "<|system|>", "<|tool|>", "<|end|>"]
PROMPTS = ["hello", "Tell me of the river.", "<s><|user|>2 + 2<|end|><|assistant|>"]


def make_tokenizer(into):
    tokenizer = Tokenizer(models.BPE())
    tokenizer.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False)
    tokenizer.decoder = decoders.ByteLevel()
    corpus = ["".join(WORDS) + " tell me of the points, the signals and the trains that wait for a free track"] * 50
    tokenizer.train_from_iterator(
        corpus,
        trainers.BpeTrainer(
            vocab_size=400,
            special_tokens=SPECIAL,
            initial_alphabet=pre_tokenizers.ByteLevel.alphabet(),
            show_progress=False,
        ),
    )
    fast = PreTrainedTokenizerFast(
        tokenizer_object=tokenizer, bos_token="<s>", eos_token="</s>", pad_token="<pad>", clean_up_tokenization_spaces=False
    )
    fast.chat_template = (
        "{{ bos_token }}{% for m in messages %}<|{{ m.role }}|>{{ m.content }}<|end|>{% endfor %}"
        "{% if add_generation_prompt %}<|assistant|>{% endif %}"
    )
    fast.save_pretrained(into)
    return fast


def words_of(tokenizer):
    ids = [tokenizer.encode(word, add_special_tokens=False) for word in WORDS]
    assert all(len(one) == 1 for one in ids), f"a word is more than one token: {ids}"
    return [one[0] for one in ids]


def sayable(tokenizer, token):
    """Whether the base model may answer with this token: plain text, so that each token is one piece of a stream."""
    text = tokenizer.decode([token])
    return token >= len(SPECIAL) and text.isascii() and text.isprintable()


def make_base(tokenizer):
    config = LlamaConfig(
        vocab_size=len(tokenizer),
        hidden_size=HIDDEN,
        intermediate_size=2 * HIDDEN,
        num_hidden_layers=LAYERS,
        num_attention_heads=HEADS,
        num_key_value_heads=1,
        head_dim=HEAD_DIM,
        max_position_embeddings=4096,
        bos_token_id=BOS,
        eos_token_id=EOS,
        pad_token_id=PAD,
        tie_word_embeddings=False,
    )
    model = LlamaForCausalLM(config).float().eval()
    with torch.no_grad():
        for name, weight in model.named_parameters():
            if weight.dim() == 2:
                torch.nn.init.normal_(weight, std=1.0 if "embed" in name else weight.shape[1] ** -0.5)
        embed, head = model.model.embed_tokens.weight, model.lm_head.weight
        embed[:, MARKS] = 0
        embed[:, 0] = 1
        for token in range(len(tokenizer)):
            if not sayable(tokenizer, token):
                head[token] = 0
        head[:, MARKS] = 0
        for mark, word in enumerate(words_of(tokenizer), start=1):
            head[word] = 0
            head[word, mark] = 4
        for layer in model.model.layers:
            constant_through_attention(layer.self_attn)
            layer.mlp.down_proj.weight[: MARKS.stop] = 0
    return model


def constant_through_attention(attention):
    attention.v_proj.weight[0] = 0
    attention.v_proj.weight[0, 0] = 1
    attention.o_proj.weight[: MARKS.stop] = 0


def adapter_weights(mark, rank):
    down, up = torch.zeros(rank, HEADS * HEAD_DIM), torch.zeros(HIDDEN, rank)
    down[0, 0] = 1
    up[mark, 0] = 8
    return down, up


def save_adapter(into, mark, rank):
    into.mkdir()
    down, up = adapter_weights(mark, rank)
    tensors = {}
    for layer in range(LAYERS):
        module = f"base_model.model.model.layers.{layer}.self_attn.o_proj"
        tensors[f"{module}.lora_A.weight"] = down.clone()
        tensors[f"{module}.lora_B.weight"] = up.clone()
    save_file(tensors, into / "adapter_model.safetensors", metadata={"format": "pt"})
    config = {"peft_type": "LORA", "task_type": "CAUSAL_LM", "r": rank, "lora_alpha": rank, "target_modules": ["o_proj"]}
    config |= {"base_model_name_or_path": "base", "bias": "none", "lora_dropout": 0.0, "inference_mode": True}
    (into / "adapter_config.json").write_text(json.dumps(config, indent=1))


def greedy(model, ids, count=16):
    """The greedy answer, and by how much the narrowest of its choices was made."""
    answer, margin = [], float("inf")
    for _ in range(count):
        with torch.no_grad():
            best = model(torch.tensor([ids + answer])).logits[0, -1].topk(2)
        answer.append(best.indices[0].item())
        margin = min(margin, (best.values[0] - best.values[1]).item())
    return answer, margin


def with_adapter(model, mark, sign):
    down, up = adapter_weights(mark, RANK)
    with torch.no_grad():
        for layer in model.model.layers:
            layer.self_attn.o_proj.weight += sign * (up @ down)


def check(model, tokenizer):
    """The promises at the top of this file, kept by the weights just made."""
    prompts = [tokenizer.encode(prompt, add_special_tokens=False) for prompt in PROMPTS]
    words = words_of(tokenizer)
    bases = [greedy(model, prompt) for prompt in prompts]
    print("base says", [tokenizer.decode(answer) for answer, _ in bases], "margin", min(margin for _, margin in bases))
    assert len({tuple(answer) for answer, _ in bases}) == len(prompts), "the base answer does not depend on the prompt"
    assert not any(set(words) & set(answer) for answer, _ in bases), "the base says an adapter's word"
    assert all(margin > 1e-3 for _, margin in bases), "a choice of the base is too narrow"
    for mark, word in enumerate(words, start=1):
        with_adapter(model, mark, +1)
        for prompt in prompts:
            answer, margin = greedy(model, prompt)
            assert set(answer) == {word} and margin > 1, f"lora-{mark} says {tokenizer.decode(answer)!r}, margin {margin}"
        with_adapter(model, mark, -1)


def main(into):
    torch.manual_seed(int(sys.argv[2]) if len(sys.argv) > 2 else 1)
    torch.set_num_threads(1)
    into.mkdir(parents=True)
    tokenizer = make_tokenizer(into / "base")
    model = make_base(tokenizer)
    check(model, tokenizer)
    model.save_pretrained(into / "base")
    for mark in range(1, len(WORDS) + 1):
        save_adapter(into / f"lora-{mark}", mark, RANK)
    save_adapter(into / "rank-16", 1, 2 * RANK)


main(pathlib.Path(sys.argv[1]))
