"""The mixture-of-experts families of make_fixtures.py: seeded tiny configurations, what is peculiar to each, and GGUF files
in the layouts that llama.cpp's converter does not write (gate and up in one stack, a tensor for every expert)."""

import contextlib

import numpy as np

ROPE = dict(rope_type="default", rope_theta=10000.0)
BASE = dict(max_position_embeddings=256, num_hidden_layers=2, hidden_size=32, intermediate_size=32,
            num_attention_heads=4, num_key_value_heads=2, rope_parameters=ROPE)


def routers(model):
    return [m for _, m in model.named_modules() if type(m).__name__.endswith(("TopKRouter", "TopkRouter", "TopKGating"))]


def router_set(**values):
    """Every router with other settings."""
    def twist(model):
        assert routers(model)
        for r in routers(model):
            for name, value in values.items():
                assert hasattr(r, name), name
                setattr(r, name, value)
    return twist


def halves_swapped(model):
    """gate for up and up for gate."""
    for name, p in model.named_parameters():
        if name.endswith("gate_up_proj"):
            half = p.shape[1] // 2
            p.data = p.data[:, list(range(half, 2 * half)) + list(range(half))].clone()


def families(Family, fill, vocab):
    """name -> Family; fill as in make_fixtures."""
    base = dict(BASE, vocab_size=vocab)
    qwen3 = dict(base, head_dim=16, moe_intermediate_size=16, num_experts=8, num_experts_per_tok=3,
                 decoder_sparse_step=1, mlp_only_layers=[], norm_topk_prob=True, rms_norm_eps=1e-6,
                 tie_word_embeddings=True)
    out = {
        "qwen3moe": Family("Qwen3Moe", "qwen2", qwen3, 31, {
            "no renormalisation": router_set(norm_topk_prob=False), "top 2": router_set(top_k=2),
            "gate and up swapped": halves_swapped}),
        "qwen3moe-plain": Family("Qwen3Moe", "qwen2", dict(qwen3, norm_topk_prob=False, num_hidden_layers=3,
                                                           mlp_only_layers=[1]), 32, {
            "renormalised": router_set(norm_topk_prob=True)}, old_config=True),
        "mixtral": Family("Mixtral", "gpt2", dict(
            base, num_local_experts=6, num_experts_per_tok=2, rms_norm_eps=1e-5, tie_word_embeddings=False,
            intermediate_size=16), 33, {"top 1": router_set(top_k=1)}),
        "olmoe": Family("Olmoe", "gpt2", dict(
            base, num_key_value_heads=4, num_experts=8, num_experts_per_tok=3, norm_topk_prob=False, rms_norm_eps=1e-5,
            intermediate_size=16, tie_word_embeddings=False), 34, {
            "renormalised": router_set(norm_topk_prob=True), "no q norm weight": fill("q_norm.weight", 1)}),
        "qwen2moe": Family("Qwen2Moe", "qwen2", dict(
            base, num_experts=8, num_experts_per_tok=3, moe_intermediate_size=16, shared_expert_intermediate_size=24,
            decoder_sparse_step=1, norm_topk_prob=False, rms_norm_eps=1e-6, tie_word_embeddings=False), 35, {
            "no shared expert": fill("shared_expert.down_proj.weight", 0),
            "shared expert at half": fill("shared_expert_gate.weight", 0)}),
        "granitemoe": Family("GraniteMoe", "gpt2", dict(
            base, num_local_experts=6, num_experts_per_tok=2, intermediate_size=16, rms_norm_eps=1e-5,
            embedding_multiplier=3.0, attention_multiplier=0.4, residual_multiplier=0.6, logits_scaling=2.0,
            tie_word_embeddings=True), 36, {}),
        "granitemoeshared": Family("GraniteMoeShared", "gpt2", dict(
            base, num_local_experts=6, num_experts_per_tok=2, intermediate_size=16, shared_intermediate_size=24,
            rms_norm_eps=1e-5, embedding_multiplier=3.0, attention_multiplier=0.4, residual_multiplier=0.6,
            logits_scaling=2.0, tie_word_embeddings=True), 37, {
            "no shared expert": fill("shared_mlp.output_linear.weight", 0)}),
        "gpt-oss": Family("GptOss", "gpt2", dict(
            base, num_hidden_layers=4, head_dim=16, num_local_experts=6, num_experts_per_tok=2, intermediate_size=32,
            sliding_window=12, rms_norm_eps=1e-5, tie_word_embeddings=False, rope_parameters=dict(
                # bounds next to 1 and 4, since llama.cpp rounds them
                rope_type="yarn", rope_theta=10347.0, factor=8.0, beta_fast=32.0, beta_slow=1.0, truncate=False,
                original_max_position_embeddings=639)), 38, {
            "no sinks": fill("sinks", -100.0), "no expert bias": fill("gate_up_proj_bias", 0)}),
        "deepseek2": Family("DeepseekV2", "gpt2", dict(
            base, num_hidden_layers=3, moe_intermediate_size=16, n_routed_experts=8, num_experts_per_tok=3,
            n_shared_experts=2, first_k_dense_replace=1, q_lora_rank=24, kv_lora_rank=32, qk_rope_head_dim=16,
            qk_nope_head_dim=16, v_head_dim=16, num_key_value_heads=4, topk_method="greedy", routed_scaling_factor=1.5,
            n_group=None, topk_group=None, rms_norm_eps=1e-6, tie_word_embeddings=False), 39, {}),
        "deepseek3": Family("DeepseekV3", "gpt2", dict(
            base, num_hidden_layers=3, moe_intermediate_size=16, n_routed_experts=8, num_experts_per_tok=3,
            n_shared_experts=1, first_k_dense_replace=1, q_lora_rank=24, kv_lora_rank=32, qk_rope_head_dim=16,
            qk_nope_head_dim=16, v_head_dim=16, num_key_value_heads=4, routed_scaling_factor=2.5, n_group=4,
            topk_group=2, norm_topk_prob=True, rms_norm_eps=1e-6, tie_word_embeddings=False,
            scoring_func="sigmoid",
            rope_parameters=dict(rope_type="yarn", rope_theta=10000.0, factor=4.0, beta_fast=32, beta_slow=1,
                                 mscale=1.0, mscale_all_dim=1.0, original_max_position_embeddings=64)), 40, {}),
    }
    # V2-Lite's attention, and routing by groups: llama.cpp sums two scores of a group where the model takes the best
    out["deepseek2-lite"] = Family("DeepseekV2", "gpt2", dict(
        out["deepseek2"].config, q_lora_rank=None, topk_method="group_limited_greedy", n_group=4, topk_group=2), 41, {})
    return out


# --- other layouts of the same tensors --------------------------------------------------------------------------------

def regrouped(tensors, layout):
    """(name, array) pairs of a converted file in another layout: `fused` (gate above up in one stack) or `each` (a tensor for
    every expert)."""
    byname = dict(tensors)
    for name, data in tensors:
        if layout == "each" and "_exps.weight" in name:
            head, tail = name.split("_exps")
            for e in range(data.shape[0]):
                yield "%s.%d%s" % (head, e, tail), data[e]
        elif layout == "fused" and name.endswith("ffn_gate_exps.weight"):
            up = byname[name.replace("ffn_gate_exps", "ffn_up_exps")]
            yield name.replace("ffn_gate_exps", "ffn_gate_up_exps"), np.concatenate([data, up], axis=1)
        elif layout == "fused" and name.endswith("ffn_up_exps.weight"):
            continue
        else:
            yield name, data


def relayout(source, out, layout):
    rewrite(source, out, None, layout)


def rewrite(source, out, pack=None, layout=None):
    import gguf
    reader = gguf.GGUFReader(source)
    arch = reader.get_field("general.architecture").contents()
    writer = gguf.GGUFWriter(out, arch)
    for key, field in reader.fields.items():
        if key.startswith("GGUF.") or key == "general.architecture":
            continue
        kind = field.types[0]
        sub = field.types[-1] if kind == gguf.GGUFValueType.ARRAY else None
        writer.add_key_value(key, field.contents(), kind, sub_type=sub)
    tensors = [(t.name, np.array(t.data).reshape([int(d) for d in t.shape[::-1]])) for t in reader.tensors]
    assert all(t.tensor_type == gguf.GGMLQuantizationType.F32 for t in reader.tensors)
    for name, data in regrouped(tensors, layout):
        data, kind = pack(name, np.ascontiguousarray(data)) if pack else (np.ascontiguousarray(data), None)
        writer.add_tensor(name, data, raw_dtype=kind)
    writer.write_header_to_file()
    writer.write_kv_data_to_file()
    writer.write_tensors_to_file()
    writer.close()


def packed_hf(n_layer, packed, hf):
    """Rewrites hf/ as such models are published: codes and scales of the packed GGUF's experts, gate and up by turns."""
    import gguf
    from safetensors.numpy import load_file, save_file
    data = {t.name: np.array(t.data) for t in gguf.GGUFReader(packed).tensors}
    tensors = load_file(hf / "model.safetensors")

    def apart(rows):
        blocks = rows.reshape(*rows.shape[:-1], -1, 17)
        low, high = blocks[..., 1:] & 15, blocks[..., 1:] >> 4
        codes = np.concatenate([low, high], axis=-1)  # in order of elements
        return codes[..., 0::2] | codes[..., 1::2] << 4, blocks[..., 0]

    for i in range(n_layer):
        gate, up, down = (data["blk.%d.ffn_%s_exps.weight" % (i, part)] for part in ("gate", "up", "down"))
        both = np.stack([gate, up], axis=2).reshape(gate.shape[0], -1, gate.shape[2])
        for name, rows in (("gate_up_proj", both), ("down_proj", down)):
            at = "model.layers.%d.mlp.experts.%s" % (i, name)
            del tensors[at]
            tensors[at + "_blocks"], tensors[at + "_scales"] = map(np.ascontiguousarray, apart(rows))
    save_file(tensors, hf / "model.safetensors", metadata={"format": "pt"})


def mxfp4_experts(source, out, hf, model):
    """The file with its experts as MXFP4, and the gpt-oss model given with the weights that are left."""
    import gguf
    import torch
    import gguf.quants
    kind = gguf.GGMLQuantizationType.MXFP4
    left = {}

    def pack(name, data):
        if "_exps.weight" not in name:
            return data, None
        packed = gguf.quants.quantize(data, kind)
        left[name] = gguf.quants.dequantize(packed, kind).reshape(data.shape)
        return packed, kind

    rewrite(source, out, pack)
    packed_hf(model.config.num_hidden_layers, out, hf)
    state = model.state_dict()
    for i in range(model.config.num_hidden_layers):
        of = lambda part: torch.from_numpy(left["blk.%d.ffn_%s_exps.weight" % (i, part)]).transpose(1, 2)
        experts = "model.layers.%d.mlp.experts." % i
        state[experts + "gate_up_proj"][:, :, 0::2] = of("gate")
        state[experts + "gate_up_proj"][:, :, 1::2] = of("up")
        state[experts + "down_proj"][:] = of("down")
    model.load_state_dict(state)
    return model


def plain_hf(model, hf, out):
    """hf/ with its experts in BF16, which holds every value of MXFP4, laid out as transformers has them."""
    import shutil
    import torch
    from safetensors.torch import load_file, save_file
    shutil.copytree(hf, out)
    tensors = {n: t for n, t in load_file(hf / "model.safetensors").items() if not n.endswith(("_blocks", "_scales"))}
    for name, w in model.state_dict().items():
        if name.endswith(("experts.gate_up_proj", "experts.down_proj")):
            tensors[name] = w.to(torch.bfloat16)
            assert torch.equal(tensors[name].float(), w)
    save_file(tensors, out / "model.safetensors", metadata={"format": "pt"})


@contextlib.contextmanager
def rounded_activations():
    """What gpt-oss' experts multiply by MXFP4 is rounded as the law of the cpu backend has it (src/backend/backend.h)."""
    import torch
    from transformers.models.gpt_oss.modeling_gpt_oss import GptOssExperts
    forward, gate = GptOssExperts.forward, GptOssExperts._apply_gate

    def rounded(x):
        halves = x.reshape(-1, 16)
        d = halves.abs().amax(1, keepdim=True) / 127
        return (torch.round(halves * (1 / d)) * d).nan_to_num(0).reshape(x.shape)

    GptOssExperts.forward = lambda self, x, *more, **named: forward(self, rounded(x), *more, **named)
    GptOssExperts._apply_gate = lambda self, x: rounded(gate(self, x))
    try:
        yield
    finally:
        GptOssExperts.forward, GptOssExperts._apply_gate = forward, gate


LAYOUTS = {"qwen3moe": ["fused", "each"], "mixtral": ["each"]}
# what llama.cpp has no file for: dense layers among qwen3moe's, and always renormalises
HF_ONLY = ["qwen3moe-plain"]
# what llama.cpp computes otherwise, or refuses at this size
UNLIKE_LLAMA_CPP = ["deepseek2-lite"]

