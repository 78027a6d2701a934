"""Keeping freed memory: a fresh gradient of K models per round costs more in page faults than in
arithmetic, unless the allocator hands back the pages it was given the round before."""

import ctypes

# glibc's malloc.h
_M_TRIM_THRESHOLD = -1
_M_MMAP_MAX = -4
_NEVER = 2**31 - 1


def keep_freed_memory() -> bool:
    """Ask glibc to reuse large blocks instead of returning them; False where there is no glibc."""
    try:
        libc = ctypes.CDLL("libc.so.6")
        return bool(libc.mallopt(_M_MMAP_MAX, 0) and libc.mallopt(_M_TRIM_THRESHOLD, _NEVER))
    except (OSError, AttributeError):
        return False


def return_freed_memory() -> bool:
    """Give back what is kept free; False where there is no glibc.

    What earlier runs of a process left lies in pieces between other blocks and may be of no use to
    the next one: a table of many runs would grow until memory runs out.
    """
    try:
        return bool(ctypes.CDLL("libc.so.6").malloc_trim(0))
    except (OSError, AttributeError):
        return False
