package config_test

import (
	"bytes"
	"os"
	"path/filepath"
	"testing"

	"github.com/google/go-cmp/cmp"
	"go.yaml.in/yaml/v3"

	"github.com/lnetd/lnetd/internal/lnetd/config"
	"github.com/lnetd/lnetd/internal/lnetd/daemon"
)

// captures returns exports of kernels of 2.15 and 2.17, by name.
func captures(t *testing.T) map[string][]byte {
	t.Helper()
	names, err := filepath.Glob(filepath.Join("testdata", "captures", "*.yaml"))
	if err != nil || len(names) < 30 {
		t.Fatal(len(names), err)
	}
	files := map[string][]byte{}
	for _, name := range names {
		if files[filepath.Base(name)], err = os.ReadFile(name); err != nil {
			t.Fatal(err)
		}
	}
	return files
}

// Exports of kernels are accepted without warnings in block style, in flow style and in JSON,
// with numbers in quotes, and mean the same in all of them.
//
// lnetctl 7 (7)-(8), 8 (3)
func TestCaptures(t *testing.T) {
	forms := map[string]func(*yaml.Node){
		"block": func(*yaml.Node) {},
		"flow":  func(n *yaml.Node) { n.Style = yaml.FlowStyle },
		"quotes": func(n *yaml.Node) {
			if n.Kind == yaml.ScalarNode && n.Tag != "!!null" {
				n.Style, n.Tag = yaml.SingleQuotedStyle, "!!str"
			}
		},
	}
	for name, text := range captures(t) {
		t.Run(name, func(t *testing.T) {
			want := taken(t, text)
			if len(want.NIs) == 0 {
				t.Error("no NI")
			}
			for form, change := range forms {
				if diff := cmp.Diff(want, taken(t, rewritten(t, text, change)), alike); diff != "" {
					t.Errorf("%s: %s", form, diff)
				}
			}
		})
	}
}

// taken returns the configuration of a text without positions.
func taken(t *testing.T, text []byte) config.Config {
	t.Helper()
	c, err := config.Parse("f", text, daemon.AllDrivers().Options())
	if err != nil || len(c.Warnings) > 0 {
		t.Fatalf("%v\nwarnings %v\n%s", err, c.Warnings, text)
	}
	return placeless(c)
}

func placeless(c config.Config) config.Config {
	for k := range c.Peers {
		c.Peers[k].Where = ""
	}
	for k := range c.Routes {
		c.Routes[k].Where = ""
	}
	return c
}

// rewritten returns a text after change was called for each of its nodes.
func rewritten(t *testing.T, text []byte, change func(*yaml.Node)) []byte {
	t.Helper()
	var doc yaml.Node
	if err := yaml.Unmarshal(text, &doc); err != nil {
		t.Fatal(err)
	}
	var walk func(n *yaml.Node)
	walk = func(n *yaml.Node) {
		change(n)
		for _, below := range n.Content {
			walk(below)
		}
	}
	walk(&doc)
	var b bytes.Buffer
	if err := yaml.NewEncoder(&b).Encode(&doc); err != nil {
		t.Fatal(err)
	}
	return b.Bytes()
}
