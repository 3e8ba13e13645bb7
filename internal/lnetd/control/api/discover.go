package api

// DiscoverRequest is the body of POST /v1/discover. The reply is a PingReply.
type DiscoverRequest struct {
	// NIDs are discovered one after the other. 0@lo is the local node.
	NIDs []string `json:"nids,omitempty"`
	// Force asks to discover peers again even if lnetd's data about them is up to date.
	Force bool `json:"force,omitempty"`
}
