package api

// LstAddGroup is the body of POST /v1/lst/add_group.
type LstAddGroup struct {
	Key  LstKey `json:"key"`
	Name string `json:"name"`
	// IDs are lists of NIDs with ranges, as lst takes them.
	IDs []string `json:"ids,omitempty"`
}

// LstUpdateGroup is the body of POST /v1/lst/update_group: exactly one of Refresh,
// Clean and Remove.
type LstUpdateGroup struct {
	Key  LstKey `json:"key"`
	Name string `json:"name"`
	// Refresh asks inactive nodes again to join the session.
	Refresh bool `json:"refresh,omitempty"`
	// Clean drops the nodes in any of these states: "busy", "down", "unknown".
	Clean []string `json:"clean,omitempty"`
	// Remove drops the nodes of these lists.
	Remove []string `json:"remove,omitempty"`
}
