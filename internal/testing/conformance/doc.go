// Package conformance maps each rule of the specification to the tests that cover it, and generates
// a page from that map. The files in the directory rules list the rules, and the cases of
// the reference's regression suites. A test names the rules that it covers in a line of a comment. A
// script does so in a line that starts with #:
//
//	// lnet-core 2.2 attach (1)-(3), 5.2 (3a), 6.2
//	# sanity-lnet 7 (210)
//
// Such a tag is a text followed by items. An item is a section, the name of a list if the section has
// several, and a number or a range. (3) includes (3a), (3b) and so on. A line
// of names of requirements is a tag too. A tag belongs to the test around it. A tag outside of a test belongs to the tests that
// use the declaration around it. These may be in another package if the tag is in a package made for
// tests, such as a suite that all drivers must pass.
//
// The package also checks that the cited sections (see docs/spec/README.md) and linked pages exist. Its own
// tests call it, and the command writepage, which writes the page; it is not in git, and the package lnetd
// contains it. It has no goroutines.
package conformance
