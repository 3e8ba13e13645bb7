// Package config converts what an operator writes into the state that lnetd must reach. It reads
// the YAML that Lustre's "lnetctl export" prints, with an additional section "lnetd", and the
// strings of kernel module parameters. It imports no driver: the caller passes the options of
// each driver to Parse as DriverOptions.
//
// Parse is the only way to a Config. A Config is always validated. All problems of a file are
// returned as one error that names file, line and key for each. Reference returns a document with
// every key and its default; it is both documentation and test input. A State describes a node.
// Diff returns the steps that lead from one State to another, each with its inverse.
//
// internal/lnetd/daemon and cmd/lnetd call this package. It starts no goroutines.
package config
