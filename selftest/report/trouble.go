package report

// Trouble lists the nodes of a target that have counted errors.
type Trouble struct {
	Name  string        `json:"name"`
	Nodes []NodeTrouble `json:"nodes"`
	// Unreachable has the nodes that did not answer.
	Unreachable []NodeResult `json:"unreachable"`
}

// Total returns how many nodes have errors or did not answer.
func (t *Trouble) Total() int { return len(t.Nodes) + len(t.Unreachable) }

// NodeTrouble has the errors that a node has counted, in its session and in all its RPCs.
type NodeTrouble struct {
	NodeInfo
	BRWErrors  uint32 `json:"brw_errors"`
	PingErrors uint32 `json:"ping_errors"`
	Errors     uint32 `json:"errors"`
	Dropped    uint32 `json:"dropped"`
	Expired    uint32 `json:"expired"`
}

// Troubles returns the nodes that have counted errors, per target, as in `show_error`. If session is set,
// only errors of the session count.
func (s Sample) Troubles(session bool) []Trouble {
	list := make([]Trouble, len(s.Targets))
	for k := range s.Targets {
		t := &list[k]
		t.Name, t.Nodes, t.Unreachable = s.Targets[k].Name, []NodeTrouble{}, []NodeResult{}
		for i := range s.Targets[k].Nodes {
			n := &s.Targets[k].Nodes[i]
			if !n.Success {
				t.Unreachable = append(t.Unreachable, n.NodeResult)
				continue
			}
			v := NodeTrouble{
				NodeInfo:  NodeInfo{ID: n.ID, State: n.State},
				BRWErrors: n.Framework.BRWErrors, PingErrors: n.Framework.PingErrors,
			}
			if !session {
				v.Errors, v.Dropped, v.Expired = n.RPCs.Errors, n.RPCs.Dropped, n.RPCs.Expired
			}
			if v.BRWErrors|v.PingErrors|v.Errors|v.Dropped|v.Expired != 0 {
				t.Nodes = append(t.Nodes, v)
			}
		}
	}
	return list
}
