// Package config turns what an operator writes into what lnetd shall be: the YAML
// that Lustre's "lnetctl export" prints, with a section "lnetd" of our own, and the
// strings of kernel module parameters. It knows no driver: what can be set of one,
// Parse is told as DriverOptions.
//
// Parse is the only door. What it returns has been checked; everything that it found
// wrong is in one error, with file, line and key. Reference holds every key with its
// default; it is both the documentation and a test's input. A State is what a node
// shall be; Diff gives the steps from one to another, each with its inverse.
//
// internal/daemon and cmd/lnetd call it. It has no goroutines.
package config
