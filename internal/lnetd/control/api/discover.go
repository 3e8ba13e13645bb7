package api

// DiscoverRequest is the body of POST /v1/discover. The reply is a PingReply.
type DiscoverRequest struct {
	// NIDs are discovered one after the other. 0@lo is the local node.
	NIDs []string `json:"nids,omitempty"`
	// Force also discovers peers that are up to date.
	Force bool `json:"force,omitempty"`
}
