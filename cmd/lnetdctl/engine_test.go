package main

import (
	"os/exec"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
)

// lnetdctl is a client of lnetd: it links only values and codecs of the engine, and the drivers' contract.
func TestNoEngine(t *testing.T) {
	out, err := exec.Command("go", "list", "-deps", ".").Output()
	if err != nil {
		t.Fatal(err)
	}
	const module = "github.com/lnetd/lnetd/"
	var own []string
	for _, path := range strings.Fields(string(out)) {
		if name, ok := strings.CutPrefix(path, module); ok {
			own = append(own, name)
		}
	}
	want := []string{
		"lnet", "internal/lnetd/spelling", "cmd/internal/cli", "internal/lnetd/control/api", "selftest/latency", "selftest/message", "selftest/report",
		"internal/lnetd/control/endpoint", "internal/lnetd/control/client", "internal/lnetd/diagnosis",
		"internal/lnetd/doctor", "internal/lnetd/bundle", "memory", "lnd", "internal/lnetd/control/parameters",
		"internal/lnetd/drivers", "internal/lnetd/modparam", "internal/lnetd/rates", "internal/lnetd/svg", "internal/lnetd/topology", "cmd/lnetdctl",
	}
	if diff := cmp.Diff(want, own); diff != "" {
		t.Errorf("lnetdctl links (-want +got):\n%s", diff)
	}
}
