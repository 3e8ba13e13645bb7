// Package packages tries what deploy/packages/build makes, as those who install it do: it
// installs, upgrades, removes and purges in copies of a Debian root file system, unpacks
// the container image and runs it, and builds everything once more elsewhere to compare.
//
// LNETD_TEST_MACHINE names the root file system, made by debootstrap as docs/packages.md
// says; `.ci/run deb` makes it. Root is needed, and lintian, rpm and iproute2. Packages are
// built once for all tests, in a directory that goes with the process; no goroutines.
package packages
