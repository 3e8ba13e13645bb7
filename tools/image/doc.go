// Command image writes lnetd's container image as an OCI layout, for several machines,
// without a daemon: deploy/packages/build calls it. An image has one layer, made of the
// tree that the packages have, and what comes out depends on that tree and on the flags
// alone.
package main
