// Package drivers lists the tunables of lnetd's drivers for code that does not link the drivers: the
// conversion of module parameters and lnetdctl. The list is generated from the drivers (tables.json):
//
//	go test ./internal/lnetd/drivers -update
//
// The package starts no goroutine.
package drivers

import (
	_ "embed"
	"encoding/json"

	"github.com/lnetd/lnetd/lnd"
)

//go:embed tables.json
var tables []byte

// Tables returns the tables of all drivers.
func Tables() (list []lnd.Table) {
	if err := json.Unmarshal(tables, &list); err != nil {
		panic("drivers: tables.json: " + err.Error()) // a test reads it
	}
	return list
}
