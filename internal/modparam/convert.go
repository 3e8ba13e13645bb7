package modparam

import (
	"errors"
	"strings"
)

// ErrNoData says that there was nothing to convert.
var ErrNoData = errors.New("no ip2nets, routes, or networks data")

// Kind is what stands in a text.
type Kind int

// Kinds of texts.
const (
	// Modprobe is a file of /etc/modprobe.d, of which the options of lnet count.
	Modprobe Kind = iota
	// IP2Nets, Routes and Networks are strings of these module parameters, of which
	// entries stand on lines of their own or between semicolons; among Routes may be
	// lines of lnet_routes.conf.
	IP2Nets
	Routes
	Networks
	// Mixed is any of these, line by line: "options lnet ..." and NAME=VALUE, and
	// entries of which the form tells what they are.
	Mixed
)

// A Text is what Convert reads.
type Text struct {
	// Name stands in errors.
	Name string
	Kind Kind
	Data []byte
}

// A conversion is what Convert has read so far.
type conversion struct {
	nets   []netSpec
	rules  []rule
	routes []route
	bad    *problems
}

// Convert makes a YAML document of texts, as lnet_legacy2yaml does (lnetctl 14.5):
// sections net, ip2nets and route, each in the order of the texts, with patterns and
// ranges as they were written. Routes without a count of hops have defaultHop; 0: none.
// The error is ErrNoData, or all Problems of all texts, joined.
func Convert(texts []Text, defaultHop int) ([]byte, error) {
	var c conversion
	var all []error
	for _, t := range texts {
		c.bad = &problems{file: t.Name}
		switch t.Kind {
		case Modprobe:
			c.options(modprobeOptions(t.Data, c.bad))
		case Mixed:
			c.mixed(t.Data)
		default:
			c.value(t.Kind, string(t.Data), 1)
		}
		all = append(all, c.bad.err())
	}
	if err := errors.Join(all...); err != nil {
		return nil, err
	}
	if len(c.nets)+len(c.rules)+len(c.routes) == 0 {
		return nil, ErrNoData
	}
	for k := range c.routes {
		if c.routes[k].hops == 0 {
			c.routes[k].hops = defaultHop
		}
	}
	return c.document(), nil
}

var kinds = map[string]Kind{"ip2nets": IP2Nets, "routes": Routes, "networks": Networks}

// options takes the options of lnet that are of use.
func (c *conversion) options(all []option) {
	for _, o := range all {
		if kind, ok := kinds[o.name]; ok && (o.module == "lnet" || o.module == "") {
			c.value(kind, o.value, o.line)
		}
	}
}

// mixed takes lines of which nobody has said what they are.
func (c *conversion) mixed(data []byte) {
	for line, text := range logicalLines(data) {
		text = strings.Trim(text, blanks)
		command, _ := cutWord(text)
		name, _, assigned := strings.Cut(strings.TrimLeft(text, `'"`), "=")
		_, known := kinds[name]
		switch {
		case command == "options":
			c.options(optionsOf(text, line, c.bad))
		case assigned && known:
			all, err := assignments(text)
			if err != nil {
				c.bad.add(line, "%w", err)
			}
			for k := range all {
				all[k].line = line
			}
			c.options(all)
		default:
			for _, entry := range entries(text, line) {
				c.value(kindOf(entry), entry, line)
			}
		}
	}
}

// kindOf tells by its form what an entry is: routes have a NID, or braces; ip2nets
// have something behind the net.
func kindOf(entry string) Kind {
	switch fields := strings.Fields(entry); {
	case strings.ContainsAny(entry, "@{"):
		return Routes
	case len(fields) > 1:
		return IP2Nets
	}
	return Networks
}

// value takes a string of a kind, which begins on a line.
func (c *conversion) value(kind Kind, s string, line int) {
	for line, entry := range entries(s, line) {
		switch kind {
		case IP2Nets:
			c.rules = append(c.rules, readRules(entry, line, c.bad)...)
		case Routes:
			r, err := readRoute(entry)
			if err != nil {
				c.bad.add(line, "%w", err)
			}
			c.routes = append(c.routes, r)
		default:
			specs, err := readNetSpecs(entry)
			if err != nil {
				c.bad.add(line, "Invalid network specification '%s': %w", entry, err)
			}
			c.nets = append(c.nets, specs...)
		}
	}
}
