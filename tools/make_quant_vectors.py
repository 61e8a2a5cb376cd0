#!/usr/bin/env python3
"""Makes tests/fixtures/quant/<TYPE>.bin: blocks of random bytes and what the gguf package reads from them.

    tools/make_quant_vectors.py [OUT]       OUT: tests/fixtures/quant

Layout of a file, little-endian:
    u8    "SLQV", four bytes in this order (as a little-endian u32: 0x56514c53)
    u32   ggml type id
    u32   n_blocks
    u32   n_values = n_blocks * values per block
    u8    blocks[n_blocks * bytes per block]
    f32   values[n_values]

The first blocks' float16 scales are the awkward ones (zero, minus zero, the smallest and largest subnormals, the smallest
and largest normal numbers, either sign), the others are random bit patterns; all are finite. Quants and sub-scales are
random bytes. Values are float32 with every operation rounded (no fused multiply-add), in the gguf package's order:
(d * sub-scale) * quant, then the minimum. Made with gguf 0.19.0, numpy 2.4.
"""

import pathlib
import struct
import sys

import numpy as np

N_BLOCKS = 64
SEED = 20260601
AWKWARD = [0x0000, 0x8000, 0x0001, 0x8001, 0x03FF, 0x83FF, 0x0400, 0x8400, 0x7BFF, 0xFBFF, 0x3C00, 0xBC00, 0x0200]
# where the float16 scales lie in a block (byte offsets)
SCALES = {"Q8_0": [0], "Q4_0": [0], "Q4_1": [0, 2], "Q5_0": [0], "Q5_1": [0, 2], "Q4_K": [0, 2], "Q5_K": [0, 2],
          "Q6_K": [208], "MXFP4": []}
FLOATS = ["F32", "F16", "BF16"]


def finite_f16(rng, n):
    bits = rng.integers(0, 0x10000, n, dtype=np.uint16)
    bits[(bits & 0x7C00) == 0x7C00] &= 0xBFFF  # neither infinite nor NaN
    return bits


def random_blocks(rng, kind, n_bytes):
    raw = rng.integers(0, 256, (N_BLOCKS, n_bytes), dtype=np.uint8)
    for k, offset in enumerate(SCALES[kind]):
        bits = finite_f16(rng, N_BLOCKS)
        bits[:len(AWKWARD)] = np.roll(AWKWARD, 3 * k)  # so that scale and minimum are not awkward in the same way
        raw[:, offset:offset + 2] = bits.view(np.uint8).reshape(N_BLOCKS, 2)
    if kind == "MXFP4":  # exponents, both subnormal ones and the largest among them
        raw[:5, 0] = [0, 1, 2, 127, 250]
        raw[:, 0] = np.minimum(raw[:, 0], 250)
    return raw


def random_floats(rng, kind):
    """One value per block: awkward bit patterns first, then random ones, none of them infinite or NaN."""
    if kind == "F16":
        bits = finite_f16(rng, 2048)
        bits[:len(AWKWARD)] = AWKWARD
        return bits.view(np.uint8).reshape(-1, 2)
    bits = rng.integers(0, 1 << 32, 2048, dtype=np.uint32)
    bits[:6] = [0, 0x80000000, 0x00010000, 0x007F0000, 0x7F7F0000, 0xFF7F0000]
    bits[(bits & 0x7F800000) == 0x7F800000] &= 0xBFFFFFFF
    if kind == "F32":
        return bits.view(np.uint8).reshape(-1, 4)
    return (bits >> 16).astype(np.uint16).view(np.uint8).reshape(-1, 2)


def main():
    import gguf
    if len(sys.argv) > 2 or sys.argv[1:2] in (["-h"], ["--help"]):
        sys.stderr.write(__doc__)
        return 2
    out = pathlib.Path(sys.argv[1]) if len(sys.argv) > 1 else \
        pathlib.Path(__file__).resolve().parent.parent / "tests/fixtures/quant"
    out.mkdir(parents=True, exist_ok=True)
    for kind in FLOATS + list(SCALES):
        type_id = gguf.GGMLQuantizationType[kind]
        rng = np.random.default_rng(SEED + int(type_id))
        if kind in FLOATS:
            raw = random_floats(rng, kind)
        else:
            raw = random_blocks(rng, kind, gguf.GGML_QUANT_SIZES[type_id][1])
        source = raw.reshape(-1).view({"F32": np.float32, "F16": np.float16}.get(kind, np.uint8))
        values = gguf.dequantize(source, type_id).astype("<f4").reshape(-1)
        assert np.isfinite(values).all(), kind
        head = b"SLQV" + struct.pack("<III", int(type_id), len(raw), len(values))
        (out / (kind + ".bin")).write_bytes(head + raw.tobytes() + values.tobytes())
        print("%-5s type %2d, %4d blocks of %3d bytes, %5d values" % (kind, type_id, len(raw), raw.shape[1], len(values)))
    return 0


if __name__ == "__main__":
    sys.exit(main())
