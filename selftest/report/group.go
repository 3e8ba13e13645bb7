package report

// GroupInfo describes a group.
type GroupInfo struct {
	Name string `json:"name"`
	// InUse reports whether a test uses the group. If so, it cannot change.
	InUse bool `json:"in_use"`
	Members
}

// GroupAddition is the result of AddGroup.
type GroupAddition struct {
	Lists []Addition `json:"lists"`
	// Deleted reports whether no node joined, so that the group was deleted.
	Deleted bool `json:"deleted"`
	// Compatible reports whether the session lost features because of an old node.
	Compatible bool `json:"compatible"`
}

// Addition is the result for one list of NIDs.
type Addition struct {
	IDs string `json:"ids"`
	// Error is set if the list is invalid. Then no node was asked.
	Error *Error `json:"error,omitempty"`
	// Added reports whether at least one node of the list is in the session.
	Added bool `json:"added"`
	// Result has the nodes that were asked, which are those new in the session.
	Result Result `json:"result"`
}

// GroupChange is the result of changing a group.
type GroupChange struct {
	// Result has the nodes that were asked.
	Result Result `json:"result"`
	// Removed is how many nodes were removed from the group. Deleted reports whether these were all
	// nodes, so that the group was deleted.
	Removed int  `json:"removed"`
	Deleted bool `json:"deleted"`
	// Compatible reports whether the session lost features because of an old node.
	Compatible bool `json:"compatible"`
}
