package report

// Trouble lists the nodes of one target that have counted errors or did not reply.
type Trouble struct {
	Name  string        `json:"name"`
	Nodes []NodeTrouble `json:"nodes"`
	// Unreachable contains the nodes that did not reply.
	Unreachable []NodeResult `json:"unreachable"`
}

// Total returns the number of nodes that have counted errors or did not reply.
func (t *Trouble) Total() int { return len(t.Nodes) + len(t.Unreachable) }

// NodeTrouble contains the errors that a node has counted. BRWErrors and PingErrors are those of tests in its
// session; the others are those of all its RPCs.
type NodeTrouble struct {
	NodeInfo
	BRWErrors  uint32 `json:"brw_errors"`
	PingErrors uint32 `json:"ping_errors"`
	Errors     uint32 `json:"errors"`
	Dropped    uint32 `json:"dropped"`
	Expired    uint32 `json:"expired"`
}

// Troubles returns for each target the nodes that have counted errors, as `show_error` prints them. If
// session is set, only errors of tests in the session count.
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
