package config

import (
	"bytes"
	_ "embed"
	"fmt"
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
			text = drivers[k].appendReference(text)
		}
	}
	return append(text, after...)
}

// appendReference appends the section of a driver.
func (d *DriverOptions) appendReference(b []byte) []byte {
	b = fmt.Appendf(b, "    # %s\n    %s:\n", d.About, d.Section)
	for _, o := range d.Parameters {
		line := "        " + o.Name + ": " + o.Default
		if o.Help != "" {
			line = fmt.Sprintf("%-39s # %s", line, o.Help)
		}
		b = append(b, strings.TrimRight(line, " ")+"\n"...)
	}
	return b
}
