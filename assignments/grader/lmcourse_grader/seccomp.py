"""A filter of system calls for the sandbox: no shared memory, no namespaces, no tracing, no way to a host.

Limits on a process do not count System V shared memory, files in memory or what a new namespace allows; a
function of NumPy needs none of these, so the kernel refuses them. The filter is a classic BPF program, for
`bwrap --seccomp`.
"""

from __future__ import annotations

import errno
import platform
import struct

# Numbers of the refused calls, from the kernel's tables for each architecture.
REFUSED = {
    "x86_64": {
        "shmget": 29, "semget": 64, "msgget": 68, "ptrace": 101, "mount": 165, "add_key": 248,
        "request_key": 249, "keyctl": 250, "unshare": 272, "perf_event_open": 298, "setns": 308,
        "memfd_create": 319, "bpf": 321, "userfaultfd": 323, "io_uring_setup": 425, "memfd_secret": 447,
    },
    "aarch64": {
        "shmget": 194, "semget": 190, "msgget": 186, "ptrace": 117, "mount": 40, "add_key": 217,
        "request_key": 218, "keyctl": 219, "unshare": 97, "perf_event_open": 241, "setns": 268,
        "memfd_create": 279, "bpf": 280, "userfaultfd": 282, "io_uring_setup": 425, "memfd_secret": 447,
    },
}  # fmt: skip
ARCHITECTURE = {"x86_64": 0xC000003E, "aarch64": 0xC00000B7}
CLONE3 = 435  # refused as unknown, so that the C library falls back on clone
X32 = 0x4000_0000
SOCKET = {"x86_64": 41, "aarch64": 198}
VSOCK = 40  # sockets between a virtual machine and its host: no namespace of networks holds them

LOAD, JUMP_EQUAL, JUMP_AT_LEAST, RETURN = 0x20, 0x15, 0x35, 0x06
ALLOW, KILL, REFUSE = 0x7FFF_0000, 0x8000_0000, 0x0005_0000


def program(machine: str | None = None) -> bytes | None:
    """Return the filter for this machine's architecture; None for one that is not listed."""
    machine = machine or platform.machine()
    if machine not in REFUSED:
        return None

    def step(code: int, value: int, if_true: int = 0, if_false: int = 0) -> bytes:
        return struct.pack("=HBBI", code, if_true, if_false, value)

    steps = [
        step(LOAD, 4),  # the architecture of the call
        step(JUMP_EQUAL, ARCHITECTURE[machine], 1, 0),
        step(RETURN, KILL),
        step(LOAD, 0),  # its number
    ]
    if machine == "x86_64":
        steps += [step(JUMP_AT_LEAST, X32, 0, 1), step(RETURN, KILL)]
    steps += [step(JUMP_EQUAL, CLONE3, 0, 1), step(RETURN, REFUSE | errno.ENOSYS)]
    for number in REFUSED[machine].values():
        steps += [step(JUMP_EQUAL, number, 0, 1), step(RETURN, REFUSE | errno.EPERM)]
    steps += [
        step(JUMP_EQUAL, SOCKET[machine], 0, 3),
        step(LOAD, 16),  # its first argument
        step(JUMP_EQUAL, VSOCK, 0, 1),
        step(RETURN, REFUSE | errno.EPERM),
    ]
    return b"".join([*steps, step(RETURN, ALLOW)])
