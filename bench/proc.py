"""CPU time and memory of a process, and facts about this machine, from the kernel."""

import os
import platform
import subprocess
import time
from pathlib import Path

from bench import memory_disk

_TICKS_PER_S = os.sysconf("SC_CLK_TCK")
_PAGE_BYTES = os.sysconf("SC_PAGE_SIZE")
_CONGESTION_CONTROL = Path("/proc/sys/net/ipv4/tcp_congestion_control")


def family(pid: int) -> list[int]:
    """The process and all its descendants."""
    found = [pid]
    for parent in found:
        for task in Path(f"/proc/{parent}/task").glob("*/children"):
            found.extend(int(child) for child in task.read_text().split())
    return found


def cpu_s(pid: int) -> float:
    """User and system time of a process and its children, including those that ended.

    Running processes are read by their CPU clocks, to the microsecond: a run of a tenth of a second
    is only ten ticks in /proc.
    """
    spent = 0.0
    for member in family(pid):
        # The name, in brackets, may hold spaces; the numbers follow the last bracket.
        fields = Path(f"/proc/{member}/stat").read_text().rpartition(")")[2].split()
        ended_utime, ended_stime = (int(field) for field in fields[13:15])
        spent += time.clock_gettime(_cpu_clock(member)) + (ended_utime + ended_stime) / _TICKS_PER_S
    return spent


def _cpu_clock(pid: int) -> int:
    """The id of the CPU clock of another process in Linux, including its ended threads."""
    return (~pid << 3) | 2


def rss_mb(pid: int) -> float:
    """Resident memory of a process and its children."""
    pages = sum(int(Path(f"/proc/{m}/statm").read_text().split()[1]) for m in family(pid))
    return pages * _PAGE_BYTES / 1e6


def peak_rss_mb(pid: int) -> float:
    """The peak resident memory of a process; 0 if it has ended."""
    try:
        return int(_first_value(f"/proc/{pid}/status", "VmHWM").split()[0]) * 1024 / 1e6
    except (FileNotFoundError, ProcessLookupError, ValueError):
        return 0.0


class Bystanders:
    """The CPU time that other processes used during the run: above a tenth, measure again."""

    def __init__(self) -> None:
        self._before = self._look()

    @staticmethod
    def _look() -> tuple[float, float, float, float]:
        fields = Path("/proc/stat").read_text().split("\n", 1)[0].split()[1:9]
        user, nice, system, idle, waiting, irq, soft_irq, stolen = (int(f) for f in fields)
        busy = user + nice + system + irq + soft_irq
        # Includes brokers and tools that have ended, as our children, and the driver, as ourselves.
        ours = sum(os.times()[:4]) * _TICKS_PER_S
        return busy, busy + idle + waiting + stolen, stolen, ours

    def share(self) -> tuple[float, float]:
        """The parts of all CPU time since the start that other processes used and that the host
        withheld.
        """
        busy, total, stolen, ours = (
            after - before for after, before in zip(self._look(), self._before, strict=True)
        )
        return max(0.0, busy - ours) / total, stolen / total


def _first_value(path: str, key: str) -> str:
    for line in Path(path).read_text().splitlines():
        name, _, value = line.partition(":")
        if name.strip() == key:
            return value.strip()
    return "unknown"


def _java_version() -> str:
    try:
        said = subprocess.run(["java", "-version"], capture_output=True, text=True, check=False)
    except FileNotFoundError:
        return "none"
    lines = said.stderr.strip().splitlines()
    return lines[0] if lines else "unknown"


def machine() -> dict[str, str]:
    """Enough to judge whether another machine's figures can be compared."""
    import confluent_kafka

    memory_kb = int(_first_value("/proc/meminfo", "MemTotal").split()[0])
    return {
        "CPU": f"{_first_value('/proc/cpuinfo', 'model name')}, {os.cpu_count()} cores",
        "memory": f"{memory_kb / 1e6:.0f} GB",
        "RAM-backed directory": memory_disk.kind(),
        "TCP congestion control": _CONGESTION_CONTROL.read_text().strip(),
        "kernel": f"{platform.system()} {platform.release()}",
        "Python": platform.python_version(),
        "Java": _java_version(),
        "librdkafka": confluent_kafka.libversion()[0],
    }
