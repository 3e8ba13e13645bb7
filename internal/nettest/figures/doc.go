// Package figures is what a network test counts (transport 10.3): messages, transfers,
// rates, round trips, and how those of several nodes add up. Values that nodes send each
// other as JSON; no goroutine, no clock.
package figures
