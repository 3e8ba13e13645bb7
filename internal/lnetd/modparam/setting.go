package modparam

import (
	"fmt"
	"maps"
	"slices"
	"strings"

	"github.com/lnetd/lnetd/internal/lnetd/spelling"
)

// A setting is what an option becomes in a document: a key with a value in one of sections. The field line is
// the line of the option.
type setting struct {
	section, key, value string
	line                int
}

// settingsOf returns the settings for the given options, in the order in which the parameters first occur. If
// a parameter occurs several times, the last option counts. Options that are invalid or have no effect are
// left out and reported to bad.
func settingsOf(options []option, bad *findings) []setting {
	last := map[[2]string]option{}
	var order [][2]string
	for _, o := range options {
		if !isKnown(&o, bad) {
			continue
		}
		at := [2]string{o.module, o.name}
		if before, twice := last[at]; twice {
			bad.warn(o.line, "", "options %s: %s is also in line %d: the last one applies, as in kernels", o.module, o.name, before.line)
		} else {
			order = append(order, at)
		}
		last[at] = o
	}
	var all []setting
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
			bad.add(o.line, "options %s: %s: %v", o.module, o.name, err)
			continue
		}
		all = append(all, setting{p.section, p.key, value, o.line})
	}
	return all
}

// isKnown reports whether lnetd has the parameter that an option sets. If it does not, isKnown adds an error to
// bad if the name is probably a mistake, and otherwise a warning. It adds nothing for modules that are not
// related to LNet.
func isKnown(o *option, bad *findings) bool {
	known, has := modules[o.module]
	if !has {
		foreign(o, bad)
		return false
	}
	if _, ok := known[o.name]; ok {
		return true
	}
	holders := slices.DeleteFunc(slices.Sorted(maps.Keys(modules)), func(module string) bool {
		_, has := modules[module][o.name]
		return !has
	})
	like := spelling.Nearest(o.name, slices.Sorted(maps.Keys(known)))
	switch {
	case slices.Contains(useless[o.module], o.name):
		bad.warn(o.line, "", "options %s: ignoring %s, which lnetd does not use", o.module, o.name)
	case len(holders) > 0:
		bad.addRemedied(o.line, fmt.Sprintf("it belongs to %s: write 'options %s %s=...'", strings.Join(holders, " and "), holders[0], o.name),
			"options %s: unknown parameter '%s'", o.module, o.name)
	case like != "":
		bad.addRemedied(o.line, fmt.Sprintf("did you mean '%s'?", like), "options %s: unknown parameter '%s'", o.module, o.name)
	default:
		bad.warn(o.line, "", "options %s: ignoring the unknown parameter '%s'", o.module, o.name)
	}
	return false
}

// foreign handles an option of a module that lnetd does not have. It adds a warning to bad if the module belongs
// to Lustre, and an error if the module's name is probably misspelled.
func foreign(o *option, bad *findings) {
	names := slices.Concat(slices.Collect(maps.Keys(modules)), slices.Collect(maps.Keys(lustre)))
	slices.Sort(names)
	if remedy, ok := lustre[o.module]; ok {
		bad.warn(o.line, remedy, "options %s: lnetd has no %s; ignoring %s", o.module, o.module, o.name)
	} else if like := spelling.Nearest(o.module, names); like != "" {
		bad.addRemedied(o.line, fmt.Sprintf("did you mean '%s'?", like), "options %s: unknown module '%s'", o.module, o.module)
	}
}

// bySection returns settings as a YAML document that has each section once.
func bySection(all []setting) []byte {
	var b []byte
	inLnetd := false
	for _, section := range sections {
		_, below, isBelow := strings.Cut(section, "/")
		indent, begun := "    ", false
		if isBelow {
			indent = "        "
		}
		for _, s := range all {
			if s.section != section {
				continue
			}
			switch {
			case begun:
			case !isBelow:
				b = fmt.Appendf(b, "%s:\n", section)
				inLnetd = section == "lnetd"
			case !inLnetd:
				b = fmt.Appendf(b, "lnetd:\n    %s:\n", below)
				inLnetd = true
			default:
				b = fmt.Appendf(b, "    %s:\n", below)
			}
			begun = true
			b = fmt.Appendf(b, "%s%s: %s\n", indent, s.key, s.value)
		}
	}
	return b
}

// byLine returns settings as YAML in which each setting is on the line of its option, so that line numbers in
// messages about the YAML are also right for the modprobe file. Each line is a separate YAML document. All
// settings of "buffers" are on the line of the first one, because a later section "buffers" would replace an
// earlier one.
func byLine(all []setting) []byte {
	all = slices.Clone(all)
	first := 0
	for k := range all {
		if s := &all[k]; s.section == "buffers" {
			if first == 0 {
				first = s.line
			}
			s.line = first
		}
	}
	all = slices.SortedStableFunc(slices.Values(all), func(a, b setting) int { return a.line - b.line })
	var b []byte
	for line := 1; len(all) > 0; line++ {
		n := slices.IndexFunc(all, func(s setting) bool { return s.line != line })
		if n < 0 {
			n = len(all)
		}
		if n > 0 {
			b = append(b, "--- {"+flow(all[:n])+"}"...)
			all = all[n:]
		}
		b = append(b, '\n')
	}
	return b
}

// flow returns settings as the members of a YAML mapping on one line.
func flow(all []setting) string {
	var top []string
	for _, section := range sections {
		var members []string
		for _, s := range all {
			if s.section == section {
				members = append(members, s.key+": "+s.value)
			}
		}
		if len(members) == 0 {
			continue
		}
		text := "{" + strings.Join(members, ", ") + "}"
		name, below, isBelow := strings.Cut(section, "/")
		if isBelow {
			text = "{" + below + ": " + text + "}"
		}
		top = append(top, name+": "+text)
	}
	return strings.Join(top, ", ")
}

// Option returns the option from which Configuration makes the value at a path of keys, in the form "options
// MODULE NAME". It returns "" if there is no such option. Messages about the document can name the option then.
func Option(path string) string {
	return optionNames[path]
}

// optionNames maps the paths of keys in documents to the options that set them.
var optionNames = func() map[string]string {
	all := map[string]string{}
	for module, parameters := range modules {
		for name, p := range parameters {
			all[strings.ReplaceAll(p.section, "/", ".")+"."+p.key] = "options " + module + " " + name
		}
	}
	return all
}()
