// Package fault decides which messages of a node fail on purpose (lnet-core 11). It has
// drop rules and delay rules, each with a filter and a rate or an interval, and a list of
// NIDs whose next messages fail. It is a test facility, but operators also use it on live
// nodes.
//
// The package only decides. The node discards, fails or holds the messages, and releases
// held messages when their time has come or their rule is removed. Decisions are
// deterministic: the time is an argument, and random choices follow from a seed and the
// order of the calls.
//
// The package starts no goroutine. Rules are safe for concurrent use. Their lock is a
// leaf lock: no other function is called while it is held.
package fault
