package api

import (
	"github.com/lnetd/lnetd/lnet"
)

// Selection is the reply to GET /v1/selection. It holds the "selection" rules, ordered by ID (selection 7).
type Selection struct {
	Rules []SelectionRule `json:"rules"`
}

// SelectionRule is a "selection" rule. It is also the body of POST /v1/selection, and of DELETE
// /v1/selection, which identifies the rule by its ID, its patterns, or both.
type SelectionRule struct {
	// ID identifies the rule and never changes. If it is nil when a rule is added, lnetd chooses it.
	ID *int `json:"id,omitempty"`
	// Type is "net", "nid" or "peer".
	Type string `json:"type"`
	// A rule has the patterns that its type requires: a net rule Net, a nid rule NID, and a peer rule
	// Local and Remote.
	Net    lnet.Pattern `json:"net,omitzero"`
	NID    lnet.Pattern `json:"nid,omitzero"`
	Local  lnet.Pattern `json:"local,omitzero"`
	Remote lnet.Pattern `json:"remote,omitzero"`
	// Priority is the priority that the rule gives. A smaller number is preferred.
	Priority uint32 `json:"priority"`
}
