package api

import (
	"github.com/lnetd/lnetd/lnet"
)

// UDSP is the reply to GET /v1/udsp: the user policies by place.
type UDSP struct {
	Rules []UDSPRule `json:"rules"`
}

// UDSPRule is a user policy, and the body of POST /v1/udsp (lnetctl 4.17).
type UDSPRule struct {
	// Index is the rule's place. To add one, nil is the end.
	Index *int         `json:"idx,omitempty"`
	Src   lnet.Pattern `json:"src,omitzero"`
	Dst   lnet.Pattern `json:"dst,omitzero"`
	Rte   lnet.Pattern `json:"rte,omitzero"`
	// Priority is that of a rule with src or dst alone, 0 if it is not given;
	// others have none.
	Priority *uint32 `json:"priority,omitempty"`
}

// UDSPDeletion is the body of DELETE /v1/udsp: one rule, or all.
type UDSPDeletion struct {
	Index *int `json:"idx,omitempty"`
	All   bool `json:"all,omitempty"`
}
