package config

import (
	"bytes"
	_ "embed"
	"fmt"
	"strconv"
	"strings"

	"github.com/lnetd/lnetd/internal/lnetd/control/parameters"
)

//go:embed reference.yaml
var reference []byte

// driversMarker is the line in reference.yaml that Reference replaces by the sections of drivers.
const driversMarker = "    #: drivers\n"

// Reference returns a configuration file with every key and its default, including those of
// drivers.
func Reference(drivers []DriverOptions) []byte {
	before, after, _ := bytes.Cut(reference, []byte(driversMarker))
	text := bytes.Clone(before)
	for k := range drivers {
		if drivers[k].Section != "" {
			text = drivers[k].appendSection(text)
		}
	}
	text = append(text, after...)
	for k := range drivers {
		text = drivers[k].putTunables(text)
	}
	for _, section := range []string{parameters.Global, parameters.Lnetd} {
		text = replaceLine(text, "parameters "+section, func(out []byte, indent string) []byte {
			for _, p := range parametersIn(section) {
				out = appendKey(out, indent, p.Name, strconv.FormatInt(p.Default, 10), p.Describe())
			}
			return out
		})
	}
	return text
}

// appendSection appends the section of the driver to the reference document b and returns the result.
func (d *DriverOptions) appendSection(b []byte) []byte {
	b = fmt.Appendf(b, "    # %s\n    %s:\n", d.About, d.Section)
	for _, o := range d.parameters() {
		b = appendKey(b, "        ", o.Name, o.Default, o.Help)
	}
	return b
}

// putTunables replaces the line of the reference document text that stands for the tunables of the
// driver's NIs, and returns the result.
func (d *DriverOptions) putTunables(text []byte) []byte {
	return replaceLine(text, "tunables "+d.Type.String(), func(out []byte, indent string) []byte {
		for k := range d.Tunables {
			if t := &d.Tunables[k]; t.Name != "" && !t.PerNet {
				out = appendKey(out, indent, t.Name, strconv.FormatInt(t.Default, 10), helpFor(t))
			}
		}
		return out
	})
}

// replaceLine returns text in which the line "#: " + mark is replaced by the lines that fill appends to
// out. The indent, which fill must put before each line, is the text before "#:". Without such a line,
// text is returned unchanged.
func replaceLine(text []byte, mark string, fill func(out []byte, indent string) []byte) []byte {
	before, after, ok := bytes.Cut(text, []byte("#: "+mark+"\n"))
	if !ok {
		return text
	}
	start := bytes.LastIndexByte(before, '\n') + 1
	return append(fill(bytes.Clone(before[:start]), string(before[start:])), after...)
}

// appendKey appends a line with a key, its default and a comment to b and returns the result.
func appendKey(b []byte, indent, name, value, help string) []byte {
	return append(b, strings.TrimRight(fmt.Sprintf("%-39s # %s", indent+name+": "+value, help), " #")+"\n"...)
}
