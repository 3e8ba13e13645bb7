// Package spelling finds the word that a misspelled word probably stands for.
//
// internal/lnetd/config uses it for keys and values of documents, internal/lnetd/modparam for modules and
// their parameters. It does no I/O and starts no goroutines.
package spelling
