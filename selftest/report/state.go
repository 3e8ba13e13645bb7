package report

import (
	"fmt"
	"strings"

	"github.com/lnetd/lnetd/lnet"
)

// State is the state of a node according to its last reply (selftest 7.2). Several states can be combined to
// a mask.
type State uint8

// The states.
const (
	Active  State = 1 // in the session of this console
	Busy    State = 2 // in the session of another console
	Down    State = 4 // has not replied
	Unknown State = 8 // in no session, or no request was sent yet

	// Invalid is the mask of all states except Active.
	Invalid = Busy | Down | Unknown
)

var stateNames = map[State]string{Active: "Active", Busy: "Busy", Down: "Down", Unknown: "Unknown"}

func (s State) String() string {
	if name, ok := stateNames[s]; ok {
		return name
	}
	return fmt.Sprintf("states %#x", uint8(s))
}

// MarshalText returns the result of String.
func (s State) MarshalText() ([]byte, error) { return []byte(s.String()), nil }

// UnmarshalText parses the name of one state. Upper and lower case are equal.
func (s *State) UnmarshalText(text []byte) error {
	for v, name := range stateNames {
		if strings.EqualFold(name, string(text)) {
			*s = v
			return nil
		}
	}
	return fmt.Errorf("state %q does not exist", text)
}

// Count contains the number of nodes in each state.
type Count struct {
	Active  int `json:"active"`
	Busy    int `json:"busy"`
	Down    int `json:"down"`
	Unknown int `json:"unknown"`
	Total   int `json:"total"`
}

// Add adds a node in state s to the count.
func (c *Count) Add(s State) {
	c.Total++
	switch s {
	case Active:
		c.Active++
	case Busy:
		c.Busy++
	case Down:
		c.Down++
	default:
		c.Unknown++
	}
}

// NodeInfo describes one node in a list of nodes.
type NodeInfo struct {
	ID    lnet.ProcessID `json:"id"`
	State State          `json:"state"`
}

// Members is a list of nodes, together with the number of nodes in each state.
type Members struct {
	Count Count      `json:"count"`
	Nodes []NodeInfo `json:"nodes"`
}
