"""Installs the peers: llama.cpp from the source that npm's node-llama-cpp carries, ik_llama.cpp and BigMoeOnEdge from their
repositories.  All are built here, for this machine."""

import pathlib
import shutil
import subprocess

LLAMA_TARGETS = ["llama-bench", "llama-completion", "llama-quantize", "llama-perplexity"]
IK_TARGETS = ["llama-bench", "llama-cli"]


def tools(peer):
    """The folders that hold each peer's programs."""
    peer = pathlib.Path(peer).resolve()
    return peer / "llama.cpp" / "build" / "bin", peer / "ik" / "build" / "bin", peer / "bmoe" / "build" / "cli" / "bmoe-cli"


def call(*command, cwd=None):
    print("+", *command, flush=True)
    subprocess.run([str(c) for c in command], cwd=cwd, check=True, stdout=subprocess.DEVNULL)


def build(source, targets, options):
    call("cmake", "-S", source, "-B", source / "build", "-DCMAKE_BUILD_TYPE=Release", "-DLLAMA_CURL=OFF", *options)
    call("cmake", "--build", source / "build", "-j", "2", "--target", *targets)


def mend_tiles(llama):
    """gcc 12 drops the stores to the tile configuration, since its _tile_loadconfig claims to read only 8 bytes of it: on
    processors with AMX the first prompt then ends in an illegal instruction."""
    source = llama / "ggml" / "src" / "ggml-cpu" / "amx" / "mmq.cpp"
    text, load = source.read_text(), "    _tile_loadconfig(&tc);\n"
    keep = '    __asm__ volatile("" : : "r"(&tc) : "memory");\n'
    if load in text and keep not in text:
        source.write_text(text.replace(load, keep + load))


def build_bmoe(peer, git):
    """On the same llama.cpp; since its fork's hook isn't there, its --overlap isn't either."""
    top = peer / "bmoe"
    if not top.exists():
        call("git", "clone", "-q", git, top)
    source = top / "third_party" / "llama.cpp"
    if not (source / "CMakeLists.txt").exists():
        shutil.rmtree(source, ignore_errors=True)
        shutil.copytree(peer / "llama.cpp", source, ignore=shutil.ignore_patterns("build", ".git"))
    session = top / "core" / "src" / "engine" / "session.cpp"  # llama.cpp v0.5.0 renamed a field that it uses
    session.write_text(session.read_text().replace("dp.n_past = n_past;", "dp.pos0 = n_past;"))
    build(top, ["bmoe-cli"], ["-DBMOE_BUILD_TESTS=OFF", "-DLLAMA_BUILD_UI=OFF"])


def setup(peer, ik, bmoe):
    peer.mkdir(parents=True, exist_ok=True)
    peer = peer.resolve()
    package = peer / "nlc" / "node_modules" / "node-llama-cpp"
    if not package.exists():
        (peer / "nlc").mkdir(exist_ok=True)
        call("npm", "init", "-y", cwd=peer / "nlc")
        call("npm", "install", "--silent", "--ignore-scripts", "node-llama-cpp", cwd=peer / "nlc")
    if not (peer / "llama.cpp").exists():
        call("git", "clone", "-q", package / "llama" / "gitRelease.bundle", peer / "llama.cpp")
    mend_tiles(peer / "llama.cpp")
    build(peer / "llama.cpp", LLAMA_TARGETS, ["-DLLAMA_BUILD_UI=OFF"])
    if ik and not (peer / "ik").exists():
        call("git", "clone", "-q", ik, peer / "ik")
    if (peer / "ik").exists():
        build(peer / "ik", IK_TARGETS, ["-DLLAMA_BUILD_TESTS=OFF", "-DLLAMA_BUILD_SERVER=OFF"])
    if bmoe:
        build_bmoe(peer, bmoe)
