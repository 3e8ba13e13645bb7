"""Prints a program in C that compiles if structures and constants of the package are those of lnetd.h; with an
argument, the prototypes of the package: NAME RESULT PARAMETERS..."""

import sys

import lnetd
from lnetd import _library


def name(kind) -> str:
    return "None" if kind is None else kind.__name__


if len(sys.argv) > 1:
    for function, types in _library.PROTOTYPES.items():
        print(function, *map(name, types))
    sys.exit()

print('#include <sys/uio.h>\n#include "lnetd.h"')
for struct, c in _library.STRUCTURES.items():
    print(f'_Static_assert(sizeof(struct {struct}) == {_library.ctypes.sizeof(c)}, "size of {struct}");')
    for field, _ in c._fields_:
        at = getattr(c, field)
        print(f'_Static_assert(offsetof(struct {struct}, {field}) == {at.offset}, "offset of {struct}.{field}");')
        print(f'_Static_assert(sizeof((struct {struct}){{ 0 }}.{field}) == {at.size}, "size of {struct}.{field}");')
constants = {n: getattr(_library, n) for n in ("PID", "ANY_TM", "NID_TEXT", "ADDR_TEXT", "POLLING", "IN_PLACE", "COPY")}
for members in (lnetd.EventType, lnetd.EventFlags, lnetd.Direction):
    constants.update({member.name: member.value for member in members})
for constant, value in constants.items():
    print(f'_Static_assert(LNETD_{constant} == {value}, "{constant}");')
