package api

// LstAddGroup is the body of POST /v1/lst/add_group.
type LstAddGroup struct {
	Key  LstKey `json:"key"`
	Name string `json:"name"`
	// IDs are lists of NIDs with ranges, in the syntax of lst.
	IDs []string `json:"ids,omitempty"`
}

// LstUpdateGroup is the body of POST /v1/lst/update_group. Exactly one of Refresh, Clean and Remove
// is set.
type LstUpdateGroup struct {
	Key  LstKey `json:"key"`
	Name string `json:"name"`
	// Refresh invites inactive nodes to the session again.
	Refresh bool `json:"refresh,omitempty"`
	// Clean removes the nodes in any of these states: "busy", "down", "unknown".
	Clean []string `json:"clean,omitempty"`
	// Remove removes the nodes of these lists.
	Remove []string `json:"remove,omitempty"`
}
