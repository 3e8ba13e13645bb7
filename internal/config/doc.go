// Package config turns what an operator writes into the configurations that
// node and drivers own: the YAML that Lustre's "lnetctl export" prints, with a
// section "lnetd" of our own, and the strings of kernel module parameters.
//
// Parse is the only door. What it returns has been checked and needs no more
// questions; everything that it found wrong is in one error, with file, line
// and key. Reference holds every key with its default; it is both the
// documentation and a test's input.
//
// It knows no driver: what can be set of one, Parse is told as DriverOptions.
//
// internal/daemon and cmd/lnetd call it. It has no goroutines.
package config
