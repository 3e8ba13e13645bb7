package modparam

import (
	"errors"
	"fmt"
	"strconv"

	"github.com/lnetd/lnetd/lnet"
)

// A parameter is a module's parameter that lnetd has.
type parameter struct {
	// section is that of the document: "global", "buffers", "lnetd", "lnetd/socklnd",
	// "lnetd/selftest".
	section, key string
	// read checks a value and says what stands in the document; nil: a whole number.
	read func(value string) (string, error)
}

// Sections of the document, in its order.
var sections = []string{"buffers", "global", "lnetd", "lnetd/socklnd", "lnetd/selftest"}

// Configuration makes a document for lnetd of the modprobe file name, with the
// meaning that the file has for the kernel: what stands twice holds as it stands
// last, strings stand in the section "lnetd". Parameters that lnetd has no use for are
// named in warnings, and left out. The error is all Problems, joined.
func Configuration(name string, data []byte) (yaml []byte, warnings []string, err error) {
	bad := &problems{file: name}
	warn := func(o *option, format string, args ...any) {
		warnings = append(warnings, fmt.Sprintf("%s:%d: options %s: %s", name, o.line, o.module, fmt.Sprintf(format, args...)))
	}
	last := map[[2]string]option{}
	var order [][2]string
	for _, o := range modprobeOptions(data, bad) {
		known, has := modules[o.module]
		if !has {
			if lustre[o.module] {
				warn(&o, "lnetd has no %s: %s is passed over", o.module, o.name)
			}
			continue
		}
		if _, ok := known[o.name]; !ok {
			warn(&o, "lnetd has no use for %s: it is passed over", o.name)
			continue
		}
		at := [2]string{o.module, o.name}
		if before, twice := last[at]; twice {
			warn(&o, "%s stands in line %d, too: the last holds, as in kernels", o.name, before.line)
		} else {
			order = append(order, at)
		}
		last[at] = o
	}
	d := map[string][]string{}
	for _, at := range order {
		o, p := last[at], modules[at[0]][at[1]]
		if o.value == "" {
			continue
		}
		read := p.read
		if read == nil {
			read = wholeNumber
		}
		value, err := read(o.value)
		if err != nil {
			bad.add(o.line, "options %s: %s: %w", o.module, o.name, err)
			continue
		}
		d[p.section] = append(d[p.section], p.key+": "+value)
	}
	if n, i := last[[2]string{"lnet", "networks"}], last[[2]string{"lnet", "ip2nets"}]; n.value != "" && i.value != "" {
		bad.add(max(n.line, i.line), "options lnet: networks and ip2nets cannot both be set: leave out one of them")
	}
	if err := bad.err(); err != nil {
		return nil, warnings, err
	}
	return written(d), warnings, nil
}

// written is the document of what stands in the sections.
func written(d map[string][]string) []byte {
	var b []byte
	inLnetd := false
	for _, section := range sections {
		if len(d[section]) == 0 {
			continue
		}
		indent := "    "
		switch section {
		case "lnetd/socklnd", "lnetd/selftest":
			if !inLnetd {
				b = append(b, "lnetd:\n"...)
			}
			inLnetd, indent = true, "        "
			b = fmt.Appendf(b, "    %s:\n", section[len("lnetd/"):])
		default:
			inLnetd = section == "lnetd"
			b = fmt.Appendf(b, "%s:\n", section)
		}
		for _, line := range d[section] {
			b = fmt.Appendf(b, "%s%s\n", indent, line)
		}
	}
	return b
}

func wholeNumber(value string) (string, error) {
	n, err := strconv.ParseInt(value, 0, 64)
	if err != nil {
		return "", fmt.Errorf("'%s' is not a whole number", value)
	}
	return strconv.FormatInt(n, 10), nil
}

// truth reads a module's boolean, of which 0, n and N mean no.
func truth(value string) (string, error) {
	switch value {
	case "0", "n", "N":
		return "0", nil
	case "1", "y", "Y":
		return "1", nil
	}
	return wholeNumber(value)
}

// not reads a boolean that says the opposite.
func not(value string) (string, error) {
	yes, err := truth(value)
	switch {
	case err != nil:
		return "", err
	case yes == "0":
		return "1", nil
	}
	return "0", nil
}

// word takes a value that is one of words.
func word(words ...string) func(string) (string, error) {
	return func(value string) (string, error) {
		for _, w := range words {
			if value == w {
				return w, nil
			}
		}
		return "", fmt.Errorf("'%s' is none of %q", value, words)
	}
}

// checked takes a string that a parser of package lnet takes.
func checked[T any](parse func(string) (T, error)) func(string) (string, error) {
	return func(value string) (string, error) {
		if _, err := parse(value); err != nil {
			return "", withoutWhat(err)
		}
		return strconv.Quote(value), nil
	}
}

// withoutWhat is an error without the name of the parameter, which stands before it.
func withoutWhat(err error) error {
	if field := (*lnet.FieldError)(nil); errors.As(err, &field) {
		return fmt.Errorf("%q: %w", field.Value, field.Err)
	}
	return err
}
