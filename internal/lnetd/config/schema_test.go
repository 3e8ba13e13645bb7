package config_test

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"math"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"testing"

	"go.yaml.in/yaml/v3"

	"github.com/lnetd/lnetd/internal/lnetd/config"
	"github.com/lnetd/lnetd/internal/lnetd/daemon"
)

// The committed schema is the one for lnetd's drivers.
func TestSchemaIsUpToDate(t *testing.T) {
	path := filepath.Join("..", "..", "..", "docs", "lnetd.schema.json")
	want := config.Schema(daemon.AllDrivers().Options())
	if *update {
		if err := os.WriteFile(path, want, 0o644); err != nil {
			t.Fatal(err)
		}
	}
	if got, err := os.ReadFile(path); err != nil || !bytes.Equal(got, want) {
		t.Errorf("%s is stale (%v): go test ./internal/lnetd/config -update", path, err)
	}
}

// Everything that Parse accepts without a warning is valid: the reference, its examples, those of
// the page, and exports of kernels.
func TestSchemaTakes(t *testing.T) {
	options := daemon.AllDrivers().Options()
	texts := captures(t)
	texts["reference"] = config.Reference(options)
	// Sections occur several times there, once per example.
	texts["examples of the reference"] = regexp.MustCompile(`(?m)^([a-z])`).ReplaceAll(examplesOfReference(), []byte("---\n$1"))
	for k, text := range examplesOfPage(t) {
		texts[fmt.Sprintf("example %d of the page", k)] = text
	}
	for name, text := range texts {
		for _, problem := range validate(t, text) {
			t.Errorf("%s: %s", name, problem)
		}
	}
}

// Misspelled keys and values out of range are invalid.
func TestSchemaRefuses(t *testing.T) {
	for _, text := range []string{
		"nett: []", "net: {net type: tcp}", "net: [{net tpye: tcp}]", "net: [{interfaces: {0: eth0}}]",
		"net: [{net type: tcp, interfaces: {eth0: }}]", "net: [{net type: tcp, interfaces: eth0}]",
		"net: [{net type: tcp, local NI(s): [{tunables: {}}]}]",
		"net: [{net type: tcp, interfaces: [eth0], tunables: {credits: many}}]",
		"net: [{net type: tcp, interfaces: [eth0], lnd tunables: {conns_per_peer: 128}}]",
		"net: [{net type: tcp, interfaces: [eth0], lnd tunables: {conn_per_peer: 12}}]",
		"ip2nets: [{ip-range: {0: 10.0.0.1}}]", "ip2nets: [{net-spec: tcp, local NI(s): []}]",
		"route: [{net: tcp1}]", "route: [{net: tcp1, gateway: 10.0.0.1@tcp, hop: 0}]", "route: [{net: tcp1, gateway: 10.0.0.1@tcp, hop: 256}]",
		"peer: [{peer ni: []}]", "peer: [{primary nid: 10.0.0.1@tcp, Multi-Rail: ture}]", "peer: [{primary nid: 10.0.0.1@tcp, peer ni: {nid: a}}]",
		"udsp: [{src: tcp}]", "udsp: [{idx: -1, src: tcp}]", "selection: [{type: ni, net: tcp, priority: 1}]",
		"global: [{discovery: 1}]", "global: {discovery: onn}", "global: {response_tracking: 4}", "global: {healthsensitivity: 4}",
		"discovery: foo", "numa: {ranges: 1}", "buffers: {tiny: -2}", "routing: {enable: 4}", "routing: yes",
		"lnetd: {port: 0}", "lnetd: {accept: some}", "lnetd: {log_format: xml}", "lnetd: {socklnd: {frob: 1}}", "lnetd: {retry_count: 1}",
		"lnetd: {selftest: {memory: 1}}", "lnetd: {transport: {rules: [{users: [root]}]}}", "lnetd: {transport: {rules: [{name: a, each: {connections: 1}}]}}",
	} {
		if len(validate(t, []byte(text))) == 0 {
			t.Errorf("%s is valid", text)
		}
	}
}

// validate returns what is wrong in a document according to the schema.
func validate(t *testing.T, text []byte) []string {
	t.Helper()
	var schema any
	if err := json.Unmarshal(config.Schema(daemon.AllDrivers().Options()), &schema); err != nil {
		t.Fatal(err)
	}
	v := validator{t: t}
	for d := yaml.NewDecoder(bytes.NewReader(text)); ; {
		var doc any
		if err := d.Decode(&doc); errors.Is(err, io.EOF) {
			return v.problems
		} else if err != nil {
			t.Fatal(err)
		}
		v.value(schema.(map[string]any), doc, "")
	}
}

// validator implements the part of JSON Schema that the schema uses.
type validator struct {
	t        *testing.T
	problems []string
}

func (v *validator) wrong(path, format string, args ...any) {
	v.problems = append(v.problems, path+": "+fmt.Sprintf(format, args...))
}

func (v *validator) value(schema map[string]any, value any, path string) {
	for key, rule := range schema {
		switch key {
		case "$schema", "title", "description", "patternProperties", "additionalProperties":
		case "type":
			if types := listOf(rule); !slices.ContainsFunc(types, func(name any) bool { return isA(name.(string), value) }) {
				v.wrong(path, "%v is not one of %v", value, types)
			}
		case "anyOf":
			if !slices.ContainsFunc(listOf(rule), func(one any) bool { return v.holds(one, value, path) }) {
				v.wrong(path, "%v is not one of %v", value, rule)
			}
		case "allOf":
			for _, one := range listOf(rule) {
				v.value(one.(map[string]any), value, path)
			}
		case "enum":
			if !slices.ContainsFunc(listOf(rule), func(one any) bool { return fmt.Sprint(one) == fmt.Sprint(value) }) {
				v.wrong(path, "%v is not one of %v", value, rule)
			}
		case "minimum", "maximum", "pattern":
			v.scalar(key, rule, value, path)
		case "required":
			for _, name := range listOf(rule) {
				if object, ok := value.(map[string]any); ok && !has(object, name.(string)) {
					v.wrong(path, "%s is missing", name)
				}
			}
		case "items":
			if items, ok := value.([]any); ok {
				for k, item := range items {
					v.value(rule.(map[string]any), item, fmt.Sprintf("%s[%d]", path, k))
				}
			}
		case "properties":
		default:
			v.t.Fatalf("the validator does not know %q", key)
		}
	}
	v.object(schema, value, path)
}

func (v *validator) holds(schema, value any, path string) bool {
	inner := validator{t: v.t}
	inner.value(schema.(map[string]any), value, path)
	return len(inner.problems) == 0
}

func (v *validator) scalar(key string, rule, value any, path string) {
	if s, ok := value.(string); ok && key == "pattern" && !regexp.MustCompile(rule.(string)).MatchString(s) {
		v.wrong(path, "%q is not like %s", s, rule)
	}
	n, ok := value.(int)
	if ok && (key == "minimum" && float64(n) < rule.(float64) || key == "maximum" && float64(n) > rule.(float64)) {
		v.wrong(path, "%d: %s %v", n, key, rule)
	}
}

// object validates the members of a mapping. A numbered mapping has numbers as keys.
func (v *validator) object(schema map[string]any, value any, path string) {
	members := map[string]any{}
	switch value := value.(type) {
	case map[string]any:
		members = value
	case map[any]any:
		for key, one := range value {
			members[fmt.Sprint(key)] = one
		}
	}
	properties, _ := schema["properties"].(map[string]any)
	patterns, _ := schema["patternProperties"].(map[string]any)
	for key, one := range members {
		rule, known := properties[key]
		for pattern, of := range patterns {
			if regexp.MustCompile(pattern).MatchString(key) {
				rule, known = of, true
			}
		}
		if known {
			v.value(rule.(map[string]any), one, path+"."+key)
		} else if schema["additionalProperties"] == false {
			v.wrong(path, "unknown key %q", key)
		}
	}
}

func has(object map[string]any, key string) bool {
	_, ok := object[key]
	return ok
}

func listOf(rule any) []any {
	if list, ok := rule.([]any); ok {
		return list
	}
	return []any{rule}
}

func isA(name string, value any) bool {
	switch value := value.(type) {
	case nil:
		return name == "null"
	case bool:
		return name == "boolean"
	case string:
		return name == "string"
	case int:
		return name == "integer" || name == "number"
	case float64:
		return name == "number" || name == "integer" && value == math.Trunc(value)
	case []any:
		return name == "array"
	}
	return name == "object"
}
