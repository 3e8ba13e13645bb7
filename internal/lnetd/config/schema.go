package config

import (
	"encoding/json"
	"maps"
	"math"
	"slices"
	"strings"

	"go.yaml.in/yaml/v3"
)

// schema is a JSON Schema, or a part of one.
type schema map[string]any

// schemaDialect is the version of JSON Schema.
const schemaDialect = "https://json-schema.org/draft/2020-12/schema"

// indexPattern matches the keys of a mapping that stands for a list: they are numbers.
const indexPattern = "^[0-9]+$"

// schemaBuilder builds a JSON Schema from forms.
type schemaBuilder struct {
	help map[string]string // comments of the reference document, by path of keys
}

// Schema returns a JSON Schema of configuration files, for editors. It describes keys, kinds of
// values and ranges, and rejects unknown keys. Parse makes further checks that a schema cannot
// express.
func Schema(drivers []DriverOptions) []byte {
	s := &schemaBuilder{help: helpOf(Reference(drivers))}
	top := sections(drivers).schema(s, "")
	top["$schema"] = schemaDialect
	top["title"] = "Configuration of lnetd"
	b, err := json.MarshalIndent(top, "", " ")
	if err != nil {
		panic("config: the schema: " + err.Error())
	}
	return append(b, '\n')
}

// helpOf returns the comments in the reference document, by the path of keys that they describe. It also
// returns comments in examples, which are themselves comments in the document.
func helpOf(reference []byte) map[string]string {
	help := map[string]string{}
	var examples strings.Builder
	for line := range strings.Lines(string(reference)) {
		if _, example, ok := strings.Cut(line, "#: "); ok {
			examples.WriteString(example)
		}
	}
	for _, text := range []string{string(reference), examples.String()} {
		var doc yaml.Node
		if err := yaml.Unmarshal([]byte(text), &doc); err != nil {
			panic("config: the reference: " + err.Error())
		}
		commentsOf(&doc, "", help)
	}
	return help
}

func commentsOf(n *yaml.Node, path string, help map[string]string) {
	if n.Kind != yaml.MappingNode {
		for _, item := range n.Content {
			commentsOf(item, path, help)
		}
		return
	}
	for i := 0; i+1 < len(n.Content); i += 2 {
		key, value := n.Content[i], n.Content[i+1]
		below := path + "." + key.Value
		for _, comment := range []string{value.LineComment, key.LineComment, key.HeadComment} {
			if text := plainComment(comment); text != "" && help[below] == "" {
				help[below] = text
			}
		}
		commentsOf(value, below, help)
	}
}

// plainComment returns the first paragraph of a comment, without the comment signs and without the
// example that may follow.
func plainComment(comment string) string {
	var words []string
	for line := range strings.Lines(comment) {
		text := strings.TrimSpace(strings.TrimPrefix(strings.TrimSpace(line), "#"))
		if text == "" || strings.HasPrefix(text, ":") {
			break
		}
		words = append(words, text)
	}
	return strings.TrimSuffix(strings.Join(words, " "), " For example:")
}

func (s *shape) schema(by *schemaBuilder, path string) schema {
	properties := schema{}
	for _, key := range slices.Sorted(maps.Keys(s.keys)) {
		below := path + "." + key
		one := s.keys[key].schema(by, below)
		if help := by.help[below]; help != "" {
			one = maps.Clone(one)
			one["description"] = help
		}
		properties[key] = one
	}
	out := schema{"type": []string{"object", "null"}, "properties": properties, "additionalProperties": false}
	for _, key := range s.stateKeys {
		if key == "cpt[]" {
			out["patternProperties"] = schema{`^cpt\[[0-9]+\]$`: schema{}}
		} else if properties[key] == nil {
			properties[key] = schema{}
		}
	}
	if s.numbers != "" {
		one := maps.Clone(properties[s.numbers].(schema))
		one["type"] = []string{"array", "object", "null"}
		properties[s.numbers], out["patternProperties"] = one, schema{indexPattern: one["items"]}
	}
	var needed []schema
	for _, oneOf := range s.needed {
		var keys []schema
		for _, key := range oneOf {
			keys = append(keys, schema{"required": []string{key}})
		}
		needed = append(needed, schema{"anyOf": keys})
	}
	if needed != nil {
		out["allOf"] = needed
	}
	return out
}

func (f scalar) schema(*schemaBuilder, string) schema { return f.kind.schema() }

func (state) schema(*schemaBuilder, string) schema { return schema{} }

func (f list) schema(s *schemaBuilder, path string) schema {
	return schema{"type": []string{"array", "null"}, "items": f.of.schema(s, path)}
}

func (f numbered) schema(s *schemaBuilder, path string) schema {
	of := f.of.schema(s, path)
	return schema{
		"type": []string{"array", "object"}, "items": of,
		"patternProperties": schema{indexPattern: of}, "additionalProperties": false,
	}
}

func (f either) schema(s *schemaBuilder, path string) schema {
	var forms []schema
	for _, one := range f {
		forms = append(forms, one.schema(s, path))
	}
	return schema{"anyOf": forms}
}

// schema returns a schema that accepts numbers, and also numbers in quotes, whose range a schema cannot
// check.
func (k Whole) schema() schema {
	number := schema{"type": "integer", "minimum": k.Min}
	if k.Max < math.MaxInt32 {
		number["maximum"] = k.Max
	}
	return schema{"anyOf": []schema{number, {"type": "string", "pattern": "^[-+]?(0[xXoObB])?[0-9a-fA-F]+$"}}}
}

func (Within) schema() schema { return Whole{math.MinInt32, math.MaxInt32}.schema() }

func (k Boolean) schema() schema {
	words := []any{true, false, 0, 1}
	for _, w := range []string{"true", "false", "yes", "no", "on", "off", "y", "n", "1", "0"} {
		words = append(words, w)
		if upper := strings.ToUpper(w); upper != w {
			words = append(words, upper, upper[:1]+w[1:])
		}
	}
	if k.Count {
		return schema{"anyOf": []schema{{"enum": slices.CompactFunc(words, func(a, b any) bool { return a == b })}, {"type": "integer", "minimum": 0}}}
	}
	return schema{"enum": slices.CompactFunc(words, func(a, b any) bool { return a == b })}
}

func (k Words) schema() schema { return schema{"enum": []string(k)} }

func (Text) schema() schema { return schema{"type": []string{"string", "number"}} }

func (Shown) schema() schema { return schema{} }
