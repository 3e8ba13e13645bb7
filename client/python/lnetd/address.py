"""Addresses: NIDs, and the addresses of transfer machines."""

from __future__ import annotations

import ctypes
from typing import NamedTuple, Union

from . import _library
from ._library import lib
from .errors import check, unsigned

PID = _library.PID
ANY_TM = _library.ANY_TM


class NID(NamedTuple):
    """The address of a node's interface. ``raw`` is LNet's encoding, 20 bytes."""

    raw: bytes

    @classmethod
    def parse(cls, text: str) -> NID:
        """Read a NID such as "10.0.0.1@tcp". It raises LnetdError if it is none."""
        nid = _library.Nid()
        check(lib.lnetd_nid_parse(text.encode(), ctypes.byref(nid)))
        return cls(bytes(nid.bytes))

    def __str__(self) -> str:
        text = ctypes.create_string_buffer(_library.NID_TEXT)
        check(lib.lnetd_nid_print(ctypes.byref(self._c()), text, len(text)))
        return text.value.decode()

    def _c(self) -> _library.Nid:
        if len(self.raw) != 20:
            raise ValueError(f"a NID has 20 bytes, not {len(self.raw)}")
        return _library.Nid.from_buffer_copy(self.raw)


class Address(NamedTuple):
    """The address of a transfer machine."""

    nid: NID
    portal: int
    tmid: int = ANY_TM
    pid: int = PID

    @classmethod
    def parse(cls, text: str) -> Address:
        """Read an address NID:PID:PORTAL:TM, such as "10.0.0.1@tcp:12345:34:7". TM can be "*"."""
        address = _library.Addr()
        check(lib.lnetd_addr_parse(text.encode(), ctypes.byref(address)))
        return cls._of(address)

    def __str__(self) -> str:
        text = ctypes.create_string_buffer(_library.ADDR_TEXT)
        check(lib.lnetd_addr_print(ctypes.byref(self._c()), text, len(text)))
        return text.value.decode()

    @classmethod
    def _of(cls, address: _library.Addr) -> Address:
        return cls(NID(bytes(address.nid.bytes)), address.portal, address.tmid, address.pid)

    def _c(self) -> _library.Addr:
        return _library.Addr(
            self.nid._c(), unsigned(self.pid, "pid"), unsigned(self.portal, "portal"), unsigned(self.tmid, "tmid")
        )


def to_c(address: Union[Address, str]) -> _library.Addr:
    """Return an address, or its text, as the library has it."""
    if isinstance(address, str):
        address = Address.parse(address)
    return address._c()
