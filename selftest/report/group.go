package report

// GroupInfo describes a group.
type GroupInfo struct {
	Name string `json:"name"`
	// InUse tells that a test uses the group, so that it cannot change.
	InUse bool `json:"in_use"`
	Members
}

// GroupAddition is what came of AddGroup.
type GroupAddition struct {
	Lists []Addition `json:"lists"`
	// Deleted tells that no node came, so that there is no group now.
	Deleted bool `json:"deleted"`
	// Compatible tells that the session has lost features to an old node.
	Compatible bool `json:"compatible"`
}

// Addition is what came of one list of NIDs.
type Addition struct {
	IDs string `json:"ids"`
	// Error says what is wrong with the list, so that nobody was asked.
	Error *Error `json:"error,omitempty"`
	// Added tells that at least one node of the list is in the session.
	Added bool `json:"added"`
	// Result are the nodes that were asked: new ones.
	Result Result `json:"result"`
}

// GroupChange is what came of changing a group.
type GroupChange struct {
	// Result are the nodes that were asked.
	Result Result `json:"result"`
	// Removed is how many nodes are not in the group any more; Deleted tells that
	// they were all, so that there is no group now.
	Removed int  `json:"removed"`
	Deleted bool `json:"deleted"`
	// Compatible tells that the session has lost features to an old node.
	Compatible bool `json:"compatible"`
}
