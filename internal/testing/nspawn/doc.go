// Package nspawn boots machines for tests of installed packages and services. A machine is a copy of the
// Debian root file system in LNETD_TEST_MACHINE. systemd-nspawn boots it with its own systemd and without
// a network. It belongs to one test and is removed at the end of the test.
package nspawn
