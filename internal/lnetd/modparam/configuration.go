package modparam

import (
	"github.com/lnetd/lnetd/internal/lnetd/drivers"
	"github.com/lnetd/lnetd/lnd"
)

// sections holds the sections of the documents that this package writes, in order. A name with a slash is a
// section within "lnetd".
var sections = func() []string {
	all := []string{"buffers", "global", "lnetd"}
	for _, t := range drivers.Tables() {
		all = append(all, sectionOf(&t))
	}
	return append(all, "lnetd/selftest")
}()

// sectionOf returns the section for the options of a driver.
func sectionOf(t *lnd.Table) string { return "lnetd/" + t.Section }

// Configuration converts the modprobe file called name into a document for lnetd that has the same meaning as
// the file has for the kernel. If an option occurs several times, the last one counts. The strings networks,
// ip2nets and routes go to the section "lnetd". Each key of the document is on the line of its option. The
// warnings name options that have no effect.
//
// If the file has errors, err is a Problems with the errors and the warnings, and the document contains the
// valid options. A file without any option that lnetd has is an error.
func Configuration(name string, data []byte) (yaml []byte, warnings Problems, err error) {
	bad := &findings{file: name}
	options := modprobeOptions(data, bad)
	all := settingsOf(options, bad)
	lines := map[string]int{}
	for _, s := range all {
		if s.section == "lnetd" {
			lines[s.key] = s.line
		}
	}
	if n, i := lines["networks"], lines["ip2nets"]; n > 0 && i > 0 {
		bad.add(max(n, i), "options lnet: networks and ip2nets cannot both be set: leave out one of them")
	}
	if !understands(options) && len(bad.errors) == 0 {
		bad.addRemedied(0, "lnetd reads options such as 'options lnet networks=\"tcp(eth0)\"'", "the file has no option that lnetd uses")
	}
	warnings, err = split(bad.all())
	return byLine(all), warnings, err
}

// understands reports whether at least one of the options sets a parameter that lnetd has.
func understands(options []option) bool {
	for _, o := range options {
		if _, ok := modules[o.module][o.name]; ok {
			return true
		}
	}
	return false
}
