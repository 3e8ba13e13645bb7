package report

import (
	"fmt"
	"strings"

	"github.com/lnetd/lnetd/lnet"
)

// State is the state of a node after its last answer (selftest 7.2). States can be combined to a mask.
type State uint8

// The states.
const (
	Active  State = 1 // in this console's session
	Busy    State = 2 // in another session
	Down    State = 4 // did not answer
	Unknown State = 8 // in no session, or not asked yet

	// Invalid is the mask of all states but Active.
	Invalid = Busy | Down | Unknown
)

var stateNames = map[State]string{Active: "Active", Busy: "Busy", Down: "Down", Unknown: "Unknown"}

func (s State) String() string {
	if name, ok := stateNames[s]; ok {
		return name
	}
	return fmt.Sprintf("states %#x", uint8(s))
}

// MarshalText returns String as bytes.
func (s State) MarshalText() ([]byte, error) { return []byte(s.String()), nil }

// UnmarshalText parses the name of one state, in any case.
func (s *State) UnmarshalText(text []byte) error {
	for v, name := range stateNames {
		if strings.EqualFold(name, string(text)) {
			*s = v
			return nil
		}
	}
	return fmt.Errorf("state %q does not exist", text)
}

// Count has the number of nodes in each state.
type Count struct {
	Active  int `json:"active"`
	Busy    int `json:"busy"`
	Down    int `json:"down"`
	Unknown int `json:"unknown"`
	Total   int `json:"total"`
}

// Add counts a node in state s.
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

// NodeInfo describes a node in a list.
type NodeInfo struct {
	ID    lnet.ProcessID `json:"id"`
	State State          `json:"state"`
}

// Members is a list of nodes with the number in each state.
type Members struct {
	Count Count      `json:"count"`
	Nodes []NodeInfo `json:"nodes"`
}
