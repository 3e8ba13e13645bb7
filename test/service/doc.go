// Package service tests the units of deploy/systemd under a real systemd: a machine in
// systemd-nspawn, made of a copy of the root file system that LNETD_TEST_MACHINE names, with
// lnetd installed. `.ci/run service` makes one and runs it.
package service
