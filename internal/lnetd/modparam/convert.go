package modparam

import (
	"errors"
	"fmt"
	"slices"
	"strings"

	"github.com/lnetd/lnetd/lnet"
)

// ErrNoData means that the texts contain nothing to convert.
var ErrNoData = errors.New("no ip2nets, routes, or networks data")

// Kind is the kind of a text.
type Kind int

// Kinds of texts.
const (
	// Modprobe is a file of /etc/modprobe.d.
	Modprobe Kind = iota
	// IP2Nets, Routes and Networks are the strings of these module parameters. Entries are
	// separated by line ends or semicolons. Routes may also contain lines of lnet_routes.conf.
	IP2Nets
	Routes
	Networks
	// Mixed is any of these, line by line: "options lnet ...", NAME=VALUE, and entries whose form
	// shows what they are.
	Mixed
)

// A Text is an input of Convert.
type Text struct {
	// Name is the name in error messages.
	Name string
	Kind Kind
	Data []byte
}

// A conversion holds what Convert has read so far.
type conversion struct {
	nets   []netSpec
	rules  []rule
	routes []route
	others []option       // options that are not one of the strings
	given  map[string]int // line of each string in the current text
	bad    *findings
}

// Convert converts texts to a YAML document, as lnet_legacy2yaml does (lnetctl 14.5). The
// sections net, ip2nets and route follow the order of the texts. Patterns and ranges are
// unchanged. Routes without a hop count get defaultHop, or none if it is 0. Settings of other
// parameters, which lnet_legacy2yaml omits, come after them.
//
// The error is ErrNoData, or a Problems that includes the warnings.
func Convert(texts []Text, defaultHop int) (yaml []byte, warnings Problems, err error) {
	var c conversion
	var found Problems
	var settings []setting
	for _, t := range texts {
		c.bad, c.given = &findings{file: t.Name}, map[string]int{}
		switch t.Kind {
		case Modprobe:
			c.options(modprobeOptions(t.Data, c.bad))
		case Mixed:
			c.mixed(t.Data)
		default:
			c.value(t.Kind, string(t.Data), 1)
		}
		settings = replaced(settings, settingsOf(c.others, c.bad))
		c.others = nil
		found = append(found, c.bad.all()...)
	}
	c.warnOfRules(&found)
	warnings, err = split(found)
	if err != nil {
		return nil, nil, err
	}
	if len(c.nets)+len(c.rules)+len(c.routes)+len(settings) == 0 {
		return nil, warnings, ErrNoData
	}
	for k := range c.routes {
		if c.routes[k].hops == 0 {
			c.routes[k].hops = defaultHop
		}
	}
	return append(c.document(), bySection(settings)...), warnings, nil
}

// replaced returns old with more added. Settings in more replace those with the same key in old.
func replaced(old, more []setting) []setting {
	old = slices.DeleteFunc(old, func(o setting) bool {
		return slices.ContainsFunc(more, func(m setting) bool { return m.section == o.section && m.key == o.key })
	})
	return append(old, more...)
}

// warnOfRules warns of nets with several rules, because a kernel uses all that match.
func (c *conversion) warnOfRules(found *Problems) {
	first, warned := map[string]*rule{}, map[string]bool{}
	for k := range c.rules {
		r := &c.rules[k]
		net, err := lnet.ParseNet(r.net)
		if err != nil {
			continue
		}
		if first[net.String()] == nil {
			first[net.String()] = r
		} else if !warned[net.String()] {
			warned[net.String()] = true
			*found = append(*found, &Problem{
				File: r.file, Line: r.line, Warning: true,
				Text:   fmt.Sprintf("several rules are for %s: in YAML only the first that matches applies, in the module parameter all do", net),
				Remedy: "'lnetdctl import --modprobe' applies all of them",
			})
		}
	}
}

var kinds = map[string]Kind{"ip2nets": IP2Nets, "routes": Routes, "networks": Networks}

// options adds the options of lnet and its drivers.
func (c *conversion) options(all []option) {
	for _, o := range all {
		kind, isString := kinds[o.name]
		if o.module != "lnet" || !isString {
			c.others = append(c.others, o)
			continue
		}
		if before := c.given[o.name]; before > 0 && before != o.line {
			c.bad.warn(o.line, "", "options lnet: %s is also in line %d: both are converted; kernels use the last one", o.name, before)
		}
		c.given[o.name] = o.line
		c.value(kind, o.value, o.line)
	}
}

// mixed reads a text of kind Mixed. A line is a command "options MODULE NAME=VALUE ...", a list of
// NAME=VALUE for the module lnet, or entries of networks, ip2nets or routes.
func (c *conversion) mixed(data []byte) {
	for line, text := range logicalLines(data) {
		text = strings.Trim(text, blanks)
		command, _ := cutWord(text)
		name, _, assigned := strings.Cut(strings.TrimLeft(text, `'"`), "=")
		switch {
		case command == "options":
			c.options(optionsOf(text, line, c.bad))
		case assigned && strings.Trim(name, letters) == "":
			all, err := assignments(text)
			if err != nil {
				c.bad.add(line, "%v", err)
			}
			for k := range all {
				all[k].module, all[k].line = "lnet", line
			}
			c.options(all)
		default:
			for _, entry := range entries(text, line) {
				c.value(kindOf(entry), entry, line)
			}
		}
	}
}

// letters are the characters of parameter names.
const letters = "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789_-"

// kindOf returns the kind of an entry by its form. Routes contain a NID or braces. Rules of
// ip2nets have more than one word.
func kindOf(entry string) Kind {
	switch fields := strings.Fields(entry); {
	case strings.ContainsAny(entry, "@{"):
		return Routes
	case len(fields) > 1:
		return IP2Nets
	}
	return Networks
}

// value reads a string of the given kind, which begins on the given line.
func (c *conversion) value(kind Kind, s string, line int) {
	for line, entry := range entries(s, line) {
		switch kind {
		case IP2Nets:
			c.rules = append(c.rules, readRules(entry, line, c.bad)...)
		case Routes:
			r, err := readRoute(entry)
			if err != nil {
				c.bad.add(line, "%v", err)
			}
			c.routes = append(c.routes, r)
		default:
			specs, err := readNetSpecs(entry)
			if err != nil {
				c.bad.add(line, "Invalid network specification '%s': %v", entry, err)
			}
			c.nets = append(c.nets, specs...)
		}
	}
}
