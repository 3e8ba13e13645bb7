package api

import (
	"github.com/lnetd/lnetd/lnet"
)

// UDSP is the reply to GET /v1/udsp. It holds the user-defined selection policies (UDSP), ordered by index.
type UDSP struct {
	Rules []UDSPRule `json:"rules"`
}

// UDSPRule is a user-defined selection policy. It is also the body of POST /v1/udsp (lnetctl 4.17).
type UDSPRule struct {
	// Index is the position of the rule in the list. If it is nil when a rule is added, the rule is
	// appended.
	Index *int         `json:"idx,omitempty"`
	Src   lnet.Pattern `json:"src,omitzero"`
	Dst   lnet.Pattern `json:"dst,omitzero"`
	Rte   lnet.Pattern `json:"rte,omitzero"`
	// Priority is the priority of a rule that has only src or only dst; the default is 0. Other
	// rules have no priority.
	Priority *uint32 `json:"priority,omitempty"`
}

// UDSPDeletion is the body of DELETE /v1/udsp. It deletes the rule at Index or, if All is set, all rules.
type UDSPDeletion struct {
	Index *int `json:"idx,omitempty"`
	All   bool `json:"all,omitempty"`
}
