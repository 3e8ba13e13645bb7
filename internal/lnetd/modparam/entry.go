package modparam

import (
	"iter"
	"strings"

	"github.com/lnetd/lnetd/lnet"
)

// entries yields the parts of text between semicolons and line ends, with their line numbers. It skips
// comments and empty parts. The text begins on line first.
func entries(text string, first int) iter.Seq2[int, string] {
	return func(yield func(int, string) bool) {
		for k, line := range strings.Split(text, "\n") {
			for entry := range strings.SplitSeq(line, ";") {
				entry, _, _ = strings.Cut(entry, "#")
				entry = strings.Trim(entry, blanks)
				if entry != "" && !yield(first+k, entry) {
					return
				}
			}
		}
	}
}

// A netSpec is a net with its interfaces, as in "tcp0(eth0,eth1[2])[3]". The parts of the text are unchanged.
type netSpec struct {
	net        string
	interfaces []string
	cpts       string // the CPU partitions in brackets, or empty
}

// readNetSpecs parses a list of nets. It omits the net lo.
func readNetSpecs(s string) ([]netSpec, error) {
	if _, err := lnet.ParseNetworks(s); err != nil {
		return nil, because(err)
	}
	var all []netSpec
	for _, text := range splitOutside(s) {
		text = strings.Trim(text, blanks)
		end := strings.IndexAny(text, "([")
		if end < 0 {
			end = len(text)
		}
		spec := netSpec{net: strings.Trim(text[:end], blanks)}
		rest := text[end:]
		if strings.HasPrefix(rest, "(") {
			list, after, _ := strings.Cut(rest[1:], ")")
			for _, name := range splitOutside(list) {
				spec.interfaces = append(spec.interfaces, strings.Trim(name, blanks))
			}
			rest = after
		}
		spec.cpts = strings.Trim(rest, blanks)
		if net, err := lnet.ParseNet(spec.net); err == nil && net != lnet.LoNet {
			all = append(all, spec)
		}
	}
	return all, nil
}

// splitOutside splits s at the commas that are not within brackets.
func splitOutside(s string) []string {
	var parts []string
	depth, start := 0, 0
	for i := range len(s) {
		switch s[i] {
		case '(', '[':
			depth++
		case ')', ']':
			depth--
		case ',':
			if depth == 0 {
				parts, start = append(parts, s[start:i]), i+1
			}
		}
	}
	return append(parts, s[start:])
}

// A rule is one net of an ip2nets entry, with the patterns of that entry.
type rule struct {
	netSpec
	patterns []string
	file     string
	line     int
}

// readRules returns the rules of an ip2nets entry, one for each net. It adds problems to bad.
func readRules(entry string, line int, bad *findings) []rule {
	fields := strings.Fields(entry)
	specs, err := readNetSpecs(fields[0])
	switch {
	case err != nil:
		bad.add(line, "Invalid network specification '%s': %v", fields[0], err)
		return nil
	case len(fields) == 1:
		bad.add(line, "invalid ip2nets rule '%s': the IP pattern, such as 10.0.0.*, is missing after the net", entry)
		return nil
	}
	for _, pattern := range fields[1:] {
		if _, err := lnet.ParseIPPattern(pattern); err != nil {
			bad.add(line, "invalid ip2nets rule '%s': IP pattern '%s': %v, such as 10.0.[1-3].*", entry, pattern, because(err))
			return nil
		}
	}
	var rules []rule
	for _, spec := range specs {
		rules = append(rules, rule{spec, fields[1:], bad.file, line})
	}
	return rules
}
