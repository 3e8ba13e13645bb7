package modparam

// sections are those of a document, in its order.
var sections = []string{"buffers", "global", "lnetd", "lnetd/socklnd", "lnetd/o2iblnd", "lnetd/selftest"}

// Configuration makes a document for lnetd of the modprobe file name, with the
// meaning that the file has for the kernel: what stands twice holds as it stands
// last, strings stand in the section "lnetd". Each key stands on the line of its option.
// The warnings name what has no effect.
//
// The error is Problems, with the warnings among them; the document then has the rest. A
// file in which no option is for lnetd is an error.
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
		bad.addRemedied(0, "'options lnet networks=\"tcp(eth0)\"' is what lnetd looks for", "no option in it is for lnetd")
	}
	warnings, err = split(bad.all())
	return byLine(all), warnings, err
}

// understands reports whether lnetd has the parameter of one of the options.
func understands(options []option) bool {
	for _, o := range options {
		if _, ok := modules[o.module][o.name]; ok {
			return true
		}
	}
	return false
}
