package drivers

import (
	"bytes"
	"encoding/json"
	"flag"
	"os"
	"slices"
	"testing"

	"github.com/lnetd/lnetd/lnd"
	"github.com/lnetd/lnetd/lnd/o2iblnd"
	"github.com/lnetd/lnetd/lnd/socklnd"
)

var update = flag.Bool("update", false, "write tables.json")

// TestUnusedParametersAreNoTunables checks that no parameter is both used and declared unused.
func TestUnusedParametersAreNoTunables(t *testing.T) {
	for _, table := range []lnd.Table{socklnd.Table(), o2iblnd.Table()} {
		for _, o := range table.Tunables {
			if slices.Contains(table.Unused, o.Parameter) {
				t.Errorf("%s: %s is a tunable", table.Module, o.Parameter)
			}
		}
	}
}

// The list is that of the drivers.
func TestTablesAreUpToDate(t *testing.T) {
	want, err := json.MarshalIndent([]lnd.Table{socklnd.Table(), o2iblnd.Table()}, "", " ")
	if err != nil {
		t.Fatal(err)
	}
	want = append(want, '\n')
	if *update {
		if err := os.WriteFile("tables.json", want, 0o644); err != nil {
			t.Fatal(err)
		}
		tables = want
	}
	if !bytes.Equal(tables, want) {
		t.Error("tables.json is stale: go test ./internal/lnetd/drivers -update")
	}
	if got, err := json.MarshalIndent(Tables(), "", " "); err != nil || !bytes.Equal(append(got, '\n'), want) {
		t.Errorf("tables are read as %s, %v", got, err)
	}
}
