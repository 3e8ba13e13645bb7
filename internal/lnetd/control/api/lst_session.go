package api

import (
	"math"
	"time"

	"github.com/lnetd/lnetd/lnet"
)

// LstSession describes the console's session.
type LstSession struct {
	Name     string        `json:"name"`
	NID      lnet.NID      `json:"nid"`   // of the console
	Stamp    int64         `json:"stamp"` // milliseconds
	Key      LstKey        `json:"key"`
	Features uint32        `json:"features"`
	Timeout  time.Duration `json:"timeout"`
	Force    bool          `json:"force"`
	Nodes    int           `json:"nodes"`
}

// LstTarget selects the nodes to ping: exactly one of all nodes of the session, a group, the
// clients or servers of a batch, or single NIDs, which need not be in the session.
type LstTarget struct {
	Session bool     `json:"session,omitempty"`
	Group   string   `json:"group,omitempty"`
	Batch   string   `json:"batch,omitempty"`
	Servers bool     `json:"servers,omitempty"` // the batch's servers instead of its clients
	Nodes   []string `json:"nodes,omitempty"`   // lists of NIDs
}

// LstNewSession is the body of POST /v1/lst/new_session.
type LstNewSession struct {
	// Key identifies the session in later commands; 0 lets the console choose one.
	Key  LstKey `json:"key,omitempty"`
	Name string `json:"name"`
	// Timeout is how long the session lives without commands, in seconds; 0 means 300.
	Timeout int `json:"timeout,omitempty"`
	// Force replaces an existing session, here and on the nodes.
	Force bool `json:"force,omitempty"`
	// Features are the features of the session; nil means all.
	Features *uint32 `json:"features,omitempty"`
}

// LstPing is the body of POST /v1/lst/ping.
type LstPing struct {
	Key    LstKey    `json:"key"`
	Target LstTarget `json:"target"`
	// Timeout is the maximum wait in seconds. It is clamped to 3 to 30.
	Timeout int `json:"timeout,omitempty"`
}

// LstTimeoutMax is the maximum timeout of a command, in seconds.
const LstTimeoutMax = math.MaxInt32
