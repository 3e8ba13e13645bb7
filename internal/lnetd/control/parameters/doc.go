// Package parameters lists the parameters of the whole node for code that does not link the node: the
// control interface, lnetdctl, and the conversion of module parameters. The list is generated from
// that of internal/lnetd/config (parameters.json):
//
//	go test ./internal/lnetd/control/parameters -update
//
// The package starts no goroutine.
package parameters
