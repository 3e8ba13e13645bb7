// Package spelling finds the word that a misspelled one stands for.
//
// internal/config calls it for keys and values of documents, internal/modparam for modules
// and their parameters. It does no I/O and has no goroutines.
package spelling
