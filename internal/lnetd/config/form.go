package config

import (
	"fmt"
	"maps"
	"slices"
	"strconv"
	"strings"

	"go.yaml.in/yaml/v3"

	"github.com/lnetd/lnetd/internal/lnetd/spelling"
)

// form describes what a key accepts as its value. Forms serve to find unknown keys and to make the JSON
// Schema. The values themselves are validated by the code that reads them.
type form interface {
	// check reports the unknown keys in the value at. The forms of the mappings around the value are
	// in up, outermost first. If the value is of another kind than the form, check does nothing,
	// because the code that reads the value reports this.
	check(at place, up []*shape)
	// schema returns the JSON Schema of the value. The path consists of the keys that lead to it.
	schema(s *schemaBuilder, path string) schema
}

// shape is the form of a mapping.
type shape struct {
	// key is the key of the mapping in messages. It is empty for the document itself.
	key  string
	keys map[string]form // the forms of the members
	// stateKeys holds keys that describe state in exports. They are permitted, and their values are
	// ignored.
	stateKeys []string
	// needed holds lists of alternative keys. At least one key of each list must be present.
	needed [][]string
	// remedies holds what to tell the operator about certain keys that do not belong here.
	remedies map[string]string
	// numbers, if not empty, is a key that holds numbered values. If the key has no value, the
	// numbered values may be members of this mapping instead.
	numbers string
	// lnetdOnly marks a mapping that lnetctl does not have. Every unknown key in it is an error.
	lnetdOnly bool
}

// scalar is the form of a single value.
type scalar struct{ kind Kind }

// list is the form of a list, which may be empty.
type list struct{ of form }

// numbered is the form of a list that may also be written as a mapping whose keys are numbers.
type numbered struct{ of form }

// either is the form of a value that may have one of several forms. They differ in their YAML kind.
type either []form

// state is the form of a value that describes state in exports. It accepts any value.
type state struct{}

func (scalar) check(place, []*shape) {}

func (state) check(place, []*shape) {}

func (f list) check(at place, up []*shape) {
	if l := at.file.lists[at.node]; l != nil {
		l.check = func(item place) { f.of.check(item, up) }
		return
	}
	if at.node.Kind == yaml.SequenceNode {
		for _, item := range at.items() {
			f.of.check(item, up)
		}
	}
}

func (f numbered) check(at place, up []*shape) {
	list(f).check(at, up)
	if at.node.Kind != yaml.MappingNode {
		return
	}
	k := 0
	for m := range at.uncheckedMembers() {
		if isIndex(m.key) {
			f.of.check(m.value, up)
		} else {
			m.at.problemf("invalid key '%s'", m.key).remedyf(`number the values, for example "%s: {%d: %s}"`, at.key(), k, m.key)
		}
		k++
	}
}

// isIndex reports whether a key is a number.
func isIndex(key string) bool {
	_, err := strconv.ParseUint(key, 0, 32)
	return err == nil
}

func (f either) check(at place, up []*shape) {
	for _, one := range f {
		one.check(at, up)
	}
}

func (s *shape) check(at place, up []*shape) {
	if at.node.Kind != yaml.MappingNode {
		return
	}
	for m := range at.uncheckedMembers() {
		if f := s.keys[m.key]; f != nil {
			f.check(m.value, append(slices.Clip(up), s))
		} else if !s.isStateKey(m.key) && (s.numbers == "" || !isIndex(m.key)) {
			s.reportUnknown(at, m, up)
		}
	}
}

func (s *shape) isStateKey(key string) bool {
	return slices.Contains(s.stateKeys, key) || slices.Contains(s.stateKeys, "cpt[]") && strings.HasPrefix(key, "cpt[")
}

// reportUnknown reports the unknown key m of the mapping at. It is an error if the key is probably a
// mistake, such as a misspelling. Otherwise the key is ignored with a warning, once for each name,
// because the file may be written for another release.
func (s *shape) reportUnknown(at place, m member, up []*shape) {
	file, name := at.file, s.key+"."+m.key
	if file.warnedKeys[name] || len(file.problems) >= recordedMax {
		return
	}
	if len(file.warnedKeys) >= recordedMax {
		m.at.problemf("more than %d different unknown keys", recordedMax)
		return
	}
	remedy, slip := s.remedy(at, m.key, up)
	if like := spelling.Nearest(m.key, slices.Sorted(maps.Keys(s.keys))); like != "" {
		if file.suggestions == nil {
			file.suggestions = map[*yaml.Node][]string{}
		}
		file.suggestions[at.node] = append(file.suggestions[at.node], like)
	}
	if m.key == "<<" {
		remedy, slip = "merge keys are not supported: write the keys in full", true
	}
	if s.lnetdOnly || s.key == "" || slip {
		m.at.problemf("invalid key '%s'", m.key).remedy(remedy)
		return
	}
	if file.warnedKeys == nil {
		file.warnedKeys = map[string]bool{}
	}
	file.warnedKeys[name] = true
	m.at.warn("Ignoring unrecognized key '%s' for '%s'", m.key, s.key)
}

// remedy returns what to tell the operator about an unknown key, such as the key that was probably
// meant. It reports in slip whether the key is probably a mistake.
func (s *shape) remedy(at place, key string, up []*shape) (_ string, slip bool) {
	if there := s.remedies[key]; there != "" {
		return there, true
	}
	names := slices.Sorted(maps.Keys(s.keys))
	if like := spelling.Nearest(key, names); like != "" {
		return fmt.Sprintf("did you mean '%s'?", like), true
	}
	if strings.HasSuffix(s.key, "tunables") && slices.Contains(allTunables(at.file.drivers), key) {
		return "it is a tunable of other net types", false
	}
	below := s.childrenWith(key)
	if _, global := globalKeys[key]; len(below) > 0 && !global {
		return "it must be below " + alternatives(below), true
	}
	for _, around := range slices.Backward(up) {
		if around.keys[key] == nil {
			continue
		}
		if _, global := globalKeys[key]; global {
			return "it must be below 'global'", true
		} else if around.key == "" {
			return remedyTopLevel, true
		}
		return fmt.Sprintf("it belongs to '%s': give it the same indentation as the keys there", around.key), true
	}
	for _, around := range slices.Backward(up) {
		if beside := around.childrenWith(key); len(beside) > 0 {
			return "it must be below " + alternatives(beside), true
		}
	}
	if homes := at.mappingsWith(key); len(homes) > 0 {
		return "it must be below " + alternatives(homes), true
	}
	if s.key == "" {
		names = slices.DeleteFunc(names, func(name string) bool {
			_, older := globalKeys[name]
			return older
		})
	}
	if len(names) > maxNames {
		return "see the keys with: lnetd --print-reference-config", false
	}
	return "possible keys: " + alternatives(names), false
}

// childrenWith returns those keys of s whose value is a mapping that accepts key.
func (s *shape) childrenWith(key string) (names []string) {
	for _, name := range slices.Sorted(maps.Keys(s.keys)) {
		if in := shapeOf(s.keys[name]); in != nil && in.keys[key] != nil {
			names = append(names, name)
		}
	}
	return names
}

// mappingsWith returns the names of all mappings in a document that accept key. It omits "selftest",
// "transport" and "metrics", because their keys have another meaning in files of other programs.
func (p place) mappingsWith(key string) []string {
	r := p.file
	if r.mappingsByKey == nil {
		r.mappingsByKey = map[string][]string{}
		sections(r.drivers).addMappings(r.mappingsByKey)
	}
	return r.mappingsByKey[key]
}

func (s *shape) addMappings(homes map[string][]string) {
	for _, key := range slices.Sorted(maps.Keys(s.keys)) {
		if s.key != "" && !slices.Contains(homes[key], s.key) {
			homes[key] = append(homes[key], s.key)
		}
		below := shapeOf(s.keys[key])
		if below != nil && !slices.Contains([]string{"selftest", "transport", "metrics"}, key) {
			below.addMappings(homes)
		}
	}
}

// remedyTopLevel tells the operator what to do about a section that is within another one.
const remedyTopLevel = "it must be at the start of a line, without spaces before it"

// maxNames is the maximum number of keys that one message lists.
const maxNames = 24

// shapeOf returns the form of the mapping that a value of form f is or contains as items. It returns nil
// if there is no such mapping.
func shapeOf(f form) *shape {
	switch f := f.(type) {
	case *shape:
		return f
	case uncheckedMapping:
		return f.shape
	case list:
		return shapeOf(f.of)
	case numbered:
		return shapeOf(f.of)
	case either:
		for _, one := range f {
			if s := shapeOf(one); s != nil {
				return s
			}
		}
	}
	return nil
}

// alternatives joins words to a text such as "'a', 'b' or 'c'".
func alternatives(words []string) string {
	quoted := make([]string, len(words))
	for k, w := range words {
		quoted[k] = "'" + w + "'"
	}
	if last := len(quoted) - 1; last > 0 {
		return strings.Join(quoted[:last], ", ") + " or " + quoted[last]
	}
	return strings.Join(quoted, "")
}
