"""Installs the peers: llama.cpp from the source that npm's node-llama-cpp carries, ik_llama.cpp from its repository.  Both
are built here, for this machine."""

import pathlib
import subprocess

LLAMA_TARGETS = ["llama-bench", "llama-completion", "llama-quantize", "llama-perplexity"]
IK_TARGETS = ["llama-bench", "llama-cli"]


def tools(peer):
    """The folders that hold each peer's programs."""
    peer = pathlib.Path(peer).resolve()
    return peer / "llama.cpp" / "build" / "bin", peer / "ik" / "build" / "bin"


def call(*command, cwd=None):
    print("+", *command, flush=True)
    subprocess.run([str(c) for c in command], cwd=cwd, check=True, stdout=subprocess.DEVNULL)


def build(source, targets, options):
    call("cmake", "-S", source, "-B", source / "build", "-DCMAKE_BUILD_TYPE=Release", "-DLLAMA_CURL=OFF", *options)
    call("cmake", "--build", source / "build", "-j", "2", "--target", *targets)


def setup(peer, ik):
    peer.mkdir(parents=True, exist_ok=True)
    peer = peer.resolve()
    package = peer / "nlc" / "node_modules" / "node-llama-cpp"
    if not package.exists():
        (peer / "nlc").mkdir(exist_ok=True)
        call("npm", "init", "-y", cwd=peer / "nlc")
        call("npm", "install", "--silent", "--ignore-scripts", "node-llama-cpp", cwd=peer / "nlc")
    if not (peer / "llama.cpp").exists():
        call("git", "clone", "-q", package / "llama" / "gitRelease.bundle", peer / "llama.cpp")
    build(peer / "llama.cpp", LLAMA_TARGETS, ["-DLLAMA_BUILD_UI=OFF"])
    if ik and not (peer / "ik").exists():
        call("git", "clone", "-q", ik, peer / "ik")
    if (peer / "ik").exists():
        build(peer / "ik", IK_TARGETS, ["-DLLAMA_BUILD_TESTS=OFF", "-DLLAMA_BUILD_SERVER=OFF"])
