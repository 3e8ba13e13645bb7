// Package figures has the counters of a network test (transport 10.3): messages, transfers, rates and
// round trips, and the sums of several nodes. Nodes send them as JSON. The package has no goroutines and
// does not use the clock.
package figures
