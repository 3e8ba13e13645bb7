package modparam

import (
	"errors"
	"fmt"
	"slices"
	"strings"

	"github.com/lnetd/lnetd/lnet"
)

// ErrNoData means that the texts contain no nets, rules, routes or settings to convert.
var ErrNoData = errors.New("no ip2nets, routes, or networks data")

// Kind is the syntax of a text.
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
	// Mixed is a text whose lines may be any of these: "options lnet ...", NAME=VALUE, and entries of
	// IP2Nets, Routes or Networks, which are distinguished by their form.
	Mixed
)

// A Text is one input of Convert.
type Text struct {
	// Name is the name of the text in messages.
	Name string
	Kind Kind
	Data []byte
}

// A conversion holds what Convert has read so far.
type conversion struct {
	nets   []netSpec
	rules  []rule
	routes []route
	others []option       // options of the current text other than ip2nets, routes and networks
	given  map[string]int // the line of each of these three in the current text
	bad    *findings
}

// Convert converts texts to a YAML document, as lnet_legacy2yaml does (lnetctl 14.5). The entries of the
// sections net, ip2nets and route are in the order of the texts, with their patterns and ranges unchanged.
// Routes without a number of hops get defaultHop, or no number if it is 0. After these sections follow
// settings of other parameters, which lnet_legacy2yaml omits.
//
// The error is ErrNoData, or a Problems with the errors and the warnings.
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

// replaced returns the settings in old and more, without those in old that more sets again.
func replaced(old, more []setting) []setting {
	old = slices.DeleteFunc(old, func(o setting) bool {
		return slices.ContainsFunc(more, func(m setting) bool { return m.section == o.section && m.key == o.key })
	})
	return append(old, more...)
}

// warnOfRules adds a warning to found for each net with several rules. The document means something else for
// such a net: in YAML only the first rule that matches applies, while a kernel applies all that match.
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

// options adds the given options to c. It converts the strings ip2nets, routes and networks, and stores all
// other options in c.others.
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

// mixed adds a text of kind Mixed to c. A line is a command "options MODULE NAME=VALUE ...", a list of
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

// letters holds the characters of which names of parameters consist.
const letters = "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789_-"

// kindOf returns the kind of an entry, which it recognizes by the form: routes contain a NID or braces, and
// rules of ip2nets consist of more than one word.
func kindOf(entry string) Kind {
	switch fields := strings.Fields(entry); {
	case strings.ContainsAny(entry, "@{"):
		return Routes
	case len(fields) > 1:
		return IP2Nets
	}
	return Networks
}

// value adds the entries of s to c. The string s is of the given kind and begins on the given line.
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
