// Package nspawn has machines for tests of what administrators install: copies of the Debian
// root file system that LNETD_TEST_MACHINE names, which systemd-nspawn boots with a systemd of
// their own and without a network. A machine is its test's, and goes with it.
package nspawn
