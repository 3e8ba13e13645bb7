package report

// GroupInfo describes a group.
type GroupInfo struct {
	Name string `json:"name"`
	// InUse reports whether a test uses the group. The nodes of such a group cannot change.
	InUse bool `json:"in_use"`
	Members
}

// GroupAddition is the result of Console.AddGroup.
type GroupAddition struct {
	Lists []Addition `json:"lists"`
	// Deleted reports whether the group was deleted again because no node has joined.
	Deleted bool `json:"deleted"`
	// Compatible reports whether the session lost features because a node does not support them.
	Compatible bool `json:"compatible"`
}

// Addition is the result of Console.AddGroup for one list of NIDs.
type Addition struct {
	IDs string `json:"ids"`
	// Error is set if the list is invalid. No request was then sent to its nodes.
	Error *Error `json:"error,omitempty"`
	// Added reports whether at least one node of the list is in the session.
	Added bool `json:"added"`
	// Result contains the nodes to which a request was sent: those that were not in the session before.
	Result Result `json:"result"`
}

// GroupChange is the result of a command that changes a group.
type GroupChange struct {
	// Result contains the nodes to which a request was sent.
	Result Result `json:"result"`
	// Removed is the number of nodes that were removed from the group. Deleted reports whether the group was
	// deleted because it has no nodes any more.
	Removed int  `json:"removed"`
	Deleted bool `json:"deleted"`
	// Compatible reports whether the session lost features because a node does not support them.
	Compatible bool `json:"compatible"`
}
