package api

import (
	"time"
)

// LNet selftest (selftest 7, 8): each command of lst is a POST to /v1/lst/COMMAND with the
// session's key in the body. The replies are values of package selftest/report.

// LstPatience is the maximum duration of a command of lst. It suffices for two exchanges with other nodes of
// 30 s each and for their preparation.
const LstPatience = 2 * time.Minute

// LstKey is the key of a session, which commands need. 0 means that there is no key.
type LstKey int64

// Lst is the body of commands of lst that need only the key of the session.
type Lst struct {
	Key LstKey `json:"key"`
}

// LstNamed is the body of commands of lst about the group or batch with a name.
type LstNamed struct {
	Key  LstKey `json:"key"`
	Name string `json:"name,omitempty"`
}

// LstNames holds the names of all groups or batches.
type LstNames struct {
	Names []string `json:"names"`
}
