// Command image writes lnetd's container image, for several machine architectures, as an OCI layout.
// It needs no daemon. deploy/packages/build calls it. An image has one layer, with files of the
// packages. The output depends only on those files and on the flags.
package main
