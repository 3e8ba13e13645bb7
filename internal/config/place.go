package config

import (
	"fmt"
	"math"
	"strconv"
	"strings"

	"go.yaml.in/yaml/v3"

	"github.com/lnetd/lnetd/lnet"
)

// place is a value in a file: where it stands and what it is called. Its
// methods read the value as one kind of thing or note a problem.
type place struct {
	file *reading
	path string
	node *yaml.Node
}

// reading is one file under way.
type reading struct {
	name     string
	drivers  []DriverOptions
	problems []*problem
	warnings []*problem
	seen     map[string]bool // paths without indices, for the reference's test
}

// problem is one thing wrong in a file.
type problem struct {
	file string
	line int
	path string
	text string
}

func (p *problem) Error() string {
	var b strings.Builder
	b.WriteString(p.file)
	if p.line > 0 {
		fmt.Fprintf(&b, ":%d", p.line)
	}
	if p.path != "" {
		b.WriteString(": " + p.path)
	}
	return b.String() + ": " + p.text
}

// wrong notes a problem with the value.
func (p place) wrong(format string, args ...any) {
	p.file.problems = append(p.file.problems, p.problem(fmt.Sprintf(format, args...)))
}

// warn notes something about the value that the operator should know.
func (p place) warn(format string, args ...any) {
	p.file.warnings = append(p.file.warnings, p.problem(fmt.Sprintf(format, args...)))
}

func (p place) problem(text string) *problem {
	return &problem{file: p.file.name, line: p.node.Line, path: p.path, text: text}
}

func (p place) below(path string, n *yaml.Node) place {
	if n.Kind == yaml.AliasNode {
		n = n.Alias
	}
	return place{file: p.file, path: path, node: n}
}

// what describes the value for a message.
func (p place) what() string {
	switch p.node.Kind {
	case yaml.MappingNode:
		return "a mapping"
	case yaml.SequenceNode:
		return "a list"
	}
	if p.empty() {
		return "no value"
	}
	return strconv.Quote(p.node.Value)
}

// empty tells that a key has no value.
func (p place) empty() bool {
	return p.node.Kind == yaml.ScalarNode && p.node.Tag == "!!null" || p.node.Kind == 0
}

// member is one key of a mapping with its value.
type member struct {
	key   string
	value place
}

// members returns a mapping's members in order. A key that stands twice is a
// problem unless twice is set.
func (p place) members(twice bool) []member {
	if p.node.Kind != yaml.MappingNode {
		p.wrong("%s where keys were expected", p.what())
		return nil
	}
	var out []member
	seen := map[string]bool{}
	for i := 0; i+1 < len(p.node.Content); i += 2 {
		k, v := p.node.Content[i], p.node.Content[i+1]
		if k.Kind != yaml.ScalarNode {
			p.below(p.path, k).wrong("a key that is not a word")
			continue
		}
		path := k.Value
		if p.path != "" {
			path = p.path + "." + k.Value
		}
		at := p.below(path, v)
		if seen[k.Value] && !twice {
			p.below(path, k).wrong("stands twice")
			continue
		}
		seen[k.Value] = true
		p.file.seen[path] = true
		out = append(out, member{key: k.Value, value: at})
	}
	return out
}

// items returns a list's items.
func (p place) items() []place {
	if p.node.Kind != yaml.SequenceNode {
		p.wrong("%s where a list was expected", p.what())
		return nil
	}
	out := make([]place, len(p.node.Content))
	for i, n := range p.node.Content {
		out[i] = p.below(fmt.Sprintf("%s[%d]", p.path, i), n)
	}
	return out
}

// member returns the value of one key of a mapping; other keys are passed over.
func (p place) member(key string) (place, bool) {
	for _, m := range p.members(false) {
		if m.key == key {
			return m.value, true
		}
	}
	return place{}, false
}

// values returns the items of a list, or the values of a mapping whose keys only
// number them.
func (p place) values() []place {
	if p.node.Kind == yaml.SequenceNode {
		return p.items()
	}
	var out []place
	for _, m := range p.optionalMembers() {
		out = append(out, m.value)
	}
	return out
}

// named returns the value itself or, if it is a mapping, that of its one key that
// counts (lnetctl 11).
func (p place) named(key string) place {
	if p.node.Kind == yaml.MappingNode {
		if at, ok := p.member(key); ok {
			return at
		}
	}
	return p
}

// missing notes that a mapping lacks a key.
func (p place) missing(key string) {
	if p.node.Kind == yaml.MappingNode { // else that is noted
		p.wrong("the key %q is missing", key)
	}
}

// scalar tells whether the value is a single one, which is noted if not.
func (p place) scalar(expected string) bool {
	if p.node.Kind != yaml.ScalarNode || p.empty() {
		p.wrong("%s where %s was expected", p.what(), expected)
		return false
	}
	return true
}

// text reads a word.
func (p place) text() (string, bool) {
	if !p.scalar("a word") {
		return "", false
	}
	return p.node.Value, true
}

// number reads a whole number from lo to hi. Quotes around it do not matter.
func (p place) number(lo, hi int) (int, bool) {
	n, ok := p.anyNumber()
	if !ok {
		return 0, false
	}
	if n < lo || n > hi {
		p.wrong("%d is not in %d to %d", n, lo, hi)
		return 0, false
	}
	return n, true
}

func (p place) anyNumber() (int, bool) {
	if !p.scalar("a number") {
		return 0, false
	}
	n, err := parseWhole(p.node.Value)
	if err != nil {
		p.wrong("%v", err)
	}
	return n, err == nil
}

// priority reads a whole number from 0 that is shown as such.
func (p place) priority() (uint32, bool) {
	n, ok := p.number(0, math.MaxInt32)
	return uint32(n), ok
}

// truth reads a boolean in any of YAML's spellings.
func (p place) truth() (bool, bool) {
	s, ok := p.text()
	if !ok {
		return false, false
	}
	b, err := parseTruth(s)
	if err != nil {
		p.wrong("%v", err)
	}
	return b, err == nil
}

// net reads the name of a net.
func (p place) net() (lnet.Net, bool) {
	s, ok := p.text()
	if !ok {
		return 0, false
	}
	n, err := lnet.ParseNet(s)
	if err != nil {
		p.wrong("%v", err)
		return 0, false
	}
	return n, true
}

// nids reads a NID, or several with the ranges of lnetctl 12.2; at most limit.
func (p place) nids(limit int) ([]lnet.NID, bool) {
	s, ok := p.text()
	if !ok {
		return nil, false
	}
	nids, err := lnet.ExpandNIDs(s, limit)
	switch {
	case err != nil:
		p.wrong("%v", err)
	case len(nids) == 0:
		p.wrong("%q names no NID", s)
	default:
		return nids, true
	}
	return nil, false
}

// pattern reads the pattern of a rule.
func (p place) pattern() (lnet.Pattern, bool) {
	s, ok := p.text()
	if !ok {
		return lnet.Pattern{}, false
	}
	d, err := lnet.ParsePattern(s)
	if err != nil {
		p.wrong("%q: %v", s, err)
		return d, false
	}
	return d, true
}

// where is the value's place for an operator: "file:line: key".
func (p place) where() string {
	return fmt.Sprintf("%s:%d: %s", p.file.name, p.node.Line, p.path)
}
