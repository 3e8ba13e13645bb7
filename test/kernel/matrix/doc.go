// Package matrix says to a kernel node over RDMA what the test matrix of the specification
// lists (o2iblnd 21), and expects what was observed there: a peer by script, over the shim and
// the codecs of lnd/o2iblnd, without its machine.
//
// Its tests need RDMA devices. test/kernel builds them with the tag o2ib, puts them into a
// machine that has some, and runs them there; LNETD_TEST_MATRIX names the kernel's NID and
// addresses of the machine, one for each row, so that no row knows of another.
package matrix
