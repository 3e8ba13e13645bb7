// Package c has the tests of liblnetd, the C library for clients of lnetd: its source is in src, its build
// script is build, and docs/liblnetd.md describes it. The tests compile the library and programs in
// testdata with each compiler that is installed, and with sanitizers, and run them against lnetd's side of
// the protocol.
package c
