"""What the measurements need of the machine: a memory cgroup (v1 or v2), the page cache, the drive's read-ahead, a line that
says what it is.  Standard library only; limits, caches and read-ahead need root."""

import contextlib
import glob
import os
import pathlib
import platform
import resource
import subprocess
import tempfile
import time

CGROUP = pathlib.Path("/sys/fs/cgroup")


class NotPossible(Exception):
    """The machine can't do what a cell needs; the text says what."""


class CgroupV1:
    """A group of its own below the memory controller; swap counts too where the kernel counts it."""

    def __init__(self, limit):
        self.dir = CGROUP / "memory" / f"sluice-bench.{os.getpid()}"
        self.dir.mkdir()
        self.write("memory.limit_in_bytes", limit)
        if (self.dir / "memory.memsw.limit_in_bytes").exists():
            self.write("memory.memsw.limit_in_bytes", limit)

    def write(self, name, value):
        (self.dir / name).write_text(str(value))

    def field(self, name, key):
        rows = (line.split() for line in (self.dir / name).read_text().splitlines())
        return next((int(row[1]) for row in rows if row[0] == key), 0)

    def report(self):
        return {"peak_bytes": int((self.dir / "memory.max_usage_in_bytes").read_text()),
                "oom_kills": self.field("memory.oom_control", "oom_kill"),
                "limit_hits": int((self.dir / "memory.failcnt").read_text())}

    def close(self):
        with contextlib.suppress(OSError):
            self.write("memory.force_empty", 0)
        self.dir.rmdir()


class CgroupV2(CgroupV1):
    def __init__(self, limit):
        self.dir = CGROUP / f"sluice-bench.{os.getpid()}"
        with contextlib.suppress(OSError):
            (CGROUP / "cgroup.subtree_control").write_text("+memory")
        self.dir.mkdir()
        if not (self.dir / "memory.max").exists():
            self.dir.rmdir()
            raise NotPossible("the memory controller is not enabled below " + str(CGROUP))
        self.write("memory.max", limit)
        if (self.dir / "memory.swap.max").exists():
            self.write("memory.swap.max", 0)

    def report(self):
        peak = self.dir / "memory.peak"  # Linux 5.19
        return {"peak_bytes": int(peak.read_text()) if peak.exists() else None,
                "oom_kills": self.field("memory.events", "oom_kill"), "limit_hits": self.field("memory.events", "max")}

    def close(self):
        self.dir.rmdir()


def cgroup(limit):
    if os.geteuid() != 0:
        raise NotPossible("a memory limit takes root")
    v1 = (CGROUP / "memory" / "memory.limit_in_bytes").exists()
    return CgroupV1(limit) if v1 else CgroupV2(limit)


def busy_s():
    """Processor seconds that all programs have used, the kernel's included; and those that a host took from us."""
    with open("/proc/stat") as f:
        ticks = [int(v) / os.sysconf("SC_CLK_TCK") for v in f.readline().split()[1:9]]
    user, nice, system, _, _, irq, softirq, steal = ticks
    return user + nice + system + irq + softirq, steal


def children_s():
    used = resource.getrusage(resource.RUSAGE_CHILDREN)
    return used.ru_utime + used.ru_stime


def run(command, limit=None, drop=False, timeout=600, env=None):
    """Runs command, in a cgroup of limit bytes where one is given; drop empties the page cache before.  Returns a dict:
    returncode, stdout, stderr, wall_s, others_cpu_s and steal_s (what other programs and the host used meanwhile) and, with a
    limit, peak_bytes, oom_kills and limit_hits (how often an allocation met the limit)."""
    group = cgroup(limit) if limit else None
    try:
        if drop:
            drop_caches()
        enter = (lambda: (group.dir / "cgroup.procs").write_text(str(os.getpid()))) if group else None
        start, (busy, steal), own = time.monotonic(), busy_s(), children_s()
        try:
            with tempfile.TemporaryDirectory() as here:  # some engines leave a log where they stand
                done = subprocess.run(command, capture_output=True, text=True, errors="replace", timeout=timeout, cwd=here,
                                      preexec_fn=enter, stdin=subprocess.DEVNULL, env={**os.environ, **(env or {})})
            result = {"returncode": done.returncode, "stdout": done.stdout, "stderr": done.stderr}
        except subprocess.TimeoutExpired:
            result = {"returncode": None, "stdout": "", "stderr": f"took more than {timeout} s"}
        result["wall_s"] = time.monotonic() - start
        busy, steal = busy_s()[0] - busy, busy_s()[1] - steal
        result.update(others_cpu_s=round(max(0, busy - (children_s() - own)), 2), steal_s=round(steal, 2))
        if group:
            result.update(group.report())
        return result
    finally:
        if group:
            close_group(group)


def close_group(group):
    """A killed process leaves its group a moment later."""
    for _ in range(50):
        with contextlib.suppress(OSError):
            return group.close()
        time.sleep(0.1)
    group.close()


def drop_caches():
    if os.geteuid() != 0:
        raise NotPossible("emptying the page cache takes root")
    os.sync()
    pathlib.Path("/proc/sys/vm/drop_caches").write_text("3")


def read_once(path):
    """So that every engine finds the file in the cache of a virtual drive's host, if there is one."""
    with open(path, "rb", buffering=0) as f:
        while f.read(1 << 22):
            pass


def knobs(path):
    """The read-ahead settings of the drives: of that which holds path, where it can be told, else of all."""
    dev = os.stat(path).st_dev
    own = pathlib.Path(f"/sys/dev/block/{os.major(dev)}:{os.minor(dev)}")
    for where in (own / "queue", own / ".." / "queue"):
        if (where / "read_ahead_kb").exists():
            return [where / "read_ahead_kb"]
    return [pathlib.Path(k) for k in glob.glob("/sys/block/*/queue/read_ahead_kb") if "/loop" not in k and "/zram" not in k]


@contextlib.contextmanager
def readahead(path, kb):
    """Sets the drive's read-ahead and puts back what it was.  None: leaves it."""
    before = {k: k.read_text() for k in knobs(path)} if kb else {}
    try:
        for k in before:
            k.write_text(str(kb))
        yield
    finally:
        for k, value in before.items():
            k.write_text(value)


def cpu_field(key):
    with open("/proc/cpuinfo") as f:
        return next((line.split(":", 1)[1].strip() for line in f if line.startswith(key)), "?")


def describe():
    """One line for the table: processor, what it can, memory, kernel, system."""
    flags = cpu_field("flags").split()
    level = "AVX-512 VNNI" if "avx512_vnni" in flags else "AVX2" if "avx2" in flags else "neither AVX2 nor AVX-512"
    memory = os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES") / 2**30
    virtual = "virtual " if "hypervisor" in flags else ""
    system = platform.freedesktop_os_release().get("PRETTY_NAME", "Linux")
    return (f"{virtual}{cpu_field('model name')}, {len(os.sched_getaffinity(0))} processors, {level}, {memory:.0f} GiB, "
            f"Linux {platform.release()}, {system}")
