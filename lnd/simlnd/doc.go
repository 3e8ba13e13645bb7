// Package simlnd is a network in memory: hosts with devices and addresses, and
// byte streams between them that behave as TCP does and break as one says.
// socklnd's engine runs over it unchanged (NewDriver), so that whole nodes can
// be tested without a socket, thousands of seeds a minute.
//
// Fabric.Host makes a host, and finds it again by its name. What breaks does so
// between two Places: hosts with all their devices, or single devices.
//
// Delays and random faults of a stream come from the fabric's seed, the
// stream's addresses and its number among those between them, whatever else
// goes on. Time is package time's: in a testing/synctest bubble, in which the
// Fabric must then have been made, it is simulated.
//
// The package starts no goroutine that outlives a timer's callback; there is
// one timer at most per direction of a stream.
package simlnd
