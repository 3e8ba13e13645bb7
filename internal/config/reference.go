package config

import (
	"bytes"
	_ "embed"
	"fmt"
	"strconv"
	"strings"
)

//go:embed reference.yaml
var reference []byte

// driversMark is the line of reference.yaml that the sections of drivers replace.
const driversMark = "    #: drivers\n"

// Reference returns a configuration file with every key and its default, including those of
// drivers.
func Reference(drivers []DriverOptions) []byte {
	before, after, _ := bytes.Cut(reference, []byte(driversMark))
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
	return text
}

// appendSection appends the section of a driver.
func (d *DriverOptions) appendSection(b []byte) []byte {
	b = fmt.Appendf(b, "    # %s\n    %s:\n", d.About, d.Section)
	for _, o := range d.parameters() {
		b = appendKey(b, "        ", o.Name, o.Default, o.Help)
	}
	return b
}

// putTunables replaces the line for the tunables of the driver's NIs.
func (d *DriverOptions) putTunables(text []byte) []byte {
	before, after, ok := bytes.Cut(text, []byte("#: tunables "+d.Type.String()+"\n"))
	if !ok {
		return text
	}
	start := bytes.LastIndexByte(before, '\n') + 1
	indent := string(before[start:])
	out := bytes.Clone(before[:start])
	for k := range d.Tunables {
		if t := &d.Tunables[k]; t.Name != "" && !t.PerNet {
			out = appendKey(out, indent, t.Name, strconv.FormatInt(t.Default, 10), helpFor(t))
		}
	}
	return append(out, after...)
}

// appendKey appends a key with its default and a comment.
func appendKey(b []byte, indent, name, value, help string) []byte {
	return append(b, strings.TrimRight(fmt.Sprintf("%-39s # %s", indent+name+": "+value, help), " #")+"\n"...)
}
