// Package fault decides which messages of a node go wrong on purpose (lnet-core
// 11): drop rules and delay rules, each with a filter and a rate or an
// interval, and NIDs whose next messages fail. It is a test facility, but one
// that operators use on live nodes.
//
// It is a pure machine: time is an argument, randomness comes from a seed and
// the order of the calls. It decides, its node acts: that one discards, fails
// and holds messages, and gives them on when a rule's time has come or the rule
// has gone.
//
// The package starts no goroutine. Rules may be used from any goroutine; its
// lock is a leaf, under which nothing is called.
package fault
