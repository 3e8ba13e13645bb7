// Package matrix sends a kernel node over RDMA what the test matrix of the specification lists
// (o2iblnd 21), and expects the observed answers. It is a scripted peer that uses the shim and the
// codecs of lnd/o2iblnd, but not its state machines.
//
// Its tests need RDMA devices. test/kernel builds them with the tag o2ib, copies them to a machine
// with such devices, and runs them there. LNETD_TEST_MATRIX contains the kernel's NID and addresses
// of the machine, one for each row, so that rows are independent.
package matrix
