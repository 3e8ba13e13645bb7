// Package proxies decides which processes may be proxies of lnetd, the drivers of NIs in other processes (package
// uplnd), and what they get. Package config reads the rules from the configuration, and package daemon applies
// them to the processes that connect. The package starts no goroutine.
package proxies
