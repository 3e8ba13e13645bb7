package modparam

import (
	"github.com/lnetd/lnetd/internal/lnetd/drivers"
	"github.com/lnetd/lnetd/lnd"
)

// sections holds the sections of a document, in order.
var sections = func() []string {
	all := []string{"buffers", "global", "lnetd"}
	for _, t := range drivers.Tables() {
		all = append(all, sectionOf(&t))
	}
	return append(all, "lnetd/selftest")
}()

// sectionOf returns the section of a driver.
func sectionOf(t *lnd.Table) string { return "lnetd/" + t.Section }

// Configuration converts the modprobe file called name into a document for lnetd with the meaning
// that the file has for the kernel. If an option occurs twice, the last one wins. Module strings
// go to the section "lnetd". Each key is on the line of its option. The warnings name options
// without effect.
//
// The error is a Problems that includes the warnings; the document then contains the valid
// options. A file without any option for lnetd is an error.
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

// understands reports whether lnetd has the parameter of at least one of the options.
func understands(options []option) bool {
	for _, o := range options {
		if _, ok := modules[o.module][o.name]; ok {
			return true
		}
	}
	return false
}
