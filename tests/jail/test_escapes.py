"""Hostile programs that know what they want: this file, this port, this process. One property each."""

from __future__ import annotations

import platform
from collections.abc import Callable
from typing import Any

import pytest

from redqueen.jail import Outcome
from tests.jail.reach import reach

Run = Callable[..., Outcome]
pytestmark = pytest.mark.usefixtures("nothing_escaped")

AIMED = {
    # the file: everybody may write it
    "write": "os.open(canary, os.O_WRONLY)",
    "append": "os.open(canary, os.O_WRONLY | os.O_APPEND)",
    "truncate": "os.truncate(canary, 0)",
    "create beside": "os.open(canary + '2', os.O_CREAT | os.O_WRONLY, 0o666)",
    "builtin open": "functools.__builtins__['open'](canary, 'w')",
    "raw file": "io.FileIO(canary, 'w')",
    "unlink": "os.unlink(canary)",
    "rename": "os.rename(canary, canary + '2')",
    "replace": "os.replace(canary, canary + '2')",
    "hard link": "os.link(canary, canary + '2')",
    "symbolic link": "os.symlink(canary, canary + '2')",
    "read link": "os.readlink('/proc/self/exe')",
    "mode": "os.chmod(canary, 0)",
    "owner": "os.chown(canary, 0, 0)",
    "times": "os.utime(canary, (0, 0))",
    "attributes": "os.setxattr(canary, 'user.x', b'1')",
    "fifo": "os.mkfifo(canary + '2')",
    "device": "os.mknod(canary + '2')",
    "folder": "os.mkdir(canary + '2')",
    "list": "os.listdir('/')",
    "change folder": "os.chdir('/tmp')",
    "new root": "os.chroot('/')",
    "temporary file in memory": "os.memfd_create('x')",
    "library": "ctypes.CDLL('libnss_dns.so.2')",
    "memory of the zygote": "os.open(f'/proc/{os.getppid()}/mem', os.O_RDWR)",
    "memory of the sibling": "os.open(f'/proc/{sibling}/mem', os.O_RDWR)",
    "own memory": "os.open('/proc/self/mem', os.O_RDWR)",
    "own maps": "os.open('/proc/self/maps', os.O_RDONLY)",
    "terminal": "os.open('/dev/tty', os.O_RDWR)",
    "shared memory file": "os.open('/dev/shm/x', os.O_CREAT | os.O_RDWR)",
    # the network
    "tcp": "must(libc.socket(2, 1, 0))",
    "udp": "must(libc.socket(2, 2, 0))",
    "tcp over ipv6": "must(libc.socket(10, 1, 0))",
    "unix socket": "must(libc.socket(1, 1, 0))",
    "netlink": "must(libc.socket(16, 3, 0))",
    "raw packets": "must(libc.socket(17, 3, 0))",
    "virtual machine socket": "must(libc.socket(40, 1, 0))",
    "socket pair": "must(libc.socketpair(1, 1, 0, (ctypes.c_int * 2)()))",
    "send on the result": "must(libc.sendto(3, b'x', 1, 0, None, 0))",
    "connect the result": "must(libc.connect(3, bytes([2, 0]) + port.to_bytes(2, 'big') + bytes(12), 16))",
    # the process
    "kill the sibling": "os.kill(sibling, 9)",
    "stop the sibling": "os.kill(sibling, signal.SIGSTOP)",
    "probe the sibling": "os.kill(sibling, 0)",
    "kill its group": "os.killpg(0, 9)",
    "kill process one": "os.kill(1, 9)",
    "kill itself": "os.kill(os.getpid(), 9)",
    "raise": "signal.raise_signal(9)",
    "alarm": "signal.setitimer(signal.ITIMER_REAL, 0.1)",
    "handler": "signal.signal(signal.SIGALRM, lambda *a: None)",
    "block signals": "signal.pthread_sigmask(signal.SIG_BLOCK, range(1, 65))",
    "wait for signals": "signal.sigwait([signal.SIGTERM])",
    "spawn": "os.posix_spawn('/bin/true', ['true'], {})",
    "wait for the zygote": "os.waitpid(-1, 0)",
    "priority": "os.setpriority(os.PRIO_PROCESS, 0, 5)",
    "nice": "os.nice(1)",
    "scheduler": "os.sched_setscheduler(0, os.SCHED_BATCH, os.sched_param(0))",
    "session": "os.setsid()",
    "group of processes": "os.setpgid(0, 0)",
    "core dumps": "resource.setrlimit(resource.RLIMIT_CORE, (0, 0))",
    "limits of the sibling": "resource.prlimit(sibling, resource.RLIMIT_CPU)",
    "trace the sibling": "must(libc.ptrace(16, sibling, 0, 0))",
    "read the sibling": "must(libc.process_vm_readv(sibling, 0, 0, 0, 0, 0))",
    "write the sibling": "must(libc.process_vm_writev(sibling, 0, 0, 0, 0, 0))",
    # what it is
    "user": "os.setuid(0)",
    "groups": "os.setgroups([])",
    "load": "os.getloadavg()",
    "uname": "os.uname()",
}


# How Python says that these were refused.
OTHERWISE = {
    "os.getloadavg": "OSError",
    "ctypes.CDLL": "OSError",
    "signal.setitimer": "itimer_error",
    "resource.setrlimit": "ValueError",
}


@pytest.mark.parametrize("code", AIMED.values(), ids=AIMED.keys())
def test_the_world_is_out_of_reach(run: Run, world: Any, code: str) -> None:
    outcome = run(reach(f"return {code}"), f"{str(world.canary)!r}, {world.port}, {world.sibling.pid}")
    refusal = OTHERWISE.get(code.partition("(")[0], "PermissionError")
    assert (outcome.status, outcome.detail.split()[0]) == ("error", refusal), outcome


# Numbers on x86-64 and on aarch64. Raw calls, as machine code would make them.
CALLS = {
    **{"clone": (56, 220), "clone3": (435, 435), "execve": (59, 221), "execveat": (322, 281), "fork": (57, 220)},
    **{"open": (2, 56), "openat": (257, 56), "openat2": (437, 437), "close": (3, 57), "dup": (32, 23)},
    **{"open_by_handle_at": (304, 265), "name_to_handle_at": (303, 264), "ioctl": (16, 29), "fcntl": (72, 25)},
    **{"read": (0, 63), "pread64": (17, 67), "readv": (19, 65), "writev": (20, 66), "pwrite64": (18, 68)},
    **{"sendfile": (40, 71), "splice": (275, 76), "tee": (276, 77), "vmsplice": (278, 75)},
    **{"copy_file_range": (326, 285), "mount": (165, 40), "umount2": (166, 39), "pivot_root": (155, 41)},
    **{"chroot": (161, 51), "setns": (308, 268), "unshare": (272, 97), "reboot": (169, 142), "swapon": (167, 224)},
    **{"io_uring_setup": (425, 425), "bpf": (321, 280), "perf_event_open": (298, 241), "userfaultfd": (323, 282)},
    **{"keyctl": (250, 219), "add_key": (248, 217), "request_key": (249, 218), "kexec_load": (246, 104)},
    **{"init_module": (175, 105), "finit_module": (313, 273), "delete_module": (176, 106), "syslog": (103, 116)},
    **{"memfd_create": (319, 279), "memfd_secret": (447, 447), "shmget": (29, 194), "shmat": (30, 196)},
    **{"msgget": (68, 186), "semget": (64, 190), "mq_open": (240, 180), "remap_file_pages": (216, 234)},
    **{"pidfd_open": (434, 434), "pidfd_getfd": (438, 438), "pidfd_send_signal": (424, 424), "tgkill": (234, 131)},
    **{"tkill": (200, 130), "rt_sigqueueinfo": (129, 138), "rt_sigaction": (13, 134), "rt_sigprocmask": (14, 135)},
    **{"rt_sigsuspend": (130, 133), "signalfd4": (289, 74), "eventfd2": (290, 19), "timerfd_create": (283, 85)},
    **{"timer_create": (222, 107), "timer_settime": (223, 110), "timer_delete": (226, 111), "setitimer": (38, 103)},
    **{"nanosleep": (35, 101), "clock_nanosleep": (230, 115), "ppoll": (271, 73), "pselect6": (270, 72)},
    **{"epoll_create1": (291, 20), "inotify_init1": (294, 26), "fanotify_init": (300, 262), "sched_yield": (24, 124)},
    **{"seccomp": (317, 277), "landlock_create_ruleset": (444, 444), "prctl": (157, 167), "capset": (126, 91)},
    **{"prlimit64": (302, 261), "setrlimit": (160, 164), "setresuid": (117, 147), "personality": (135, 92)},
    **{"ptrace": (101, 117), "process_vm_readv": (310, 270), "process_vm_writev": (311, 271), "kcmp": (312, 272)},
    **{"process_madvise": (440, 440), "getpid": (39, 172), "getppid": (110, 173), "gettid": (186, 178)},
    **{"getuid": (102, 174), "uname": (63, 160), "sysinfo": (99, 179), "getrusage": (98, 165), "times": (100, 153)},
    **{"clock_gettime": (228, 113), "gettimeofday": (96, 169), "getrandom": (318, 278), "getcpu": (309, 168)},
    **{
        "mlock": (149, 228),
        "mbind": (237, 235),
        "msync": (26, 227),
        "umask": (95, 166),
        "pkey_mprotect": (329, 288),
        "socket": (41, 198),
    },
}


@pytest.mark.skipif(platform.machine() not in ("x86_64", "aarch64"), reason="no filter is known there")
@pytest.mark.parametrize("name", CALLS)
def test_a_raw_system_call_is_refused(run: Run, name: str) -> None:
    number = CALLS[name][platform.machine() == "aarch64"]
    outcome = run(reach(f"return libc.syscall({number}, 0, 0, 0, 0, 0, 0), ctypes.get_errno()"))
    assert (outcome.status, outcome.outputs) == ("ok", ("(-1, 1)",)), outcome


@pytest.mark.parametrize(
    "module",
    ["subprocess", "socket", "multiprocessing", "pathlib", "shutil", "tempfile", "asyncio", "pickle", "zipfile"],
)
def test_what_is_not_loaded_cannot_be_loaded(run: Run, module: str) -> None:
    outcome = run(reach(f"real_import('{module}')\nreturn 1"))
    assert (outcome.status, outcome.detail.split()[0]) == ("error", "ModuleNotFoundError"), outcome


# Jumps to the bytes of `rdtsc` and `rdtscp` wherever a library has them. The first jump must be the last.
_STAMP = """
start = ctypes.cast(libc.qsort, ctypes.c_void_p).value
text = ctypes.string_at(start, 600_000)
# In glibc the end of "xor eax, eax; ret", entered one byte early, is one that returns.
places = [text.find(bytes.fromhex(code)) for code in ("0f31c0c3", "0f31")]
place = places[0] if places[0] >= 0 else places[1]
if place < 0:
    return "not there"
return ctypes.CFUNCTYPE(ctypes.c_long)(start + place)()
"""


@pytest.mark.skipif(platform.machine() != "x86_64", reason="another processor has another counter")
def test_the_time_stamp_counter_is_refused_wherever_its_bytes_are(run: Run) -> None:
    outcome = run(reach(_STAMP.strip()))
    assert outcome.outputs == ("'not there'",) or outcome.detail == "killed by SIGSEGV", outcome


# The clocks' bodies behind the patched entries: each jump into them dies.
_BODIES = """
libc.getauxval.restype = ctypes.c_ulong
base = libc.getauxval(ctypes.c_ulong(33))
code = ctypes.string_at(base, 4096)
first = code.find(bytes.fromhex("0f05c3"))
rest = code[first + 3 :]
return first > 0, rest.strip(bytes([0xCC])).count(bytes.fromhex("0f31")), rest.count(bytes.fromhex("0f01f9"))
"""


@pytest.mark.skipif(platform.machine() != "x86_64", reason="only this vDSO is known")
def test_nothing_is_left_of_the_clocks_but_system_calls(run: Run) -> None:
    outcome = run(reach(_BODIES.strip()))
    assert (outcome.status, outcome.outputs) == ("ok", ("(True, 0, 0)",)), outcome
