package api

import (
	"time"
)

// LNet selftest (selftest 7, 8): each command of lst is a POST of its name below
// /v1/lst, with the session's key in the body. Their
// replies are what a console tells: values of package selftest/report.

// LstPatience bounds a command of lst with all that it waits for: two
// transactions of 30 s and what leads to them.
const LstPatience = 2 * time.Minute

// LstKey is the key of a session; 0 is none.
type LstKey int64

// Lst is the body of commands that need nothing but the key.
type Lst struct {
	Key LstKey `json:"key"`
}

// LstNamed is the body of commands about a group or a batch; without a name, of
// those that list all.
type LstNamed struct {
	Key  LstKey `json:"key"`
	Name string `json:"name,omitempty"`
}

// LstNames is a list of groups or batches.
type LstNames struct {
	Names []string `json:"names"`
}
