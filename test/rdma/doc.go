// Package rdma holds tests of lnetd over RDMA devices: whole processes with a NID each, on the
// addresses that LNETD_TEST_RDMA names, of programs that LNETD_TEST_PROGRAMS names the directory of,
// which were built with the tag o2ib. Without these they skip. They have ports of their own, so
// that a machine's own LNet is in nobody's way.
//
// `make rdma` builds the programs and runs the tests in a machine with RDMA in software (.ci/guest).
package rdma
