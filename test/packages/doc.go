// Package packages tests the output of deploy/packages/build from the point of view of its users. It
// installs, upgrades, removes and purges packages in copies of a Debian root file system, unpacks and
// runs the container image, and repeats the build in another environment to compare the results.
//
// LNETD_TEST_MACHINE is the root file system, made by debootstrap as docs/packages.md describes. `.ci/run
// deb` creates it. The tests need root, lintian, rpm and iproute2. Packages are built once for all tests,
// in a directory that is removed at the end. There are no goroutines.
package packages
