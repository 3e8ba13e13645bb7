// Package modparam reads configurations from before LNet had YAML: files of /etc/modprobe.d, the
// strings networks, ip2nets and routes of LNet's module parameters, and lines of lnet_routes.conf
// (lnetctl 13, 14.4, 14.5).
//
// Convert writes the document that Lustre's lnet_legacy2yaml writes, with all patterns unchanged, followed by
// the settings of other options. Configuration writes a document from a modprobe file that has the same
// effect on lnetd as the file has on the kernel.
//
// cmd/lnetdctl calls this package. It does no I/O and starts no goroutines.
package modparam
