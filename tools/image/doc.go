// Command image writes lnetd's container image as an OCI layout, for one or more machine architectures.
// It needs no container daemon. deploy/packages/build calls it. An image has one layer, with files of
// the packages. The output depends only on these files, the flags and SOURCE_DATE_EPOCH.
package main
