package api

// LstAddGroup is the body of POST /v1/lst/add_group.
type LstAddGroup struct {
	Key  LstKey `json:"key"`
	Name string `json:"name"`
	// IDs are the nodes to add, as lists of NIDs with ranges in the syntax of lst.
	IDs []string `json:"ids,omitempty"`
}

// LstUpdateGroup is the body of POST /v1/lst/update_group. Exactly one of Refresh, Clean and Remove
// is set.
type LstUpdateGroup struct {
	Key  LstKey `json:"key"`
	Name string `json:"name"`
	// Refresh asks the nodes of the group that are not active to join the session again.
	Refresh bool `json:"refresh,omitempty"`
	// Clean removes the nodes of the group that are in one of these states: "busy", "down", "unknown".
	Clean []string `json:"clean,omitempty"`
	// Remove removes these nodes from the group. They are lists of NIDs as in LstAddGroup.IDs.
	Remove []string `json:"remove,omitempty"`
}
