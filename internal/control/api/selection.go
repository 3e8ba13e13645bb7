package api

import (
	"github.com/lnetd/lnetd/lnet"
)

// Selection is the reply to GET /v1/selection: the rules of the typed table by
// ID (selection 7).
type Selection struct {
	Rules []SelectionRule `json:"rules"`
}

// SelectionRule is a typed rule: the body of POST /v1/selection, and of DELETE
// /v1/selection, where the ID, the patterns or both name the rule.
type SelectionRule struct {
	// ID is the rule's for good. To add one, nil leaves it open.
	ID *int `json:"id,omitempty"`
	// Type is "net", "nid" or "peer".
	Type string `json:"type"`
	// Net is the pattern of a net rule, NID that of a nid rule, Local and
	// Remote are those of a peer rule.
	Net    lnet.Pattern `json:"net,omitzero"`
	NID    lnet.Pattern `json:"nid,omitzero"`
	Local  lnet.Pattern `json:"local,omitzero"`
	Remote lnet.Pattern `json:"remote,omitzero"`
	// Priority is 0 for the best.
	Priority uint32 `json:"priority"`
}
