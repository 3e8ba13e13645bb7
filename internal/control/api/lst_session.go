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

// LstTarget says which nodes are pinged: exactly one of the session's, a group's,
// a batch's clients or servers, or some by NID, which need not be in the session.
type LstTarget struct {
	Session bool     `json:"session,omitempty"`
	Group   string   `json:"group,omitempty"`
	Batch   string   `json:"batch,omitempty"`
	Servers bool     `json:"servers,omitempty"` // of the batch
	Nodes   []string `json:"nodes,omitempty"`   // lists of NIDs
}

// LstNewSession is the body of POST /v1/lst/new_session.
type LstNewSession struct {
	// Key is what later commands name; 0: the console makes one up.
	Key  LstKey `json:"key,omitempty"`
	Name string `json:"name"`
	// Timeout is how long the session lives without commands, in seconds; 0:
	// 300.
	Timeout int `json:"timeout,omitempty"`
	// Force takes the place of a session that there is, here and on the nodes.
	Force bool `json:"force,omitempty"`
	// Features are those of the session; not given: all.
	Features *uint32 `json:"features,omitempty"`
}

// LstPing is the body of POST /v1/lst/ping.
type LstPing struct {
	Key    LstKey    `json:"key"`
	Target LstTarget `json:"target"`
	// Timeout bounds the wait, in seconds; it is held to 3 to 30.
	Timeout int `json:"timeout,omitempty"`
}

// LstTimeoutMax is the longest time that a command takes, in seconds.
const LstTimeoutMax = math.MaxInt32
