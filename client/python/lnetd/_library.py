"""liblnetd as ctypes sees it: structures, constants and prototypes of lnetd.h."""

from __future__ import annotations

import ctypes
from ctypes import POINTER, c_char_p, c_int, c_int32, c_size_t, c_uint8, c_uint32, c_uint64, c_void_p

PID = 12345
ANY_TM = 4096
NID_TEXT = 64
ADDR_TEXT = 96
POLLING = 1
IN_PLACE = 0
COPY = 1


class Nid(ctypes.Structure):
    """struct lnetd_nid"""

    _fields_ = [("bytes", c_uint8 * 20)]


class Addr(ctypes.Structure):
    """struct lnetd_addr"""

    _fields_ = [("nid", Nid), ("pid", c_uint32), ("portal", c_uint32), ("tmid", c_uint32)]


class Limits(ctypes.Structure):
    """struct lnetd_limits"""

    _fields_ = [
        ("size", c_size_t),
        ("buffer_size", c_uint64),
        ("memory", c_uint64),
        ("incarnation", c_uint64),
        ("connection", c_uint64),
        ("tms", c_uint32),
        ("buffers", c_uint32),
        ("areas", c_uint32),
        ("completions", c_uint32),
        ("range_size", c_uint32),
        ("ranges", c_uint32),
        ("descriptor_size", c_uint32),
        ("polling", c_uint32),
    ]


class Desc(ctypes.Structure):
    """struct lnetd_desc"""

    _fields_ = [("size", c_uint32), ("bytes", c_uint8 * 64)]


class Event(ctypes.Structure):
    """struct lnetd_event"""

    _fields_ = [
        ("buffer", c_void_p),
        ("data", c_void_p),
        ("type", c_uint32),
        ("flags", c_uint32),
        ("status", c_int32),
        ("offset", c_uint32),
        ("length", c_uint32),
        ("zero", c_uint32),
        ("time", c_uint64),
        ("peer", Addr),
        ("reserved", c_uint64 * 6),
    ]


class Iovec(ctypes.Structure):
    """struct iovec"""

    _fields_ = [("iov_base", c_void_p), ("iov_len", c_size_t)]


STRUCTURES = {
    "lnetd_nid": Nid,
    "lnetd_addr": Addr,
    "lnetd_limits": Limits,
    "lnetd_desc": Desc,
    "lnetd_event": Event,
    "iovec": Iovec,
}

# The result and the parameters of each function that this package calls. Objects are c_void_p.
PROTOTYPES = {
    "lnetd_nid_parse": (c_int, c_char_p, POINTER(Nid)),
    "lnetd_nid_print": (c_int, POINTER(Nid), c_char_p, c_size_t),
    "lnetd_addr_parse": (c_int, c_char_p, POINTER(Addr)),
    "lnetd_addr_print": (c_int, POINTER(Addr), c_char_p, c_size_t),
    "lnetd_open": (c_int, POINTER(c_void_p), c_char_p, c_char_p, c_uint32),
    "lnetd_close": (None, c_void_p),
    "lnetd_fd": (c_int, c_void_p),
    "lnetd_process": (c_int, c_void_p),
    "lnetd_reopen": (c_int, c_void_p),
    "lnetd_ping": (c_int, c_void_p),
    "lnetd_set_patience": (c_int, c_void_p, c_int),
    "lnetd_set_spin": (c_int, c_void_p, c_uint32),
    "lnetd_text": (c_char_p,),
    "lnetd_strerror": (c_char_p, c_int),
    "lnetd_limits": (c_int, c_void_p, POINTER(Limits)),
    "lnetd_nids": (c_int, c_void_p, POINTER(Nid), c_int),
    "lnetd_adopt": (c_int, c_void_p, c_void_p, c_size_t, c_uint32),
    "lnetd_free": (c_int, c_void_p, c_void_p),
    "lnetd_register": (c_int, c_void_p, POINTER(Iovec), c_int, c_void_p, POINTER(c_void_p)),
    "lnetd_deregister": (c_int, c_void_p),
    "lnetd_tm_start": (c_int, c_void_p, POINTER(Addr), c_uint32, POINTER(c_void_p)),
    "lnetd_tm_stop": (c_int, c_void_p),
    "lnetd_tm_addr": (None, c_void_p, POINTER(Addr)),
    "lnetd_recv": (c_int, c_void_p, c_void_p, c_uint32, c_uint32),
    "lnetd_send": (c_int, c_void_p, c_void_p, c_uint32, POINTER(Addr)),
    "lnetd_offer": (c_int, c_void_p, c_void_p, c_uint32, c_uint32, POINTER(Desc)),
    "lnetd_offer_bits": (c_int, c_void_p, c_void_p, c_uint32, c_uint32, POINTER(c_uint64)),
    "lnetd_move": (c_int, c_void_p, c_void_p, c_uint32, c_uint32, c_char_p, c_size_t),
    "lnetd_move_bits": (c_int, c_void_p, c_void_p, c_uint32, c_uint32, POINTER(Addr), c_uint64),
    "lnetd_cancel": (c_int, c_void_p, c_void_p),
    "lnetd_begin": (c_int, c_void_p),
    "lnetd_commit": (c_int, c_void_p),
    "lnetd_sync": (c_int, c_void_p, c_int),
    "lnetd_events": (c_int, c_void_p, POINTER(Event), c_int),
    "lnetd_pending": (c_int, c_void_p),
    "lnetd_wait": (c_int, c_void_p, c_int),
    "lnetd_tm_fd": (c_int, c_void_p),
    "lnetd_tm_arm": (c_int, c_void_p),
}


def _load() -> ctypes.CDLL:
    try:
        library = ctypes.CDLL("liblnetd.so.0")
        for name, (result, *parameters) in PROTOTYPES.items():
            function = getattr(library, name)
            function.restype = result
            function.argtypes = parameters
    except (OSError, AttributeError) as error:
        raise ImportError(f"liblnetd.so.0 cannot be used: {error}; it is in the package liblnetd0 or liblnetd") from error
    return library


lib = _load()
