// Package conformance says which test shows which rule of the specification,
// and makes docs/conformance.md of it. The files in rules list the rules, and
// the cases of the reference's regression suites. A test names those that it
// shows in a line of a comment, a script that a test plays in one behind #:
//
//	// lnet-core 2.2 attach (1)-(3), 5.2 (3a), 6.2
//	# sanity-lnet 7 (210)
//
// That is a document, then items: a section, the name of a list within it if
// there are several, a number or a range; (3) covers (3a), (3b), ... too. A tag
// counts for the test around it. Outside of a test it counts for the tests that
// use the function, type or variable around it.
//
// Its own tests call it, one of them with -update; it has no goroutines.
package conformance
