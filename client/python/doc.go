// Package python has the tests of the Python package lnetd, which is in the directory of that name: it calls
// liblnetd with ctypes. docs/liblnetd.md describes it. The tests compile the library, and run programs of
// testdata and examples with python3 against lnetd's side of the protocol.
package python
