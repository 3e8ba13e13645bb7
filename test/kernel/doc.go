// Package kernel holds tests of lnetd beside real kernel nodes: guests of a
// laboratory that boots Lustre's LNet, of two versions, on two bridges of a
// network namespace, where lnetd has hosts too. LNET_LAB names its directory;
// where it is not set the tests skip. They need root, QEMU, Python and iproute2, and a C
// compiler with rdma-core's headers: where there is RDMA lnetd runs in a guest of its own.
//
// `.ci/run kernel` sets it if the laboratory is there. Namespaces and guests are
// the tests' own and go with them, and so does their state unless LNET_LAB_RUN
// names a directory where snapshots shall stay, for the next time to be quicker.
// A guest is slow: what is waited for has minutes, and nothing is said about how
// long it took.
package kernel
