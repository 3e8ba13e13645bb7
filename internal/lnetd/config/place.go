package config

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"iter"
	"slices"
	"strconv"
	"strings"

	"go.yaml.in/yaml/v3"

	"github.com/lnetd/lnetd/internal/lnetd/control/api"
	"github.com/lnetd/lnetd/internal/lnetd/spelling"
	"github.com/lnetd/lnetd/lnet"
)

// place is a value in a file, with its position and the path of keys that leads to it. Methods such as
// number and nids return the value as a certain type. If the value is not of that type, they report a
// problem and return false or nil.
type place struct {
	file *reading
	path string
	node *yaml.Node
}

// reading is the state of reading one file. It collects the problems and warnings.
type reading struct {
	ctx           context.Context // reading stops when it is done
	name          string          // the name of the file in messages
	drivers       []DriverOptions
	top           *shape // form of a document; nil until it is needed
	problems      Problems
	warnings      Problems
	wholeMax      int                      // documents that are longer are cut into pieces (longlist.go); for tests
	pieceSize     int                      // pieceSize, or another value in tests
	lists         map[*yaml.Node]*longList // lists that were cut out of the document, by the value of their key
	failed        *Problem                 // why a piece of a list cannot be decoded, or nil
	routes        map[routeKey]bool        // routes in the file
	seen          map[string]bool          // paths of all values that were read, for a test of the reference document; otherwise nil
	warnedKeys    map[string]bool          // unknown keys for which there is a warning
	mappingsByKey map[string][]string      // names of the mappings that have a key
	suggestions   map[*yaml.Node][]string  // for each mapping, the keys that its misspelled keys probably mean
}

// child returns the place of a value within p that has the given path. If n is a YAML alias, the place
// has the value that it refers to.
func (p place) child(path string, n *yaml.Node) place {
	if n.Kind == yaml.AliasNode {
		n = n.Alias
	}
	return place{file: p.file, path: path, node: n}
}

// key returns the last key of the value's path, without indices.
func (p place) key() string {
	path := p.path
	for strings.HasSuffix(path, "]") {
		path = path[:max(strings.LastIndexByte(path, '['), 0)]
	}
	return path[strings.LastIndexByte(path, '.')+1:]
}

// describe returns a description of the value for messages, such as "a list".
func (p place) describe() string {
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

// empty reports whether the value is absent or null, as after a key with nothing behind the colon.
func (p place) empty() bool {
	return p.node.Kind == yaml.ScalarNode && p.node.Tag == "!!null" || p.node.Kind == 0
}

// isEmpty reports whether the value is absent, null, or a list or mapping without items.
func (p place) isEmpty() bool {
	return p.empty() || p.node.Kind != yaml.ScalarNode && len(p.node.Content) == 0
}

// member is a key of a mapping with its value. Both have a place in the file.
type member struct {
	key   string
	at    place
	value place
}

// reportRepeated reports that m sets the same thing as the member before, whose key is spelled in
// another way.
func (m member) reportRepeated(before member) {
	m.at.problemf("occurs twice: as '%[2]s' in line %[1]d, and as '%[4]s' in line %[3]d",
		before.at.node.Line, before.at.path, m.at.node.Line, m.at.path).remedyf("remove one of them")
}

// uncheckedMembers returns an iterator over the members of a mapping in order. It reports no problems.
func (p place) uncheckedMembers() iter.Seq[member] {
	return func(yield func(member) bool) {
		for i := 0; i+1 < len(p.node.Content); i += 2 {
			k, v := p.node.Content[i], p.node.Content[i+1]
			path := truncate(k.Value, keyMax)
			if p.path != "" {
				path = p.path + "." + path
			}
			if !yield(member{key: k.Value, at: p.child(path, k), value: p.child(path, v)}) {
				return
			}
		}
	}
}

// members returns the members of a mapping in order. It reports a problem if the value is not a mapping,
// or if a key occurs twice and twice is not set.
func (p place) members(twice bool) []member {
	if p.file.ctx.Err() != nil { // reading ends, so the result is not used
		return nil
	}
	if p.node.Kind != yaml.MappingNode {
		w := p.problemf("%s was found, but keys were expected", p.describe())
		switch {
		case p.node.Kind == yaml.SequenceNode:
			w.remedyf("write the keys without '- ' before them")
		case p.path == "" && strings.HasPrefix(p.node.Value, "options "):
			w.remedyf("these are module parameters: load them with lnetdctl import --modprobe, or convert them with lnetdctl legacy2yaml")
		case !p.empty():
			w.remedyf("write 'key: value', with a space after the colon")
		default:
			w.remedyf("write 'key: value' lines, or remove it")
		}
		return nil
	}
	out := make([]member, 0, len(p.node.Content)/2)
	seen := map[string]bool{}
	for m := range p.uncheckedMembers() {
		switch {
		case m.at.node.Kind != yaml.ScalarNode:
			m.at.problemf("the key is not a word").remedyf("write 'key: value', and put quotes around a value with brackets")
			continue
		case seen[m.key] && !twice:
			m.at.problemf("occurs twice").remedyf("remove one of them")
			continue
		}
		seen[m.key] = true
		if p.file.seen != nil {
			p.file.seen[m.value.path] = true
		}
		out = append(out, m)
	}
	return out
}

// items returns the items of a list. It reports a problem if the value is not a list.
func (p place) items() []place {
	if p.file.ctx.Err() != nil {
		return nil
	}
	if p.node.Kind != yaml.SequenceNode {
		p.problemf("%s was found, but a list was expected", p.describe()).remedyf("start each item with '- '")
		return nil
	}
	out := make([]place, len(p.node.Content))
	for i, n := range p.node.Content {
		out[i] = p.child(fmt.Sprintf("%s[%d]", p.path, i), n)
	}
	return out
}

// member returns the value of the given key of a mapping, or false if the mapping does not have the key.
// It reports a problem if the value is not a mapping.
func (p place) member(key string) (place, bool) {
	for _, m := range p.members(false) {
		if m.key == key {
			return m.value, true
		}
	}
	return place{}, false
}

// values returns the items of a list, or those of a mapping whose keys are numbers. It reports a problem
// if the value is a single one.
func (p place) values() []place {
	if p.node.Kind == yaml.SequenceNode {
		return p.items()
	}
	if p.node.Kind == yaml.ScalarNode && !p.empty() {
		p.problemf("%s was found, but a list was expected", p.describe()).remedyf(`write "%s: {0: %s}"`, p.key(), p.node.Value)
		return nil
	}
	return p.numbers()
}

// numbers returns the values of those members of a mapping whose keys are numbers.
func (p place) numbers() (out []place) {
	for _, m := range p.optionalMembers() {
		if isIndex(m.key) { // others are reported when keys are checked
			out = append(out, m.value)
		}
	}
	return out
}

// named returns the value of the given key if p is a mapping that has the key, and otherwise p itself
// (lnetctl 11).
func (p place) named(key string) place {
	if p.node.Kind == yaml.MappingNode {
		if at, ok := p.member(key); ok {
			return at
		}
	}
	return p
}

// hasMisspelled reports whether a misspelled key was reported in the mapping that probably means one of
// keys.
func (p place) hasMisspelled(keys ...string) bool {
	return slices.ContainsFunc(p.file.suggestions[p.node], func(key string) bool { return slices.Contains(keys, key) })
}

// missing reports that the mapping lacks a key, whose values are of the given kind. It does nothing if a
// misspelling of the key has been reported.
func (p place) missing(key string, kind Kind) {
	if p.node.Kind == yaml.MappingNode && !p.hasMisspelled(key) { // otherwise it is reported already
		p.problemf("the key %q is missing", key).remedy(remedyOf(kind, key))
	}
}

// reportInvalid reports that the value is not of the given kind, for the reason err.
func (p place) reportInvalid(err error, kind Kind) {
	remedy := remedyOf(kind, p.key())
	for outer, inner := (*lnet.FieldError)(nil), (*lnet.FieldError)(nil); errors.As(err, &outer) && errors.As(outer.Err, &inner); {
		err = inner // it names the part of the value that is wrong
	}
	if words, ok := kind.(Words); ok {
		if like := spelling.Nearest(p.node.Value, words); like != "" {
			remedy = spelling.DidYouMean(like)
		}
	}
	p.problemf("%v", err).remedy(cmp.Or(spelling.MeantNetType(err), remedy))
}

// scalar reports whether the value is a single value, and not null. Otherwise it reports a problem that
// says what kind of value was expected.
func (p place) scalar(kind Kind) bool {
	switch {
	case p.empty() && p.key() != "":
		p.problemf("no value specified for key '%s'", p.key()).remedy(remedyOf(kind, p.key()))
		return false
	case p.node.Kind != yaml.ScalarNode || p.empty():
		p.problemf("%s was found, but %s was expected", p.describe(), kind.expected()).remedy(remedyOf(kind, p.key()))
		return false
	}
	return true
}

// text returns the value as text. It returns false if it has reported a problem.
func (p place) text() (string, bool) { return p.textOf(Text{What: "a word"}) }

// textOf returns the value as text. The kind describes the text in messages. It returns false if it has
// reported a problem.
func (p place) textOf(kind Text) (string, bool) {
	if !p.scalar(kind) {
		return "", false
	}
	return p.node.Value, true
}

// word returns the index of the value in words. It returns false if it has reported a problem.
func (p place) word(words Words) (int, bool) {
	s, ok := p.text()
	if !ok {
		return 0, false
	}
	if _, err := words.read(s); err != nil {
		p.reportInvalid(err, words)
		return 0, false
	}
	return slices.Index(words, s), true
}

// number returns the value as a whole number, which must be from lo to hi and may be in quotes. It
// returns false if it has reported a problem.
func (p place) number(lo, hi int) (int, bool) {
	kind := Whole{lo, hi}
	if !p.scalar(kind) {
		return 0, false
	}
	n, err := parseWhole(p.node.Value)
	if err == nil {
		_, err = kind.read(p.node.Value)
	}
	if err != nil {
		p.reportInvalid(err, kind)
	}
	return n, err == nil
}

// in returns the value as a whole number, which must be in the range r. It returns false if it has
// reported a problem.
func (p place) in(r api.Range) (int, bool) { return p.number(int(r.Min), int(r.Max)) }

// priority returns the value as a priority, a number of at least 0. It returns false if it has reported
// a problem.
func (p place) priority() (uint32, bool) {
	n, ok := p.in(api.PriorityRange)
	return uint32(n), ok
}

// boolean returns the value as a boolean, which may have any of YAML's spellings. The second result is
// false if it has reported a problem.
func (p place) boolean() (bool, bool) {
	if !p.scalar(Boolean{}) {
		return false, false
	}
	b, err := parseBool(p.node.Value)
	if err != nil {
		p.reportInvalid(err, Boolean{})
	}
	return b, err == nil
}

// net returns the value as a net. It returns false if it has reported a problem.
func (p place) net() (lnet.Net, bool) {
	s, ok := p.textOf(netText)
	if !ok {
		return 0, false
	}
	n, err := lnet.ParseNet(s)
	if err != nil {
		p.reportInvalid(err, netText)
		return 0, false
	}
	return n, true
}

// nets returns the nets that the value stands for. It is one net, or several nets with a range in
// brackets. More than limit nets are a problem. It returns false if it has reported a problem.
func (p place) nets(limit int) ([]lnet.Net, bool) {
	if s, ok := p.textOf(netText); !ok || !strings.Contains(s, "[") {
		n, ok := p.net()
		return []lnet.Net{n}, ok
	}
	nets, err := lnet.ExpandNets(p.node.Value, limit)
	if err != nil {
		p.reportInvalid(err, netText)
	}
	return nets, err == nil
}

// nids returns the NIDs that the value stands for. It is one NID, or several NIDs with ranges (lnetctl
// 12.2). More than limit NIDs are a problem. It returns false if it has reported a problem.
func (p place) nids(limit int) ([]lnet.NID, bool) {
	s, ok := p.textOf(nidText)
	if !ok {
		return nil, false
	}
	nids, err := lnet.ExpandNIDs(s, limit)
	if err == nil && len(nids) == 0 {
		err = fmt.Errorf("%q contains no NID", s)
	}
	if err != nil {
		p.reportInvalid(err, nidText)
	}
	return nids, err == nil
}

// pattern returns the value as a pattern of a selection rule. It returns false if it has reported a
// problem.
func (p place) pattern() (lnet.Pattern, bool) {
	s, ok := p.textOf(patternText)
	if !ok {
		return lnet.Pattern{}, false
	}
	d, err := lnet.ParsePattern(s)
	if err != nil {
		p.reportInvalid(fmt.Errorf("%q: %w", s, err), patternText)
	}
	return d, err == nil
}

// position returns the value's position in the file for messages: "name:line: key".
func (p place) position() string {
	return fmt.Sprintf("%s:%d: %s", p.file.name, p.node.Line, p.path)
}

// optionalMember returns the value of a key, or false if the mapping does not have the key. Unlike
// member, it reports no problems.
func (p place) optionalMember(key string) (place, bool) {
	for i := 0; i+1 < len(p.node.Content); i += 2 {
		if p.node.Content[i].Value == key {
			return p.child(p.path+"."+key, p.node.Content[i+1]), true
		}
	}
	return place{}, false
}
