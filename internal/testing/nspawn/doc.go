// Package nspawn boots containers for tests of installed packages and services. A machine is a copy of
// the Debian root file system in LNETD_TEST_MACHINE. systemd-nspawn boots it: the machine runs a
// separate systemd and has no network. It belongs to one test and is removed at the end of the test.
package nspawn
