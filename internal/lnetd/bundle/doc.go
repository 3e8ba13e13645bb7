// Package bundle collects what a report about a problem with lnetd needs into one archive: what lnetd says about itself,
// what doctor finds, the latest events, the log, and facts about the host. lnetdctl bundle calls it.
//
// Each file is bounded in size and time. Files that cannot be collected are named in the archive, and the rest is collected
// nevertheless. Values that may be secrets are replaced (redact.go). The package starts no goroutine that outlives Write.
package bundle
