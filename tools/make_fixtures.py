#!/usr/bin/env python3
"""Makes tests/fixtures/tiny: a seeded tiny model per family, in every container, with float32 reference logits.

    tools/make_fixtures.py PEER [OUT [NAME ...]]       OUT: tests/fixtures/tiny; NAME: only these
                                                   families, or quant/g128

PEER is a folder with llama.cpp/ (its source, for convert_hf_to_gguf.py, and build/bin/llama-quantize) and, for the check
against llama.cpp, peer_ref with its libraries below nlc/. Needs torch, transformers 5, tokenizers, sentencepiece, gguf.
What is committed was made with torch 2.13.0, transformers 5.24.0, tokenizers 0.23.3, llama.cpp v0.5.0.

Every folder OUT/<family> holds
    hf/                    config.json, model.safetensors (F32), tokenizer.json, tokenizer_config.json, generation_config.json
    <family>-f32.gguf      llama.cpp's conversion of it
    ids.txt                one line, comma separated token ids
    logits.f32             raw little-endian float32 [n ids][vocab]: transformers, float32, eager attention, one prefill
and beside them
    llama/hf-sharded/      the llama model in three safetensors shards with model.safetensors.index.json
    llama/llama-split-0000N-of-00003.gguf
    quant/<base>-<TYPE>.gguf, .logits.f32, <base>.ids.txt
                           one weight type throughout (llama-quantize --pure; norms stay F32): base `q64` (hidden 64) for
                           the types with blocks of 32 and the 16-bit floats, `q256` (hidden 256) for the K types; logits by
                           transformers from the weights dequantised to float32
    quant/g128-MXFP4.gguf  gpt-oss at hidden 128, its experts in MXFP4, others F32
    gpt-oss/               hf/ has the experts in MXFP4, as codes and scales; hf-plain/ has them as stacks in BF16, as
                           transformers writes dequantised ones; MXFP4.logits.f32 are of the weights in both and in
                           gpt-oss-MXFP4.gguf, MXFP4.cpu.logits.f32 of the same with activations rounded to 8 bits, by the
                           cpu backend's law, before they meet MXFP4

Before anything is kept it is checked: a prefill and eight single steps give the prefill's logits; transformers reading the
GGUF gives the logits of the dequantised weights; llama.cpp agrees within its own precision; and each family's
peculiarities, taken away one at a time, move the logits by far more than any tolerance ("twists" in the output).
"""

import dataclasses
import glob
import json
import os
import pathlib
import shutil
import subprocess
import sys
import tempfile
import warnings

import numpy as np

import moe_families

HERE = pathlib.Path(__file__).resolve().parent
VOCAB = 384
GEMMA_VOCAB = 448
N_IDS = 48


# --- tokenizers -------------------------------------------------------------------------------------------------------

LLAMA3_PATTERN = (r"(?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\r\n\p{L}\p{N}]?\p{L}+|\p{N}{1,3}| ?[^\s\p{L}\p{N}]+[\r\n]*"
                  r"|\s*[\r\n]+|\s+(?!\S)|\s+")
QWEN2_PATTERN = LLAMA3_PATTERN.replace(r"\p{N}{1,3}", r"\p{N}")

CHATML = ("{% for message in messages %}{{ '<|im_start|>' + message['role'] + '\n' + message['content'] + '<|im_end|>\n' }}"
          "{% endfor %}{% if add_generation_prompt %}{{ '<|im_start|>assistant\n' }}{% endif %}")
LLAMA3_TEMPLATE = (
    "{{ bos_token }}{% for message in messages %}{{ '<|start_header_id|>' + message['role'] + '<|end_header_id|>\n\n' + "
    "message['content'] | trim + '<|eot_id|>' }}{% endfor %}"
    "{% if add_generation_prompt %}{{ '<|start_header_id|>assistant<|end_header_id|>\n\n' }}{% endif %}")
GEMMA_TEMPLATE = (
    "{{ bos_token }}{% for message in messages %}{{ '<start_of_turn>' + ('model' if message['role'] == 'assistant' else "
    "message['role']) + '\n' + message['content'] | trim + '<end_of_turn>\n' }}{% endfor %}"
    "{% if add_generation_prompt %}{{ '<start_of_turn>model\n' }}{% endif %}")

# pre: what the GGUF's tokenizer.ggml.pre says. first: special tokens lowest in the vocabulary; last: above it.
TOKENIZERS = {
    "gpt2": dict(pre="gpt-2", first=["<|endoftext|>"], last=[], bos="<|endoftext|>", eos="<|endoftext|>", template=None),
    "smollm": dict(pre="smollm", first=["<|endoftext|>", "<|im_start|>", "<|im_end|>"], last=[], bos="<|im_start|>",
                   eos="<|im_end|>", template=CHATML),
    "qwen2": dict(pre="qwen2", first=[], last=["<|endoftext|>", "<|im_start|>", "<|im_end|>"], bos=None,
                  eos="<|im_end|>", template=CHATML, unused_rows=5),
    "llama3": dict(pre="llama-bpe", first=[], last=["<|begin_of_text|>", "<|end_of_text|>", "<|start_header_id|>",
                                                    "<|end_header_id|>", "<|eot_id|>"],
                   bos="<|begin_of_text|>", eos="<|eot_id|>", template=LLAMA3_TEMPLATE),
    "gemma": dict(pre=None, first=["<pad>", "<eos>", "<bos>", "<unk>"], last=[], bos="<bos>", eos="<eos>",
                  template=GEMMA_TEMPLATE),
}


def train_byte_level(kind, spec):
    from tokenizers import Regex, Tokenizer, decoders, models, normalizers, pre_tokenizers, processors, trainers
    import texts

    tok = Tokenizer(models.BPE(ignore_merges=kind == "llama3"))
    byte_level = pre_tokenizers.ByteLevel(add_prefix_space=False, use_regex=kind in ("gpt2", "smollm"))
    if kind == "smollm":
        tok.pre_tokenizer = pre_tokenizers.Sequence([pre_tokenizers.Digits(individual_digits=True), byte_level])
    elif kind == "gpt2":
        tok.pre_tokenizer = byte_level
    else:
        pattern = QWEN2_PATTERN if kind == "qwen2" else LLAMA3_PATTERN
        tok.pre_tokenizer = pre_tokenizers.Sequence(
            [pre_tokenizers.Split(Regex(pattern), behavior="isolated", invert=False), byte_level])
    if kind == "qwen2":
        tok.normalizer = normalizers.NFC()
    tok.decoder = decoders.ByteLevel()
    trainer = trainers.BpeTrainer(
        vocab_size=VOCAB - len(spec["last"]) - spec.get("unused_rows", 0), special_tokens=spec["first"],
        initial_alphabet=pre_tokenizers.ByteLevel.alphabet(), show_progress=False)
    tok.train_from_iterator(texts.CORPUS.splitlines(keepends=True), trainer)
    if spec["last"]:
        tok.add_special_tokens(spec["last"])
    byte_level_after = processors.ByteLevel(trim_offsets=False)
    if kind == "llama3":
        bos = spec["bos"]
        tok.post_processor = processors.Sequence([byte_level_after, processors.TemplateProcessing(
            single=bos + " $A", pair=bos + " $A " + bos + " $B", special_tokens=[(bos, tok.token_to_id(bos))])])
    else:
        tok.post_processor = byte_level_after
    return tok


def train_sentencepiece(spec, folder):
    """A SentencePiece BPE with byte fallback as Gemma has it: tokenizer.model into folder, and the same for tokenizers."""
    import sentencepiece as spm
    from tokenizers import AddedToken, Tokenizer, decoders, models, normalizers, pre_tokenizers, processors
    import texts

    corpus = folder / "corpus.txt"
    corpus.write_text("\n".join(line for line in texts.CORPUS.splitlines() if line.isascii()), encoding="utf-8")
    spm.SentencePieceTrainer.Train(
        input=str(corpus), model_prefix=str(folder / "tokenizer"), model_type="bpe",
        vocab_size=GEMMA_VOCAB, byte_fallback=True,
        character_coverage=1.0, normalization_rule_name="identity", add_dummy_prefix=False,
        remove_extra_whitespaces=False, split_digits=True, allow_whitespace_only_pieces=True, num_threads=1,
        pad_id=0, eos_id=1, bos_id=2, unk_id=3,
        pad_piece="<pad>", eos_piece="<eos>", bos_piece="<bos>", unk_piece="<unk>",
        user_defined_symbols=["<start_of_turn>", "<end_of_turn>"],
        minloglevel=2)
    corpus.unlink()
    (folder / "tokenizer.vocab").unlink()
    model = spm.SentencePieceProcessor(model_file=str(folder / "tokenizer.model"))
    vocab = {model.id_to_piece(i): i for i in range(model.vocab_size())}
    merges = []
    for piece, i in vocab.items():
        if model.is_control(i) or model.is_unknown(i) or model.is_byte(i):
            continue
        pairs = [(piece[:k], piece[k:]) for k in range(1, len(piece)) if piece[:k] in vocab and piece[k:] in vocab]
        merges += [(model.get_score(i), left, right) for left, right in
                   sorted(pairs, key=lambda p: (vocab[p[0]], vocab[p[1]]))]
    merges = [(left, right) for _, left, right in sorted(merges, key=lambda m: -m[0])]
    tok = Tokenizer(models.BPE(vocab=vocab, merges=merges, unk_token="<unk>", fuse_unk=True, byte_fallback=True))
    tok.normalizer = normalizers.Replace(" ", "\u2581")
    tok.pre_tokenizer = pre_tokenizers.Split(" ", behavior="merged_with_previous", invert=False)
    tok.decoder = decoders.Sequence([decoders.Replace("\u2581", " "), decoders.ByteFallback(), decoders.Fuse()])
    tok.add_special_tokens([AddedToken(t, normalized=False, special=True)
                            for t in spec["first"] + ["<start_of_turn>", "<end_of_turn>"]])
    bos = spec["bos"]
    tok.post_processor = processors.TemplateProcessing(
        single=bos + " $A", pair=bos + " $A " + bos + " $B", special_tokens=[(bos, tok.token_to_id(bos))])
    return tok


def write_tokenizer(kind, hf, model_folder, old):
    from tokenizers import Tokenizer
    spec = TOKENIZERS[kind]
    tok = train_sentencepiece(spec, model_folder) if kind == "gemma" else train_byte_level(kind, spec)
    tok.save(str(hf / "tokenizer.json"))
    if old:
        whole = json.loads((hf / "tokenizer.json").read_text(encoding="utf-8"))
        whole["model"]["merges"] = [" ".join(pair) for pair in whole["model"]["merges"]]
        write_json(hf / "tokenizer.json", whole)
        assert Tokenizer.from_file(str(hf / "tokenizer.json")).encode("The river, 12").ids == tok.encode("The river, 12").ids
    added = {str(i): dict(content=t.content, lstrip=t.lstrip, normalized=t.normalized, rstrip=t.rstrip,
                          single_word=t.single_word, special=t.special)
             for i, t in sorted(tok.get_added_tokens_decoder().items())}
    config = dict(tokenizer_class="PreTrainedTokenizerFast", added_tokens_decoder=added, bos_token=spec["bos"],
                  eos_token=spec["eos"], clean_up_tokenization_spaces=False, model_max_length=256)
    if kind in ("gemma", "smollm"):
        config["add_bos_token"] = kind == "gemma"
    if kind == "gemma":
        config["unk_token"], config["pad_token"] = "<unk>", "<pad>"
    if spec["template"]:
        config["chat_template"] = spec["template"]
    write_json(hf / "tokenizer_config.json", config)
    return tok


# --- models -----------------------------------------------------------------------------------------------------------

COMMON = dict(vocab_size=VOCAB, max_position_embeddings=256, num_hidden_layers=2, hidden_size=64, intermediate_size=32,
              num_attention_heads=4, num_key_value_heads=2)
LLAMA3_ROPE = dict(rope_type="llama3", rope_theta=10000.0, factor=8.0, low_freq_factor=1.0, high_freq_factor=4.0,
                   original_max_position_embeddings=32)


@dataclasses.dataclass
class Family:
    model: str  # transformers' class without "ForCausalLM"
    tokenizer: str
    config: dict
    seed: int
    twists: dict  # name -> function(model), each takes one peculiarity away
    # files as before transformers 5: rope_theta, rope_scaling and torch_dtype in config.json, merges as "a b" strings
    old_config: bool = False


def set_rope(**changes):
    """The model as it would be with other rope parameters (of every layer type)."""
    def twist(model):
        rotary = model.model.rotary_emb
        config = model.config
        for kind in changes.pop("kinds", [None]):
            parameters = config.rope_parameters if kind is None else config.rope_parameters[kind]
            parameters.update(changes)
        model.model.rotary_emb = type(rotary)(config)
    return twist


def no_window(model):
    model.config.layer_types = ["full_attention" if k == "sliding_attention" else k for k in model.config.layer_types]
    # the rope stays as it was: only the mask changes
    model.config.sliding_window = 4096


def fill(ending, value):
    def twist(model):
        found = [p for n, p in model.named_parameters() if n.endswith(ending)]
        assert found, ending
        for p in found:
            p.data.fill_(value)
    return twist


def one_theta(model):
    rotary = model.model.rotary_emb
    model.config.rope_parameters["sliding_attention"] = dict(model.config.rope_parameters["full_attention"])
    model.model.rotary_emb = type(rotary)(model.config)


ROPE = dict(rope_type="default", rope_theta=10000.0)
FAMILIES = {
    "llama": Family("Llama", "gpt2", dict(COMMON, rms_norm_eps=1e-5, tie_word_embeddings=True, rope_parameters=ROPE), 11,
                    {"theta 20000": set_rope(rope_theta=20000.0)}),
    "llama3-rope": Family(
        "Llama", "llama3", dict(COMMON, rms_norm_eps=1e-5, tie_word_embeddings=True, rope_parameters=LLAMA3_ROPE), 12,
        {"no scaling": set_rope(rope_type="default")}, old_config=True),
    "llama-untied": Family(
        "Llama", "gpt2", dict(COMMON, intermediate_size=96, num_key_value_heads=1, rms_norm_eps=1e-6,
                              tie_word_embeddings=False, rope_parameters=dict(ROPE, rope_theta=500000.0)), 13,
        {"head = embedding": lambda m: m.lm_head.weight.data.copy_(m.model.embed_tokens.weight.data)}),
    "smollm2": Family(
        "Llama", "smollm", dict(COMMON, intermediate_size=96, num_key_value_heads=1, rms_norm_eps=1e-5,
                                tie_word_embeddings=True, rope_parameters=dict(ROPE, rope_theta=100000.0)), 14,
        {"theta 10000": set_rope(rope_theta=10000.0)}, old_config=True),
    "qwen2": Family(
        "Qwen2", "qwen2", dict(COMMON, intermediate_size=96, rms_norm_eps=1e-6, tie_word_embeddings=True,
                               use_sliding_window=False, rope_parameters=dict(ROPE, rope_theta=1000000.0)), 15,
        {"no q bias": fill("q_proj.bias", 0), "no k bias": fill("k_proj.bias", 0), "no v bias": fill("v_proj.bias", 0)},
        old_config=True),
    "qwen3": Family(
        "Qwen3", "qwen2", dict(COMMON, num_attention_heads=6, head_dim=16, rms_norm_eps=1e-6, tie_word_embeddings=True,
                               use_sliding_window=False, rope_parameters=dict(ROPE, rope_theta=1000000.0)), 16,
        {"no q norm weight": fill("q_norm.weight", 1), "no k norm weight": fill("k_norm.weight", 1)}),
    "gemma3": Family(
        "Gemma3", "gemma", dict(
            COMMON, vocab_size=GEMMA_VOCAB, num_hidden_layers=7, hidden_size=32, intermediate_size=64, head_dim=16,
            num_key_value_heads=1, rms_norm_eps=1e-6, sliding_window=12, query_pre_attn_scalar=16, tie_word_embeddings=True,
            hidden_activation="gelu_pytorch_tanh", layer_types=["sliding_attention"] * 5 + ["full_attention"] +
            ["sliding_attention"], rope_parameters={
                "full_attention": dict(ROPE, rope_theta=1000000.0), "sliding_attention": dict(ROPE)}), 17,
        {"no window": no_window, "one theta": one_theta, "window 11": lambda m: set_window(m, 11)}, old_config=True),
}
QUANT = {
    "q64": (dataclasses.replace(FAMILIES["llama"], seed=21),
            ["F16", "BF16", "Q8_0", "Q4_0", "Q4_1", "Q5_0", "Q5_1"]),
    "q256": (dataclasses.replace(FAMILIES["llama"], seed=22, config=dict(
        FAMILIES["llama"].config, hidden_size=256, intermediate_size=256, num_hidden_layers=1, num_key_value_heads=1)),
        ["Q4_K", "Q5_K", "Q6_K"]),
}
FAMILIES.update(moe_families.families(Family, fill, VOCAB))
WIDE_GPT_OSS = dataclasses.replace(FAMILIES["gpt-oss"], config=dict(
    FAMILIES["gpt-oss"].config, hidden_size=128, intermediate_size=64, head_dim=32))
N_QUANT_IDS = 24


def set_window(model, width):
    model.config.sliding_window = width
    for layer in model.model.layers:
        if getattr(layer.self_attn, "sliding_window", None):
            layer.self_attn.sliding_window = width


def random_weights(model, seed):
    """Weights for which every part matters: logits with a spread of 3 to 5, norms away from 1, biases away from 0."""
    import torch
    rng = torch.Generator().manual_seed(seed)
    centre = 0.0 if "Gemma" in type(model).__name__ else 1.0
    for name, p in model.named_parameters():
        noise = torch.randn(p.shape, generator=rng)
        if name.endswith("norm.weight"):
            p.data = centre + 0.3 * noise
        elif name.endswith(".bias"):
            p.data = 0.5 * noise
        elif name.endswith(("_bias", "sinks")):
            p.data = 0.5 * noise
        elif "embed_tokens" in name or "lm_head" in name:
            p.data = 3.0 * noise / p.shape[1] ** 0.5
        else:
            n_in = p.shape[1] if "GptOss" in type(model).__name__ else p.shape[-1]
            p.data = noise / n_in ** 0.5
    for name, b in model.named_buffers():
        if name.endswith("e_score_correction_bias"):
            b.data = 0.2 * torch.randn(b.shape, generator=rng)
    return model


def build(family):
    import torch
    import transformers
    config = getattr(transformers, {"Gemma3": "Gemma3TextConfig"}.get(family.model, family.model + "Config"))(
        **json.loads(json.dumps(family.config)))
    model = getattr(transformers, family.model + "ForCausalLM")(config).float()
    if config.tie_word_embeddings:
        model.tie_weights()
    model.config.dtype = torch.float32
    return random_weights(model, family.seed).eval()


def load(folder, **more):
    import torch
    import transformers
    return transformers.AutoModelForCausalLM.from_pretrained(
        folder, dtype=torch.float32, attn_implementation="eager", **more).eval()


def prefill(model, ids):
    import torch
    with torch.no_grad():
        return model(torch.tensor([ids]), use_cache=False).logits[0].float().numpy()


def prefill_then_step(model, ids, n_step):
    import torch
    with torch.no_grad():
        out = model(torch.tensor([ids[:-n_step]]), use_cache=True)
        rows = [out.logits[0]]
        for i in range(len(ids) - n_step, len(ids)):
            out = model(torch.tensor([[ids[i]]]), past_key_values=out.past_key_values, use_cache=True)
            rows.append(out.logits[0])
        return torch.cat(rows).float().numpy()


def relative(x, ref):
    """The largest relative L2 distance of any position."""
    return float(np.max(np.linalg.norm(x - ref, axis=1) / np.linalg.norm(ref, axis=1)))


def middle(x, ref):
    """The median of the relative L2 distances of the positions."""
    return float(np.median(np.linalg.norm(x - ref, axis=1) / np.linalg.norm(ref, axis=1)))


# --- files ------------------------------------------------------------------------------------------------------------

def write_json(path, value):
    path.write_text(json.dumps(value, indent=2, ensure_ascii=False) + "\n", encoding="utf-8")


def old_style(config):
    """The same config as published before transformers 5."""
    rope = config.pop("rope_parameters")
    config["torch_dtype"] = config.pop("dtype")
    if config["model_type"] == "qwen3_moe":
        config["num_experts"] = config.pop("num_local_experts")
    if "full_attention" in rope:
        config["rope_theta"] = rope["full_attention"]["rope_theta"]
        config["rope_local_base_freq"] = rope["sliding_attention"]["rope_theta"]
        config["rope_scaling"] = None
        config.pop("_sliding_window_pattern", None)
        return config
    config["rope_theta"] = rope.pop("rope_theta")
    config["rope_scaling"] = None if rope["rope_type"] == "default" else rope
    return config


def write_hf(family, folder, model_folder):
    folder.mkdir(parents=True)
    tok = write_tokenizer(family.tokenizer, folder, model_folder, family.old_config)
    spec = TOKENIZERS[family.tokenizer]
    model = build(family)
    model.config.bos_token_id = tok.token_to_id(spec["bos"]) if spec["bos"] else None
    model.config.eos_token_id = tok.token_to_id(spec["eos"])
    model.config.pad_token_id = None
    model.save_pretrained(folder)
    config = json.loads((folder / "config.json").read_text())
    if family.old_config:
        config = old_style(config)
    write_json(folder / "config.json", config)
    generation = dict(eos_token_id=model.config.eos_token_id, do_sample=True, temperature=0.7, top_p=0.9)
    if spec["bos"]:
        generation["bos_token_id"] = model.config.bos_token_id
    write_json(folder / "generation_config.json", generation)
    return tok


def convert(peer, hf, tokenizer_model, out, pre, *more):
    """llama.cpp's own converter in a process of its own; only the look-up of the pre-tokenizer's name is replaced, since
    it knows tokenizers by a hash of what they make of one text, which a tokenizer trained here can't have."""
    code = ("import runpy, sys\n"
            "sys.path.insert(0, sys.argv[1] + '/gguf-py'); sys.path.insert(0, sys.argv[1])\n"
            "pre = sys.argv.pop(2); root = sys.argv.pop(1)\n"
            "import conversion.base as base\n"
            "base.TextModel.get_vocab_base_pre = lambda self, tokenizer: pre\n"
            "sys.argv[0] = root + '/convert_hf_to_gguf.py'\n"
            "runpy.run_path(sys.argv[0], run_name='__main__')\n")
    with tempfile.TemporaryDirectory() as work:
        source = pathlib.Path(work) / "model"
        shutil.copytree(hf, source)
        if tokenizer_model.exists():
            shutil.copy(tokenizer_model, source)
        command = [sys.executable, "-c", code, str(peer / "llama.cpp"), pre or "default", str(source), "--outtype", "f32",
                   "--outfile", str(out), "--model-name", out.stem, *more]
        done = subprocess.run(command, capture_output=True, text=True)
        if done.returncode:
            raise SystemExit(done.stderr)


class LlamaCpp:
    def __init__(self, peer):
        libs = glob.glob(str(peer / "nlc/node_modules/@node-llama-cpp/linux-x64/bins/linux-x64"))
        self.command = [str(peer / "peer_ref"), "-b", libs[0]] if libs and (peer / "peer_ref").exists() else None
        self.quantize_tool = peer / "llama.cpp/build/bin/llama-quantize"

    def logits(self, gguf, ids):
        if not self.command:
            return None
        with tempfile.NamedTemporaryFile() as f:
            subprocess.run(self.command + ["-m", str(gguf), "logits", ",".join(map(str, ids)), f.name], check=True)
            return np.fromfile(f.name, np.float32).reshape(len(ids), -1)

    def quantize(self, source, out, kind):
        # K types are named by their mixes; --pure makes every matrix that type
        name = {"Q4_K": "Q4_K_S", "Q5_K": "Q5_K_S"}.get(kind, kind)
        subprocess.run([str(self.quantize_tool), "--pure", str(source), str(out), name, "1"], check=True,
                       capture_output=True)


def from_dequantised(family, gguf_path):
    """The transformers model with the weights that the gguf package reads from the file, row order undone."""
    import gguf
    import torch
    model = build(family)
    n_head, n_kv = family.config["num_attention_heads"], family.config["num_key_value_heads"]
    names = {"attn_q": "self_attn.q_proj", "attn_k": "self_attn.k_proj", "attn_v": "self_attn.v_proj",
             "attn_output": "self_attn.o_proj", "ffn_gate": "mlp.gate_proj", "ffn_up": "mlp.up_proj",
             "ffn_down": "mlp.down_proj", "attn_norm": "input_layernorm", "ffn_norm": "post_attention_layernorm"}
    state = {}
    types = set()
    for t in gguf.GGUFReader(gguf_path).tensors:
        w = gguf.dequantize(t.data, t.tensor_type).astype(np.float32).reshape([int(d) for d in t.shape[::-1]])
        if len(t.shape) > 1:
            types.add(t.tensor_type.name)
        name = t.name.removesuffix(".weight")
        if name == "token_embd":
            state["model.embed_tokens.weight"] = w
        elif name == "output_norm":
            state["model.norm.weight"] = w
        else:
            _, layer, part = name.split(".")
            if part in ("attn_q", "attn_k"):
                heads = n_head if part == "attn_q" else n_kv
                w = w.reshape(heads, -1, 2, w.shape[1]).swapaxes(1, 2).reshape(w.shape)
            state["model.layers.%s.%s.weight" % (layer, names[part])] = w
    state["lm_head.weight"] = state["model.embed_tokens.weight"]
    model.load_state_dict({k: torch.from_numpy(np.ascontiguousarray(v)) for k, v in state.items()}, strict=True)
    model.config._attn_implementation = "eager"
    return model, types


def shard(folder, out, n_shard):
    from safetensors.numpy import load_file, save_file
    out.mkdir()
    for path in folder.iterdir():
        if path.suffix == ".json":
            shutil.copy(path, out)
    tensors = load_file(folder / "model.safetensors")
    names = sorted(tensors)
    index = {}
    for k in range(n_shard):
        part = names[k * len(names) // n_shard:(k + 1) * len(names) // n_shard]
        name = "model-%05d-of-%05d.safetensors" % (k + 1, n_shard)
        save_file({n: tensors[n] for n in part}, out / name, metadata={"format": "pt"})
        index.update({n: name for n in part})
    total = sum(t.nbytes for t in tensors.values())
    write_json(out / "model.safetensors.index.json", {"metadata": {"total_size": total}, "weight_map": index})


def check(name, value, bound, below=True):
    ok = value <= bound if below else value >= bound
    print("    %-46s %.2e  %s %.0e%s" % (name, value, "<=" if below else ">=", bound, "" if ok else "   FAILED"))
    if not ok:
        raise SystemExit(1)


# --- the work ---------------------------------------------------------------------------------------------------------

def make_family(name, family, peer, llama_cpp, out):
    print(name)
    work = pathlib.Path(tempfile.mkdtemp())
    tok = write_hf(family, out / name / "hf", work)
    hf = out / name / "hf"
    import texts
    text = texts.CORPUS.splitlines()
    ids = tok.encode("\n".join(text[i] for i in (5, 2, 21, 32))).ids[:N_IDS]
    assert len(ids) == N_IDS
    model = load(hf)
    logits = prefill(model, ids)
    check("built model against the one loaded from hf/", relative(prefill(build_eager(family), ids), logits), 1e-6)
    check("prefill, then 8 steps", relative(prefill_then_step(model, ids, 8), logits), 1e-5)
    print("    spread of the logits %.2f, gap of the two best %.2f (median)" %
          (logits.std(), np.median(np.diff(np.sort(logits)[:, -2:]))))
    for what, twist in family.twists.items():
        other = load(hf)
        twist(other)
        check("twist: " + what, relative(prefill(other, ids), logits), 3e-2, below=False)
    path = out / name / (name + "-f32.gguf")
    theirs = None
    if name not in moe_families.HF_ONLY:
        convert(peer, hf, work / "tokenizer.model", path, TOKENIZERS[family.tokenizer]["pre"])
        theirs = None if name in moe_families.UNLIKE_LLAMA_CPP else llama_cpp.logits(path, ids)
    if theirs is not None:
        check("llama.cpp, " + path.name, relative(theirs, logits[:, :theirs.shape[1]]), 1e-2)
    (out / name / "ids.txt").write_text(",".join(map(str, ids)) + "\n")
    logits.astype("<f4").tofile(out / name / "logits.f32")
    for layout in moe_families.LAYOUTS.get(name, []):
        moe_families.relayout(path, out / name / ("%s-%s.gguf" % (name, layout)), layout)
    if name == "gpt-oss":
        packed = out / name / "gpt-oss-MXFP4.gguf"
        model = moe_families.mxfp4_experts(path, packed, hf, build_eager(family))
        logits = prefill(model, ids)
        logits.astype("<f4").tofile(out / name / "MXFP4.logits.f32")
        with moe_families.rounded_activations():
            law = prefill(model, ids)
        print("    activations rounded as on cpu: %.2e off, median %.2e" % (relative(law, logits), middle(law, logits)))
        law.astype("<f4").tofile(out / name / "MXFP4.cpu.logits.f32")
        moe_families.plain_hf(model, hf, out / name / "hf-plain")
        check("transformers reading hf-plain/", relative(prefill(load(out / name / "hf-plain"), ids), logits), 1e-6)
        theirs = llama_cpp.logits(packed, ids)
        if theirs is not None:
            # its 8-bit activations flip an expert now and then, so half of the positions have to do
            check("llama.cpp, %s, median" % packed.name, middle(theirs, logits), 1e-1)
    if name == "llama":
        shard(hf, out / name / "hf-sharded", 3)
        assert relative(prefill(load(out / name / "hf-sharded"), ids), logits) == 0
        convert(peer, hf, work / "none", out / name / "llama-split.gguf", TOKENIZERS[family.tokenizer]["pre"],
                "--split-max-tensors", "8")
        parts = sorted((out / name).glob("llama-split-*.gguf"))
        assert len(parts) == 3, parts
        theirs = llama_cpp.logits(parts[0], ids)
        if theirs is not None:
            check("llama.cpp, the split file", relative(theirs, logits), 1e-2)
    shutil.rmtree(work)
    return tok


def build_eager(family):
    model = build(family)
    model.config._attn_implementation = "eager"
    return model


def make_quantised(base, family, kinds, peer, llama_cpp, out):
    import texts
    print("quant/" + base)
    work = pathlib.Path(tempfile.mkdtemp())
    folder = out / "quant"
    folder.mkdir(exist_ok=True)
    tok = write_hf(family, work / "hf", work)
    ids = tok.encode("\n".join(texts.CORPUS.splitlines()[5:7])).ids[:N_QUANT_IDS]
    (folder / (base + ".ids.txt")).write_text(",".join(map(str, ids)) + "\n")
    convert(peer, work / "hf", work / "none", work / "f32.gguf", TOKENIZERS[family.tokenizer]["pre"])
    exact = prefill(load(work / "hf"), ids)
    for kind in kinds:
        path = folder / ("%s-%s.gguf" % (base, kind))
        llama_cpp.quantize(work / "f32.gguf", path, kind)
        model, types = from_dequantised(family, path)
        assert types == {kind}, (path, types)
        logits = prefill(model, ids)
        again = prefill(load(str(folder), gguf_file=path.name), ids)
        print("  %s, from the unquantised model %.2e" % (kind, relative(logits, exact)))
        check("transformers reading the GGUF", relative(again, logits), 1e-6)
        theirs = llama_cpp.logits(path, ids)
        if theirs is not None:
            check("llama.cpp", relative(theirs, logits), 2e-2 if kind in ("F16", "BF16") else 1e-1)
        logits.astype("<f4").tofile(folder / ("%s-%s.logits.f32" % (base, kind)))
    shutil.rmtree(work)


def make_packed_experts(base, family, peer, llama_cpp, out):
    """gpt-oss with experts in MXFP4, wide enough for 8-bit activations to choose the same experts."""
    import texts
    print("quant/" + base)
    work = pathlib.Path(tempfile.mkdtemp())
    folder = out / "quant"
    folder.mkdir(exist_ok=True)
    tok = write_hf(family, work / "hf", work)
    ids = tok.encode("\n".join(texts.CORPUS.splitlines()[5:7])).ids[:N_QUANT_IDS]
    (folder / (base + ".ids.txt")).write_text(",".join(map(str, ids)) + "\n")
    convert(peer, work / "hf", work / "none", work / "f32.gguf", TOKENIZERS[family.tokenizer]["pre"])
    packed = folder / (base + "-MXFP4.gguf")
    model = moe_families.mxfp4_experts(work / "f32.gguf", packed, work / "hf", build_eager(family))
    logits = prefill(model, ids)
    with moe_families.rounded_activations():
        check("activations rounded as on cpu", relative(prefill(model, ids), logits), 2e-2)
    theirs = llama_cpp.logits(packed, ids)
    if theirs is not None:
        check("llama.cpp, median", middle(theirs, logits), 2e-2)
    logits.astype("<f4").tofile(folder / (base + "-MXFP4.logits.f32"))
    shutil.rmtree(work)


def main():
    if len(sys.argv) < 2 or sys.argv[1].startswith("-"):
        sys.stderr.write(__doc__)
        return 2
    os.environ.update(HF_HUB_OFFLINE="1", TOKENIZERS_PARALLELISM="false", TRANSFORMERS_VERBOSITY="error",
                      TQDM_DISABLE="1", PYTHONWARNINGS="ignore")
    warnings.simplefilter("ignore")
    sys.path.insert(0, str(HERE))
    import torch
    import transformers
    torch.set_num_threads(1)  # a fixed order of summation
    transformers.utils.logging.disable_progress_bar()
    peer = pathlib.Path(sys.argv[1]).resolve()
    out = pathlib.Path(sys.argv[2]) if len(sys.argv) > 2 else HERE.parent / "tests/fixtures/tiny"
    llama_cpp = LlamaCpp(peer)
    made = pathlib.Path(tempfile.mkdtemp())
    only = sys.argv[3:]
    for name, family in FAMILIES.items():
        if not only or name in only:
            make_family(name, family, peer, llama_cpp, made)
    for base, (family, kinds) in QUANT.items():
        if not only:
            make_quantised(base, family, kinds, peer, llama_cpp, made)
    if not only or "quant/g128" in only:
        make_packed_experts("g128", WIDE_GPT_OSS, peer, llama_cpp, made)
    for old in [out / name for name in only if name in FAMILIES] if only else [out]:
        if old.exists():
            shutil.rmtree(old)
    out.parent.mkdir(parents=True, exist_ok=True)
    shutil.copytree(made, out, dirs_exist_ok=True)
    shutil.rmtree(made)
    total = 0
    for folder in sorted(p for p in out.iterdir()):
        size = sum(p.stat().st_size for p in folder.rglob("*") if p.is_file())
        total += size
        print("%-16s %7d KB" % (folder.name, size // 1000))
    print("%-16s %7d KB" % ("all", total // 1000))
    return 0


if __name__ == "__main__":
    sys.exit(main())
