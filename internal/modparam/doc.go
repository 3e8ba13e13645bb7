// Package modparam reads what sites wrote before there was YAML: files of
// /etc/modprobe.d, the strings networks, ip2nets and routes of LNet's module
// parameters, and lines of lnet_routes.conf (lnetctl 13, 14.4, 14.5).
//
// Convert makes the document of them that Lustre's lnet_legacy2yaml makes, in which
// all patterns stand as they were written, and behind it what other options set. Configuration
// makes one for lnetd of a modprobe file, which means to lnetd what the file means to the
// kernel, line by line.
//
// cmd/lnetdctl calls it. It does no I/O and has no goroutines.
package modparam
