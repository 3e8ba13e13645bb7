package report

import (
	"fmt"
	"strings"

	"github.com/lnetd/lnetd/lnet"
)

// State is what a node's last answer told of it (selftest 7.2). As a mask it
// stands for several.
type State uint8

// The states.
const (
	Active  State = 1 // it is in our session
	Busy    State = 2 // it is in another's
	Down    State = 4 // it did not answer
	Unknown State = 8 // it is in none, or was not asked yet

	// Invalid are all but Active.
	Invalid = Busy | Down | Unknown
)

var stateNames = map[State]string{Active: "Active", Busy: "Busy", Down: "Down", Unknown: "Unknown"}

func (s State) String() string {
	if name, ok := stateNames[s]; ok {
		return name
	}
	return fmt.Sprintf("states %#x", uint8(s))
}

// MarshalText is String.
func (s State) MarshalText() ([]byte, error) { return []byte(s.String()), nil }

// UnmarshalText reads the name of one state, in whatever case.
func (s *State) UnmarshalText(text []byte) error {
	for v, name := range stateNames {
		if strings.EqualFold(name, string(text)) {
			*s = v
			return nil
		}
	}
	return fmt.Errorf("state %q: there is none of that name", text)
}

// Count is how many nodes are in each state.
type Count struct {
	Active  int `json:"active"`
	Busy    int `json:"busy"`
	Down    int `json:"down"`
	Unknown int `json:"unknown"`
	Total   int `json:"total"`
}

// Add counts a node in a state.
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

// NodeInfo is a node in a list.
type NodeInfo struct {
	ID    lnet.ProcessID `json:"id"`
	State State          `json:"state"`
}

// Members are nodes and how many of them are in each state.
type Members struct {
	Count Count      `json:"count"`
	Nodes []NodeInfo `json:"nodes"`
}
