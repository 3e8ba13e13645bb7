// Package kernel tests lnetd with real kernel nodes. A laboratory boots guests with Lustre's LNet, in two
// versions, on two bridges of a network namespace, in which lnetd also has hosts. LNET_LAB is the
// directory of the laboratory. The tests are skipped if it is not set. They need root, QEMU, Python and
// iproute2, and a C compiler with rdma-core's headers, because lnetd with RDMA runs in another guest.
//
// `.ci/run kernel` sets LNET_LAB if the laboratory exists. Each run creates its namespaces and guests and
// removes them with their state. If LNET_LAB_RUN is set, it is a directory for snapshots, which make the
// next run faster. Guests are slow, so time limits are minutes, and the tests do not check durations.
package kernel
