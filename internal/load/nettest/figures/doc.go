// Package figures has the counters and statistics of a network test (transport 10.3): messages,
// transfers, rates and round trips of one node, and their totals over several nodes. Nodes send them to
// the console as JSON. The package has no goroutines and does not use the clock.
package figures
