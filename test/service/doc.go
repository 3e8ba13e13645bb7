// Package service tests the units in deploy/systemd with a real systemd. A systemd-nspawn machine, made
// from a copy of the root file system in LNETD_TEST_MACHINE, has lnetd installed. `.ci/run service`
// creates the root file system and runs the tests.
package service
