// Package rdma tests lnetd over RDMA devices, as whole processes with one NID each. LNETD_TEST_RDMA is
// the list of addresses. LNETD_TEST_PROGRAMS is the directory of the programs, built with the tag o2ib.
// LNETD_TEST_INSTALLED is the root directory of a Debian system with the packages lnetd and lnetd-o2ib.
// The tests are skipped without these variables. They use special ports, so they do not conflict with an
// LNet of the machine.
//
// `make rdma` builds and installs the packages and runs the tests in a machine with RDMA in software (.ci/guest).
package rdma
