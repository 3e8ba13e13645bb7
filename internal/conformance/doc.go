// Package conformance says which test shows which rule of the specification,
// and makes docs/conformance.md of it. The files in rules list the rules, and
// the cases of the reference's regression suites. A test names those that it
// shows in a line of a comment, a script that a test plays in one behind #:
//
//	// lnet-core 2.2 attach (1)-(3), 5.2 (3a), 6.2
//	# sanity-lnet 7 (210)
//
// That is a text, then items: a section, the name of a list within it if there
// are several, a number or a range; (3) covers (3a), (3b), ... too; or the name of a
// requirement, alone. A tag counts for the test around it; outside of a test, for
// the tests that use what it is in. That may be in another package, one that is made
// for tests, such as a suite that many drivers have to pass.
//
// It also finds what cites a section (docs/spec/README.md says how) and what
// links to a page, so that its own tests, which alone call it, fail where there
// is none. With -update they write the page. It has no goroutines.
package conformance
