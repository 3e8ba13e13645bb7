package config_test

import (
	"encoding/json"
	"fmt"
	"regexp"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"

	"github.com/lnetd/lnetd/internal/lnetd/config"
	"github.com/lnetd/lnetd/internal/lnetd/daemon"
	"github.com/lnetd/lnetd/lnd"
	"github.com/lnetd/lnetd/lnet"
)

// alike compares NIDs, and ignores the positions of NIs.
var alike = cmp.Options{
	cmp.Comparer(func(a, b lnet.NID) bool { return a == b }), cmpopts.IgnoreFields(config.NI{}, "Where"),
}

// The reference with lnetd's own drivers changes nothing and gives no warning.
//
// lnetctl 14 (1)
func TestReference(t *testing.T) {
	options := daemon.AllDrivers().Options()
	c, err := config.Parse("reference.yaml", config.Reference(options), options)
	if err != nil {
		t.Fatal(err)
	}
	for _, w := range c.Warnings {
		t.Error(w)
	}
	want := config.Default()
	want.NIs = []config.NI{{
		Net: lnet.MakeNet(lnet.TypeTCP, 0), Device: "eth0",
		Tunables: lnd.Tunables{PeerTimeout: 180 * time.Second, PeerCredits: 8, Credits: 256},
		Options:  lnd.Values{"conns_per_peer": 0, "tos": -1, "busy_poll": 0},
	}}
	// These have the written value only if the file contains it.
	want.Drivers = map[lnet.NetType]config.Values{
		lnet.TypeTCP: {"port": "988", "connect_port": "988", "accept": "secure"},
	}
	want.Given = c.Given
	if diff := cmp.Diff(want, c, alike); diff != "" {
		t.Errorf("the reference changes something (-default +reference):\n%s", diff)
	}
}

// The reference contains every parameter of a driver with its default and its help.
func TestReferenceOfDrivers(t *testing.T) {
	options := daemon.AllDrivers().Options()
	lines := strings.Split(string(config.Reference(options)), "\n")
	for _, d := range options {
		k := 0
		for k < len(lines) && lines[k] != "    "+d.Section+":" {
			k++
		}
		for _, o := range d.Tunables {
			if k++; k >= len(lines) {
				t.Fatalf("the reference ends before %s.%s", d.Section, o.Parameter)
			}
			value, help, _ := strings.Cut(strings.TrimSpace(lines[k]), " # ")
			if strings.TrimSpace(value) != fmt.Sprintf("%s: %d", o.Parameter, o.Default) || o.Help == "" || !strings.HasSuffix(help, o.Help) {
				t.Errorf("%s.%s, %d, %q: %s", d.Section, o.Parameter, o.Default, o.Help, lines[k])
			}
		}
	}
}

// The examples in the reference's comments are valid.
func TestReferenceExamples(t *testing.T) {
	options := daemon.AllDrivers().Options()
	text := examplesOfReference()
	c, err := config.Parse("f", text, options)
	if err != nil {
		t.Fatal(err)
	}
	for _, w := range c.Warnings {
		t.Error(w)
	}
	if len(c.Peers) != 1 || len(c.Routes) != 4 || len(c.Rules) != 3 || len(c.TypedRules) != 2 || len(c.Site.Rules) != 3 ||
		len(c.Transport.Rules) != 1 || len(c.Proxies.NetTypes) != 1 || len(c.Proxies.Rules) != 1 {
		t.Errorf("%d peers, %d routes, %d rules, %d typed rules, %d rules of the site, %d of clients:\n%s",
			len(c.Peers), len(c.Routes), len(c.Rules), len(c.TypedRules), len(c.Site.Rules), len(c.Transport.Rules), text)
	}
}

// examplesOfReference returns the examples in the reference's comments.
func examplesOfReference() []byte {
	var text strings.Builder
	for line := range strings.Lines(string(config.Reference(daemon.AllDrivers().Options()))) {
		if _, example, ok := strings.Cut(line, "#: "); ok {
			text.WriteString(example)
		}
	}
	return []byte(text.String())
}

// The reference or its examples contain every key of the schema, except for alternative forms and
// keys that describe state.
func TestReferenceHasEveryKey(t *testing.T) {
	options := daemon.AllDrivers().Options()
	var schema map[string]any
	if err := json.Unmarshal(config.Schema(options), &schema); err != nil {
		t.Fatal(err)
	}
	other := regexp.MustCompile(`^\.(peers|selection|statistics|max_intf|net\.(net|intf|pattern|interfaces|nid|tunables|lnd tunables|CPT)|` +
		`ip2nets\.(lnd tunables|CPT)|udsp\.priority|lnetd\.selection\.(nid))(\.|$)|\.(intf|nid|max_intf|lnd tunables\.timeout)$`)
	text := string(config.Reference(options)) + string(examplesOfReference())
	var walk func(schema map[string]any, path string)
	walk = func(schema map[string]any, path string) {
		properties, _ := schema["properties"].(map[string]any)
		for key, below := range properties {
			at := path + "." + key
			below, _ := below.(map[string]any)
			global := path == "" && below["properties"] == nil && below["items"] == nil
			if len(below) == 0 || other.MatchString(at) || global {
				continue
			}
			if !regexp.MustCompile(`(?m)(^|[-{ ])` + regexp.QuoteMeta(key) + `:`).MatchString(text) {
				t.Errorf("the reference lacks %s", at)
			}
			walk(below, at)
		}
		if items, ok := schema["items"].(map[string]any); ok {
			walk(items, path)
		}
	}
	walk(schema, "")
}
