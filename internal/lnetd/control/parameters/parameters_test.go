package parameters_test

import (
	"bytes"
	"encoding/json"
	"flag"
	"os"
	"testing"

	"github.com/lnetd/lnetd/internal/lnetd/config"
	"github.com/lnetd/lnetd/internal/lnetd/control/parameters"
)

var update = flag.Bool("update", false, "write parameters.json")

func marshal(t *testing.T, list []parameters.Parameter) []byte {
	t.Helper()
	text, err := json.MarshalIndent(list, "", " ")
	if err != nil {
		t.Fatal(err)
	}
	return append(text, '\n')
}

// The list is that of internal/lnetd/config.
func TestTableIsUpToDate(t *testing.T) {
	want := marshal(t, config.ParameterTable())
	if *update {
		if err := os.WriteFile("parameters.json", want, 0o644); err != nil {
			t.Fatal(err)
		}
		return
	}
	have, err := os.ReadFile("parameters.json")
	if err != nil {
		t.Fatal(err)
	}
	if !bytes.Equal(have, want) {
		t.Error("parameters.json is stale: go test ./internal/lnetd/control/parameters -update")
	}
	if got := marshal(t, parameters.Table()); !bytes.Equal(got, want) {
		t.Errorf("the table is read as %s", got)
	}
}
