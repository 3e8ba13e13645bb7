package api

import (
	"github.com/lnetd/lnetd/lnet"
)

// UDSP is the reply to GET /v1/udsp: the user policies, ordered by index.
type UDSP struct {
	Rules []UDSPRule `json:"rules"`
}

// UDSPRule is a user policy, and the body of POST /v1/udsp (lnetctl 4.17).
type UDSPRule struct {
	// Index is the rule's position. When a rule is added, nil appends it.
	Index *int         `json:"idx,omitempty"`
	Src   lnet.Pattern `json:"src,omitzero"`
	Dst   lnet.Pattern `json:"dst,omitzero"`
	Rte   lnet.Pattern `json:"rte,omitzero"`
	// Priority is the priority of a rule that has only src or only dst; the default is 0. Other
	// rules have no priority.
	Priority *uint32 `json:"priority,omitempty"`
}

// UDSPDeletion is the body of DELETE /v1/udsp. It deletes one rule, or all.
type UDSPDeletion struct {
	Index *int `json:"idx,omitempty"`
	All   bool `json:"all,omitempty"`
}
