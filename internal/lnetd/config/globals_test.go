package config

import (
	"testing"

	"github.com/lnetd/lnetd/discovery"
)

// discovery, in "global" and in its older form, is a number or the name of a mode.
//
// lnetctl 11 (10)
func TestDiscoveryInDocuments(t *testing.T) {
	for value, want := range map[string]discovery.Mode{
		"0": discovery.Off, "1": discovery.On, "2": discovery.On, "off": discovery.Off, "on": discovery.On, `"on"`: discovery.On, "verify": discovery.Verify,
	} {
		for _, text := range []string{"global: {discovery: " + value + "}", "discovery: " + value} {
			if got := mustParse(t, text).Parameters.Discovery; got != want {
				t.Errorf("%s: %v, want %v", text, got, want)
			}
		}
	}
}
