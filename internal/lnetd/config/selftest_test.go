package config

import (
	"os"
	"path/filepath"
	"regexp"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/lnetd/lnetd/selftest"
)

// A node serves tests only if the configuration enables that.
func TestSelftestIsOffByDefault(t *testing.T) {
	for _, text := range []string{"", "lnetd:\n    selftest:\n", "lnetd:\n    selftest: {memory: 64}\n"} {
		if c := mustParse(t, text); c.Selftest.Enabled {
			t.Errorf("%q: enabled", text)
		}
	}
}

// selftest 10
func TestSelftestSection(t *testing.T) {
	c := mustParse(t, `
lnetd:
    selftest:
        enabled: true
        memory: 3
        units: 100
        tests: 10
        requests: 50
        session_timeout: 0
        rpc_timeout: 5
        brw_srv_workitems: 300
        ping_srv_workitems: 200
        brw_inject_errors: 7
`)
	want := Selftest{Enabled: true, Agent: selftest.Config{
		ClientMemory: 3 << 19, ServerMemory: 3 << 19, MaxUnits: 100, MaxTests: 10, MaxServing: 50,
		SessionTimeout: -time.Second, RPCTimeout: 5 * time.Second,
		BRWWorkItems: 300, PingWorkItems: 200, InjectErrors: 7,
	}}
	if diff := cmp.Diff(want, c.Selftest); diff != "" {
		t.Error(diff)
	}
	if n := c.Selftest.Memory(); n != 3<<20 {
		t.Errorf("memory %d", n)
	}
}

func TestSelftestErrors(t *testing.T) {
	testErrors(t, []errorTest{
		{"key unknown", "lnetd:\n    selftest:\n        enable: 1\n", []string{"f:3: lnetd.selftest.enable: invalid key 'enable'"}},
		{"a word", "lnetd: {selftest: on}\n", []string{"f:1: lnetd.selftest: \"on\" was found, but keys were expected"}},
		{"enabled", "lnetd: {selftest: {enabled: perhaps}}\n", []string{`f:1: lnetd.selftest.enabled: "perhaps" is neither true nor false`}},
		{"memory for nothing", "lnetd: {selftest: {memory: 1}}\n", []string{"f:1: lnetd.selftest.memory: 1 is not in 2 to 1048576"}},
		{"inject", "lnetd: {selftest: {brw_inject_errors: -1}}\n", []string{"f:1: lnetd.selftest.brw_inject_errors: -1 is not in 0 to 2147483647"}},
	})
}

// The example on the page about selftest is valid.
//
// selftest 10
func TestSelftestPage(t *testing.T) {
	page, err := os.ReadFile(filepath.Join("..", "..", "..", "docs", "selftest.md"))
	if err != nil {
		t.Fatal(err)
	}
	examples := regexp.MustCompile("(?s)```yaml\n(.*?)```").FindAllSubmatch(page, -1)
	if len(examples) != 1 {
		t.Fatalf("%d examples", len(examples))
	}
	want := Default().Selftest
	want.Enabled = true
	if c := mustParse(t, string(examples[0][1])); len(c.Warnings) > 0 || !cmp.Equal(want, c.Selftest) {
		t.Errorf("%v; %s", c.Warnings, cmp.Diff(want, c.Selftest))
	}
}
