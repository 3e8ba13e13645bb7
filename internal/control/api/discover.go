package api

// DiscoverRequest is the body of POST /v1/discover. The reply is a PingReply.
type DiscoverRequest struct {
	// NIDs are discovered one after the other; 0@lo is the node itself.
	NIDs []string `json:"nids,omitempty"`
	// Force discovers peers that are up to date too.
	Force bool `json:"force,omitempty"`
}
