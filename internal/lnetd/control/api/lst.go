package api

import (
	"time"
)

// LNet selftest (selftest 7, 8): each command of lst is a POST to /v1/lst/COMMAND with the
// session's key in the body. The replies are values of package selftest/report.

// LstPatience is the timeout of a command of lst, including its waits: two transactions of 30 s and
// their preparation.
const LstPatience = 2 * time.Minute

// LstKey is the key of a session. 0 stands for no key.
type LstKey int64

// Lst is the body of commands that need only the key.
type Lst struct {
	Key LstKey `json:"key"`
}

// LstNamed is the body of commands about a group or a batch. Without a name, the command lists all
// groups or batches.
type LstNamed struct {
	Key  LstKey `json:"key"`
	Name string `json:"name,omitempty"`
}

// LstNames is a list of groups or batches.
type LstNames struct {
	Names []string `json:"names"`
}
