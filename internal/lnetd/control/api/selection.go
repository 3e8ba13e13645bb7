package api

import (
	"github.com/lnetd/lnetd/lnet"
)

// Selection is the reply to GET /v1/selection: the rules of the typed table, ordered by ID
// (selection 7).
type Selection struct {
	Rules []SelectionRule `json:"rules"`
}

// SelectionRule is a typed rule, and the body of POST and DELETE /v1/selection. A DELETE identifies
// the rule by its ID, its patterns, or both.
type SelectionRule struct {
	// ID identifies the rule and never changes. When a rule is added, nil lets lnetd choose it.
	ID *int `json:"id,omitempty"`
	// Type is "net", "nid" or "peer".
	Type string `json:"type"`
	// Net is the pattern of a net rule, NID of a nid rule, Local and Remote of a peer rule.
	Net    lnet.Pattern `json:"net,omitzero"`
	NID    lnet.Pattern `json:"nid,omitzero"`
	Local  lnet.Pattern `json:"local,omitzero"`
	Remote lnet.Pattern `json:"remote,omitzero"`
	// Priority is 0 for the most preferred.
	Priority uint32 `json:"priority"`
}
