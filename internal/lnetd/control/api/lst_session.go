package api

import (
	"math"
	"time"

	"github.com/lnetd/lnetd/lnet"
)

// LstSession describes the session of a console.
type LstSession struct {
	Name     string        `json:"name"`
	NID      lnet.NID      `json:"nid"`   // the NID of the console
	Stamp    int64         `json:"stamp"` // when the session was created, in milliseconds
	Key      LstKey        `json:"key"`
	Features uint32        `json:"features"`
	Timeout  time.Duration `json:"timeout"`
	Force    bool          `json:"force"`
	Nodes    int           `json:"nodes"`
}

// LstTarget selects the nodes to ping. Exactly one of Session, Group, Batch and Nodes is set. They stand for
// all nodes of the session, the nodes of a group, the clients or servers of a batch, and single nodes, which
// need not be in the session.
type LstTarget struct {
	Session bool     `json:"session,omitempty"`
	Group   string   `json:"group,omitempty"`
	Batch   string   `json:"batch,omitempty"`
	Servers bool     `json:"servers,omitempty"` // the batch's servers instead of its clients
	Nodes   []string `json:"nodes,omitempty"`   // lists of NIDs
}

// LstNewSession is the body of POST /v1/lst/new_session.
type LstNewSession struct {
	// Key is the key that later commands must give; 0 means that the console chooses one.
	Key  LstKey `json:"key,omitempty"`
	Name string `json:"name"`
	// Timeout is the time in seconds after the last command when the session ends; 0 means 300.
	Timeout int `json:"timeout,omitempty"`
	// Force ends an existing session of this console, and sessions of other consoles on the nodes
	// that join.
	Force bool `json:"force,omitempty"`
	// Features are the features of the session; nil means all.
	Features *uint32 `json:"features,omitempty"`
}

// LstPing is the body of POST /v1/lst/ping.
type LstPing struct {
	Key    LstKey    `json:"key"`
	Target LstTarget `json:"target"`
	// Timeout is the maximum time in seconds to wait for the answers of nodes. A value outside of 3 to
	// 30 is changed to the nearest of these.
	Timeout int `json:"timeout,omitempty"`
}

// LstTimeoutMax is the maximum of the timeouts in commands of lst, in seconds.
const LstTimeoutMax = math.MaxInt32
