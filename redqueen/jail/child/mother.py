"""The mother: from here on an interpreter only forks. Nothing that happens in one job is in its memory in the next.

A program that finds a number which grows from job to job, or an address that depends on the job before, has a coin; and
Python cannot run between two forks without such traces: it counts calls, versions of dicts and free blocks. So the loop
that waits for orders and forks is a hundred and seventy bytes of machine code. It keeps everything in registers and in
one page that children do not get, and it never hears of a job's content, result or end. An order is one descriptor: the
child's end of a socket, over which it reads its request and writes its answer. The child becomes a child of the trainer
(CLONE_PARENT of clone(2)), which waits for it and ends it.

The machine code is for Linux on x86-64. Elsewhere the same is done in Python; then there are traces, the probe `same
start` says so, and only the determinism check is left against them. Child-side, standard library only.
"""

from __future__ import annotations

import contextlib
import ctypes
import importlib
import mmap
import os
import struct
from typing import Any

import lockdown
from lockdown import LINUX, MACHINE
from protocol import ORDERS, PID, RESULT, TRAILER

# The page with a struct msghdr (recvmsg(2)) at its beginning. Then, where it says: a struct iovec for the buffer of one
# byte, that byte, and the control message with the descriptor, whose size (24) the loop writes again each time.
_BUFFER = 64
_BYTE = 128
_RIGHTS = 192
_RIGHTS_BYTES = 24

_LOOP = bytes.fromhex(
    # serve(rdi: the page, esi: how many more mothers to make)
    "f30f1efa 53 55 4889fb 89f5"  # endbr64; push rbx; push rbp; mov rbx, rdi; mov ebp, esi
    # more: each mother is made by the first one and is as it is
    "85ed 740d"  # test ebp, ebp; je ready
    "ffcd e858000000"  # dec ebp; call split
    "85c0 75f1 31ed"  # test eax, eax; jne more; xor ebp, ebp
    # ready: prctl(PR_SET_PDEATHSIG, SIGKILL); madvise(page, 4096, MADV_DONTFORK)
    "6a01 5f 6a09 5e b89d000000 0f05"  # push 1; pop rdi; push 9; pop rsi; mov eax, 157; syscall
    "4889df be00100000 6a0a 5a 6a1c 58 0f05"  # mov rdi, rbx; mov esi, 4096; push 10; pop rdx; push 28; pop rax; syscall
    # next: recvmsg(0, page, 0), and the end of this process if that is not one byte
    "48c7432818000000"  # mov qword ptr [rbx+40], 24
    "31ff 4889de 31d2 6a2f 58 0f05"  # xor edi, edi; mov rsi, rbx; xor edx, edx; push 47; pop rax; syscall
    "83f801 7513"  # cmp eax, 1; jne leave
    "e817000000 85c0 7428"  # call split; test eax, eax; je child
    "6a03 5f 6a03 58 0f05 ebd4"  # push 3; pop rdi; push 3; pop rax; syscall (close); jmp next
    # leave: exit_group(0)
    "31ff b8e7000000 0f05"  # xor edi, edi; mov eax, 231; syscall
    # split: clone(CLONE_PARENT | SIGCHLD, 0, 0, 0, 0)
    "bf11800000 31f6 31d2 4531d2 4531c0"  # mov edi, 0x8011; xor esi, esi; xor edx, edx; xor r10d, r10d; xor r8d, r8d
    "6a38 58 0f05 c3"  # push 56; pop rax; syscall; ret
    # child: getpid(), write(3, that, 4), no trace of it, return 0
    "6a27 58 0f05 50"  # push 39; pop rax; syscall; push rax
    "6a03 5f 4889e6 6a04 5a 6a01 58 0f05"  # push 3; pop rdi; mov rsi, rsp; push 4; pop rdx; push 1; pop rax; syscall
    "48c7042400000000 58"  # mov qword ptr [rsp], 0; pop rax
    "31c9 31d2 31f6 31ff 4531c0 4531db"  # xor of ecx, edx, esi, edi, r8d and r11d with themselves
    "5d 5b c3"  # pop rbp; pop rbx; ret
)


class Mother:
    """What serves: the machine code, or Python where that cannot be."""

    def __init__(self) -> None:
        self.traces = "" if LINUX and MACHINE == "x86_64" else "only known for Linux on x86-64"
        """Why a child may find traces of the jobs before it; "" if it cannot."""
        self._message = mmap.mmap(-1, mmap.PAGESIZE, mmap.MAP_PRIVATE | mmap.MAP_ANONYMOUS)
        message = ctypes.addressof(ctypes.c_char.from_buffer(self._message))
        self._message.write(struct.pack("@5Q", 0, 0, message + _BUFFER, 1, message + _RIGHTS))
        self._message[_BUFFER : _BUFFER + 16] = struct.pack("@2Q", message + _BYTE, 1)
        code = 0
        if not self.traces:
            try:
                code = lockdown.machine_code(_LOOP)
            except OSError as error:
                self.traces = str(error)
        self._serve = ctypes.PYFUNCTYPE(ctypes.c_int, ctypes.c_void_p, ctypes.c_int)(code)
        self._page = ctypes.c_void_p(message)
        # A module that the machine code does without, and while it can still be loaded.
        self._orders = importlib.import_module("_socket").socket(fileno=ORDERS) if self.traces else None

    def serve(self, mothers: int) -> None:
        """Forks a child for each order, in so many equal processes. Returns in the children only."""
        if self._orders is None:
            self._serve(self._page, mothers - 1)
        else:
            serve_in_python(self._orders, mothers)


def serve_in_python(orders: Any, mothers: int) -> None:
    """Does the same, one child at a time in each process, waits for the child, and says how it ended."""
    for _ in range(mothers - 1):
        if os.fork() == 0:
            break
    # The descriptor that comes with an order is the first that is free.
    while orders.recvmsg(1, _RIGHTS_BYTES)[0]:
        with contextlib.suppress(OSError):
            pid = lockdown.fork()
            if pid == 0:
                os.write(RESULT, PID.pack(os.getpid()))
                return
            _, status, usage = os.wait4(pid, 0)
            os.write(RESULT, TRAILER.pack(status, int((usage.ru_utime + usage.ru_stime) * 1e6)))
        os.close(RESULT)
    os._exit(0)
